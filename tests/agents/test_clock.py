"""Tests of the working clock: waits at any call depth are reported to the running attempt and to no
other."""

import asyncio
import time

import pytest

from tutti.tasks.agents.models.model import WorkingClock, note_wait


@pytest.fixture
def now(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """Return the current time as a list that tests modify."""
    at = [100.0]
    monkeypatch.setattr(time, "monotonic", lambda: at[0])
    return at


async def expert(start: float, end: float) -> None:
    """Run a tool's model that waits, in a task of its own."""
    await asyncio.create_task(deeper(start, end))


async def deeper(start: float, end: float) -> None:
    note_wait(start, end)


def test_waits_of_tools_that_run_together_count_once(now: list[float]) -> None:
    async def attempt() -> WorkingClock:
        clock = WorkingClock()
        with clock.running():
            await asyncio.gather(expert(100.0, 110.0), expert(105.0, 120.0), expert(130.0, 131.0))
        note_wait(140.0, 150.0)  # after its end it takes none
        return clock

    clock = asyncio.run(attempt())
    now[0] = 150.0
    assert clock.read() == (50.0, 21.0, 0.0)


def test_attempts_side_by_side_have_their_own_waits() -> None:
    async def attempt(seconds: float) -> float:
        clock = WorkingClock()
        with clock.running():
            await asyncio.sleep(0)
            await expert(0.0, seconds)
        return clock.read()[1]

    async def both() -> tuple[float, float]:
        return await asyncio.gather(attempt(3.0), attempt(5.0))

    assert tuple(asyncio.run(both())) == (3.0, 5.0)


def test_a_partners_waits_are_the_partners_time(now: list[float]) -> None:
    """The waits are not counted twice, also if the partner fails."""
    clock = WorkingClock()
    with pytest.raises(ValueError, match="away"), clock.running(), clock.partner():
        note_wait(100.0, 160.0)
        now[0] = 160.0
        raise ValueError("away")
    with clock.running():
        note_wait(160.0, 170.0)
    now[0] = 175.0
    assert clock.read() == (75.0, 10.0, 60.0)


def test_without_an_attempt_a_wait_is_nobodys() -> None:
    note_wait(0.0, 1.0)
