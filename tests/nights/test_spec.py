"""Tests of night files and of the nights that a run measures."""

from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from tutti.tasks.nights.record import Record, nights_due
from tutti.tasks.nights.spec import DEFAULT_GATES, Night, NightFile, is_night, read_night
from tutti.tasks.sweeps import SuiteError

SUITE = {"policies": ["adaptive"], "concurrency": [4]}
FILE: dict[str, Any] = {
    "name": "nightly",
    "schedule": "0 2 * * *",
    "catch_up": True,
    "stages": {"smoke": {"suite": "small"}, "full": {"suite": SUITE}},
}


def written(folder: Path, content: Any, name: str = "night.yaml") -> Path:
    """Write a file beside a suite called small."""
    (folder / "small.yaml").write_text(
        yaml.safe_dump(SUITE | {"name": "small", "report": {"gates": [{"at_least": 0.5}]}})
    )
    (folder / name).write_text(
        content if isinstance(content, str) else yaml.safe_dump(content, sort_keys=False)
    )
    return folder / name


def test_stages_are_suites_of_a_file_or_given_in_place(tmp_path: Path) -> None:
    """Each stage has its own gates, else its suite's, else one gate on the score; a failed smoke
    stage ends the night."""
    path = written(tmp_path, FILE)
    file = read_night(path)
    assert is_night(path) and list(file.stages) == ["smoke", "full"]
    assert file.stages["smoke"].suite.name == "small"
    assert [gate.at_least for gate in file.stages["smoke"].judged_by] == [0.5]
    assert file.stages["full"].judged_by == DEFAULT_GATES
    assert file.stops("smoke") and not file.stops("full")
    own = FILE["stages"] | {"smoke": {"suite": "small", "stops": False, "gates": [{"margin": 0}]}}
    file = read_night(written(tmp_path, FILE | {"stages": own}))
    assert not file.stops("smoke") and file.stages["smoke"].judged_by[0].margin == 0


def test_a_suite_is_a_night_of_one_stage(tmp_path: Path) -> None:
    """The sweep is named by the suite and the date; schedule, budget and gates are the suite's
    own."""
    suite = SUITE | {"name": "small", "schedule": "30 3 * * *", "budget": {"minutes": 5}}
    path = written(tmp_path, suite)
    file = read_night(path)
    assert not is_night(path) and list(file.stages) == ["small"]
    assert (file.schedule, file.budget.minutes) == ("30 3 * * *", 5)
    night = Night("small", date(2026, 11, 21))
    assert night.suite(file, "small").name == "small-2026-11-21"
    assert night.suite(read_night(written(tmp_path, FILE)), "full").name == "small-2026-11-21-full"


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"schedule": "0 2 * *"}, r"schedule: needs five fields.*given: '0 2 \* \*'"),
        ({"schedule": "61 2 * * *"}, "schedule: not a schedule"),
        ({"schedule": "0 2,14 * * *"}, "schedule: plans two nights on one date"),
        ({"schedule": "0 0 30 2 *"}, "schedule: not a schedule"),
        ({"timezone": "Mars/Base"}, "timezone: no such time zone.*'Mars/Base'"),
        ({"budget": {"minutes": 0}}, r"budget\.minutes: .*greater than 0.*given: 0"),
        ({"stages": {}}, "stages: .*at least 1"),
        ({"stages": {"Big one": {"suite": SUITE}}}, "stages.Big one"),
        ({"stages": {"smoke": {"suite": "large"}}}, r"stages\.smoke\.suite: .*no such suite"),
        (
            {"stages": {"a": {"suite": {"repetition": {"repeats": 0}}}}},
            r"stages\.a\.suite\.repetition\.repeats: .*given: 0",
        ),
        ({"stages": {"a": {"suite": SUITE, "gates": [{}]}}}, r"stages\.a\.gates\.0: needs exactly"),
        ({"stops": True}, "stops: Extra inputs"),
    ],
)
def test_a_wrong_file_is_told_with_its_field(
    tmp_path: Path, change: dict[str, Any], words: str
) -> None:
    """The error has the value, too."""
    path = written(tmp_path, FILE | change)
    with pytest.raises(SuiteError, match=words) as told:
        read_night(path)
    assert str(told.value).startswith(str(path))


def test_what_is_no_file_of_ours_is_told_as_of_a_suite(tmp_path: Path) -> None:
    """The file is missing or not YAML."""
    with pytest.raises(SuiteError, match="no such suite"):
        read_night(tmp_path / "none.yaml")
    with pytest.raises(SuiteError, match="not YAML"):
        read_night(written(tmp_path, "stages: ["))


def test_a_benchmark_of_ones_own_is_beside_the_night_file(tmp_path: Path) -> None:
    """The path is relative to the file, as in a suite file."""
    suite = SUITE | {"benchmark": "my.jsonl:2", "data": {"scorer": "exact"}}
    file = read_night(written(tmp_path, {"stages": {"full": {"suite": suite}}}))
    assert file.stages["full"].suite.benchmark == str(tmp_path / "my.jsonl:2")


