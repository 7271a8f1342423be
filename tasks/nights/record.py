"""Nights in the store, and the nights that a run measures.

A night is a row of `verdicts`, of metric `night`, from its beginning on: whether it was accepted
and why; later nights are compared with the last accepted one. An interrupted night keeps its first
row, which is inconclusive.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import date, datetime, timedelta
from typing import Any

import sqlalchemy as sa

from tutti.storage import Catalog, aware, content_hash
from tutti.storage import catalog as cat
from tutti.tasks.nights.spec import Night, NightFile
from tutti.tasks.scoring.statistics import Word
from tutti.tasks.sweeps import SuiteError

METRIC = "night"
BY_HAND = "by hand: "
BEGUN = "begun; it has no verdict yet, or its run was cut off"


@dataclass(frozen=True)
class Record:
    """A night's verdict and its reasons."""

    night: Night
    verdict: Word = "inconclusive"
    reason: str = BEGUN
    accepted: str | None = None  # why it may be a baseline; None where it may not
    whole: bool = False  # whether all of it is measured, or a stage that failed ended it
    baseline: str | None = None  # the label of the night that it was compared with
    sweeps: Mapping[str, str] = field(default_factory=dict)  # stage to the id of its sweep
    at: datetime = field(default_factory=cat.now)  # when this was written
    by_hand: bool = False  # whether somebody accepted it by `tutti gate --accept`
    has_report: bool = True  # whether no error kept its report from being written. Not stored.

    @property
    def alerts(self) -> bool:
        """Whether the night needs attention: it was worse, lacks a verdict, or has no report."""
        return self.verdict == "worse" or self.accepted is None or not self.has_report

    def without_report(self, error: Exception) -> "Record":
        reason = f"{self.reason}; no report: {words_of(error)}"
        return replace(self, reason=reason, has_report=False)


def words_of(error: Exception) -> str:
    lines = str(error).strip().splitlines() or [""]
    return f"{type(error).__name__}: {lines[0]}"


def begin_night(catalog: Catalog, night: Night) -> None:
    """Enter a night before its first sample; a known night keeps its row."""
    with catalog.transaction() as connection:
        cat.insert_if_absent(connection, cat.verdicts, _row(Record(night)))


def enter_night(catalog: Catalog, record: Record) -> Record:
    """Store a night's verdict; return the stored one.

    A night accepted by hand stays accepted; a complete night keeps its verdict if a later run is
    incomplete.
    """
    known = night_records(catalog, record.night.name).get(record.night.date)
    if known is not None and known.whole and not record.whole:
        return known
    if known is not None and known.by_hand:
        record = replace(record, accepted=known.accepted, by_hand=True)
    catalog.upsert(cat.verdicts, _row(record))
    return record


def accept_night(catalog: Catalog, label: str, why: str) -> Record:
    """Make a night a baseline by hand. Raises SuiteError for an unknown night or an empty `why`."""
    known = {each.night.label: each for each in _all(catalog)}
    if label not in known:
        there = ", ".join(sorted(known)) or "none yet"
        raise SuiteError(f"no night {label!r}; nights: {there}")
    if not why.strip():
        raise SuiteError("--why: say why the night is accepted; later verdicts show it")
    record = replace(known[label], accepted=BY_HAND + why.strip(), by_hand=True)
    catalog.upsert(cat.verdicts, _row(record))
    return record


def night_records(catalog: Catalog, name: str) -> dict[date, Record]:
    found = [each for each in _all(catalog) if each.night.name == name]
    return {each.night.date: each for each in sorted(found, key=lambda each: each.night.date)}


def last_accepted_night(catalog: Catalog, night: Night) -> Record | None:
    """The baseline of `night`: the latest accepted one of an earlier date."""
    found = night_records(catalog, night.name).items()
    fit = [each for day, each in found if day < night.date and each.accepted is not None]
    return fit[-1] if fit else None


_DETAIL = ("accepted", "by_hand", "whole", "baseline", "sweeps")
"""Fields of a `Record` that are in the row's detail."""


def _all(catalog: Catalog) -> list[Record]:
    records = []
    for row in catalog.rows(sa.select(cat.verdicts).where(cat.verdicts.c.metric == METRIC)):
        detail = json.loads(row["detail"])
        night = Night(detail["name"], date.fromisoformat(detail["date"]))
        reason = str(row["reason"]).removeprefix(f"{night.label}: ")
        fields = {name: detail[name] for name in _DETAIL}
        at = aware(row["created_at"])
        records.append(Record(night, row["verdict"], reason, **fields, at=at))
    return records


def _row(record: Record) -> dict[str, Any]:
    night = record.night
    detail: dict[str, Any] = {"name": night.name, "date": night.date.isoformat()}
    detail |= {name: getattr(record, name) for name in _DETAIL} | {"sweeps": dict(record.sweeps)}
    return {
        "verdict_id": f"verdict:{content_hash([METRIC, night.label])}",
        "sweep_id": next(reversed(list(record.sweeps.values())), None),
        "cell_a": "",
        "cell_b": "",
        "metric": METRIC,
        "verdict": record.verdict,
        "reason": f"{night.label}: {record.reason}",
        "detail": json.dumps(detail),
        "created_at": record.at,
    }


A_MINUTE = timedelta(minutes=1)  # cron knows none shorter
RESUMED_FOR = timedelta(days=1)  # after that a night's halves would be of two different days


@dataclass(frozen=True)
class Due:
    """The nights that a run measures."""

    nights: tuple[Night, ...]
    notes: tuple[str, ...] = ()  # notes shown with the result


def nights_due(
    file: NightFile,
    known: Mapping[date, Record],
    scheduled: datetime,
    now: datetime,
    asked: date | None = None,
) -> Due:
    """Return the nights to measure by a run's scheduled time; or the one in `asked`.

    If the next planned night is also due by then, only that one is measured.
    """
    if asked is not None:
        return Due((Night(file.name, asked),))
    own, latest = file.planned(scheduled), file.planned(max(scheduled, now))
    if own is None or latest is None:  # no schedule
        return Due((Night(file.name, scheduled.date()),))
    tonight = Night(file.name, latest.date())
    if own < latest:
        note = f"this run was due for {own.date()}; {tonight.label} is the latest that is due"
        return Due((tonight,), (note,))
    if scheduled - own >= A_MINUTE:  # by hand: somebody waits for one night, not for two
        return Due((tonight,))
    earlier = file.planned(latest - A_MINUTE)
    assert earlier is not None, "the file has a schedule"
    before = Night(file.name, earlier.date())
    record = known.get(before.date)
    if not any(each < tonight.date for each in known) or (record is not None and record.whole):
        return Due((tonight,))
    what = f"{before.label} {'was missed' if record is None else 'is not whole'}"
    if not file.catch_up:
        return Due((tonight,), (f"{what}, and the file does not ask to catch up",))
    if record is not None and now - record.at >= RESUMED_FOR:
        return Due((tonight,), (f"{what}, and a day has passed since",))
    return Due((before, tonight), (f"{what}: it is measured first, under its own date",))
