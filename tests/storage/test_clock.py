"""Tests of rows' times: in UTC, and never decreasing within a process."""

from datetime import UTC, datetime, timedelta

import pytest

from tutti.storage.base import clock


class Walls:
    """Wall clock that can be set."""

    ahead = timedelta()

    @classmethod
    def now(cls, zone: object) -> datetime:
        """Return the current time of the fake clock."""
        assert zone is UTC
        return datetime.now(UTC) + cls.ahead


def test_a_clock_that_is_set_back_does_not_take_rows_with_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """An attempt cannot end before it began."""
    monkeypatch.setattr(clock, "datetime", Walls)
    made = clock.Clock()
    before = made.now()
    monkeypatch.setattr(Walls, "ahead", timedelta(hours=-1))
    after = made.now()
    assert timedelta() <= after - before < timedelta(seconds=5)


def test_a_clock_that_runs_ahead_is_followed(monkeypatch: pytest.MonkeyPatch) -> None:
    """After suspend or a correction of the clock, a long-running process must not stay behind."""
    monkeypatch.setattr(clock, "datetime", Walls)
    made = clock.Clock()
    monkeypatch.setattr(Walls, "ahead", timedelta(hours=1))
    assert abs(made.now() - datetime.now(UTC) - timedelta(hours=1)) < timedelta(seconds=5)
    monkeypatch.setattr(Walls, "ahead", timedelta())
    assert made.now() > datetime.now(UTC) + timedelta(minutes=59)


def test_times_are_in_utc() -> None:
    """This holds for any time zone of the machine."""
    assert clock.now().tzinfo is UTC
