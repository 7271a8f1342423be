"""Which nights a run measures: tonight's, and the one before it where that was missed or cut off.

In: the file, what is known of earlier nights, when the run was meant to start and when it does.
Out: the nights in order, and in words why. Nothing here reads a clock.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date, datetime, timedelta

from tutti.tasks.nights.record import Record
from tutti.tasks.nights.spec import Night, NightFile

A_MINUTE = timedelta(minutes=1)  # cron knows none shorter
RESUMED_FOR = timedelta(days=1)  # after that a night's halves would be of two different days


@dataclass(frozen=True)
class Due:
    """What a run is to do."""

    nights: tuple[Night, ...]
    notes: tuple[str, ...] = ()
    """What whoever reads the result should know."""


def nights_due(
    file: NightFile,
    known: Mapping[date, Record],
    scheduled: datetime,
    now: datetime,
    asked: date | None = None,
) -> Due:
    """See the module; `asked` names one night, and no other is looked at.

    The time a run was scheduled for decides its date, however late it starts. Only where the next
    planned night is due by then as well is that one measured, once, and not each that was missed.
    """
    if asked is not None:
        return Due((Night(file.name, asked),))
    own, latest = file.planned(scheduled), file.planned(max(scheduled, now))
    if own is None or latest is None:  # no schedule
        return Due((Night(file.name, scheduled.date()),))
    tonight = Night(file.name, latest.date())
    if own < latest:
        said = f"this run was due for {own.date()}; {tonight.label} is the latest that is due"
        return Due((tonight,), (said,))
    if scheduled - own >= A_MINUTE:  # by hand: somebody waits for one night, not for two
        return Due((tonight,))
    earlier = file.planned(latest - A_MINUTE)
    assert earlier is not None, "the file has a schedule"
    before = Night(file.name, earlier.date())
    return _with_the_one_before(file, known, before, tonight, now)


def _with_the_one_before(
    file: NightFile, known: Mapping[date, Record], before: Night, tonight: Night, now: datetime
) -> Due:
    record = known.get(before.date)
    if not any(each < tonight.date for each in known) or (record is not None and record.whole):
        return Due((tonight,))
    missed = record is None
    what = f"{before.label} was missed" if missed else f"{before.label} is not whole"
    if not file.catch_up:
        return Due((tonight,), (f"{what}, and the file does not ask to catch up",))
    if record is not None and now - record.at >= RESUMED_FOR:
        return Due((tonight,), (f"{what}, and a day has passed since",))
    return Due((before, tonight), (f"{what}: it is measured first, under its own date",))