# Which nights are due.

TWO = timedelta(hours=2)
MIDNIGHT = datetime(2026, 11, 21, tzinfo=UTC)
TONIGHT = date(2026, 11, 21)


def file_of(**change: Any) -> NightFile:
    """Return a night file scheduled for 02:00 UTC."""
    stages = {"full": {"suite": SUITE}}
    return NightFile.model_validate(FILE | {"stages": stages} | change)


def known(*ages: int, whole: bool = True, written_h: float = 20) -> dict[date, Record]:
    """Return records of nights a number of days before tonight, written `written_h` hours before
    its start."""
    at = MIDNIGHT + TWO - timedelta(hours=written_h)
    nights = [Night("nightly", TONIGHT - timedelta(days=age)) for age in ages]
    return {night.date: Record(night, whole=whole, at=at) for night in nights}


def due(
    file: NightFile, records: dict[date, Record], late_h: float = 0, **more: Any
) -> tuple[list[str], str]:
    """Return the dates to measure and the message for a run scheduled for tonight."""
    scheduled = MIDNIGHT + TWO
    found = nights_due(file, records, scheduled, scheduled + timedelta(hours=late_h), **more)
    return [night.date.isoformat()[5:] for night in found.nights], "; ".join(found.notes)


def test_the_scheduled_time_decides_the_date_however_late_it_starts() -> None:
    """A night that starts after midnight keeps its scheduled date."""
    assert due(file_of(), known(1)) == (["11-21"], "")
    assert due(file_of(), known(1), late_h=23.9) == (["11-21"], "")


def test_dates_are_those_of_the_files_zone() -> None:
    """01:00 in Berlin is about midnight in UTC; the date in Berlin counts, in winter and in
    summer."""
    file = file_of(schedule="30 0 * * *", timezone="Europe/Berlin")
    for month, hour in ((11, 23), (7, 22)):
        at = datetime(2026, month, 20, hour, 30, tzinfo=UTC)
        (night,) = nights_due(file, {}, at, at).nights
        assert night.date == date(2026, month, 21)


def test_of_many_late_runs_the_latest_night_is_measured_once() -> None:
    """After five days without runs, the first late run measures only the last scheduled night."""
    dates, said = due(file_of(), known(3), late_h=5 * 24 + 3)
    assert dates == ["11-26"] and "was due for 2026-11-21" in said


def test_a_missed_night_is_measured_first_and_only_the_last_one() -> None:
    """Three nights were missed."""
    dates, said = due(file_of(), known(4))
    assert dates == ["11-20", "11-21"] and "nightly-2026-11-20 was missed" in said


def test_a_missed_night_is_told_where_the_file_does_not_ask_for_it() -> None:
    dates, said = due(file_of(catch_up=False), known(2))
    assert dates == ["11-21"] and "was missed, and the file does not ask" in said


def test_nothing_was_missed_before_the_first_night() -> None:
    """A store with its first night has no earlier night."""
    assert due(file_of(), {}) == (["11-21"], "")
    assert due(file_of(), known(0)) == (["11-21"], "")


@pytest.mark.parametrize(
    ("change", "hours", "dates"),
    [
        ({}, 23, ["11-20", "11-21"]),
        ({}, 24, ["11-21"]),
        ({"catch_up": False}, 23, ["11-21"]),
    ],
)
def test_a_night_that_is_not_whole_is_resumed_within_a_day(
    change: dict[str, Any], hours: float, dates: list[str]
) -> None:
    """The day counts from the end of the interrupted run, and only if the file enables resuming."""
    found, said = due(file_of(**change), known(1, whole=False, written_h=hours))
    assert found == dates and "2026-11-20 is not whole" in said


def test_a_night_that_is_asked_for_is_measured_alone() -> None:
    assert due(file_of(), known(4), asked=date(2026, 11, 1)) == (["11-01"], "")


def test_by_hand_the_last_planned_night_is_measured_alone() -> None:
    """At three in the afternoon it is this morning's night, and no second night is measured."""
    at = MIDNIGHT + timedelta(hours=15)
    found = nights_due(file_of(), known(4), at, at)
    assert [night.date for night in found.nights] == [TONIGHT] and not found.notes


def test_without_a_schedule_the_day_of_the_run_is_the_night() -> None:
    assert due(file_of(schedule=None), known(4)) == (["11-21"], "")


@given(st.integers(0, 400 * 24 * 60), st.integers(0, 40 * 24 * 60))
def test_one_night_is_due_and_it_is_not_in_the_future(start: int, late: int) -> None:
    """At any minute and with any delay, the night is a scheduled one, and no other is between it
    and now."""
    file = file_of(schedule="0 2 * * 1-5", timezone="Europe/Berlin", catch_up=False)
    scheduled = MIDNIGHT + timedelta(minutes=start)
    now = scheduled + timedelta(minutes=late)
    (night,) = nights_due(file, known(900), scheduled, now).nights
    planned = file.planned(now)
    assert planned is not None and planned <= now and planned.date() == night.date
    assert planned.weekday() < 5 and planned.hour in (2, 3)
