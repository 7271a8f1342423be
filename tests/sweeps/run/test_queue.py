"""Tests of the sample queue: each sample once, in order, when due; pausing and closing."""

import asyncio
from datetime import UTC, datetime

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.sweeps.conftest import make_tasks
from tests.virtual_time import run_in_virtual_time
from tutti.storage.catalog import CellReason
from tutti.tasks.sweeps.plan.missing import EndReason
from tutti.tasks.sweeps.plan.plan import Sample
from tutti.tasks.sweeps.run.queue import DueSample, SampleQueue

ENOUGH = EndReason(CellReason.TIME_LIMIT, "enough", 1.0)
SPENT = EndReason(CellReason.BUDGET_USD, "the budget is spent", 1.0)
TASK = make_tasks(1)[0]


def samples(count: int) -> list[Sample]:
    """Return `count` samples that differ by their trial."""
    return [Sample(f"s{trial}", TASK, trial) for trial in range(count)]


async def all_of(tap: SampleQueue, sessions: int) -> list[DueSample]:
    """Return the samples that `sessions` sessions get, in order."""
    given: list[DueSample] = []

    async def session() -> None:
        while (due := await tap.take()) is not None:
            given.append(due)
            await asyncio.sleep(0)

    await asyncio.gather(*(session() for _ in range(sessions)))
    return given


@settings(max_examples=settings().max_examples // 3, deadline=None)
@given(st.integers(0, 30), st.integers(1, 8), st.integers(0, 40))
def test_each_sample_is_given_once_and_in_order(count: int, sessions: int, close_at: int) -> None:
    """This holds for any sessions; if the queue is closed meanwhile, exactly the earlier samples
    are given."""

    async def work() -> None:
        tap = SampleQueue(samples(count))
        given: list[int] = []

        async def session() -> None:
            while (due := await tap.take()) is not None:
                given.append(due.sample.trial)
                assert due.at is None
                if len(given) == close_at:
                    tap.close(ENOUGH)
                    tap.close(SPENT)
                await asyncio.sleep(0)

        await asyncio.gather(*(session() for _ in range(sessions)))
        expected = min(count, close_at) if close_at else count
        assert given == list(range(expected))
        if tap.closed:
            assert tap.reason == ENOUGH and ENOUGH.ends_cell

    asyncio.run(work())


def test_samples_are_given_when_they_are_due() -> None:
    """No sample is given earlier; a late one is given at once with its due time."""

    async def work() -> None:
        before = datetime.now(UTC)
        tap = SampleQueue(samples(4), [0.0, 150.0, 150.0, 200.0])
        after = datetime.now(UTC)
        given_s, meant = list[float](), list[datetime]()
        while (due := await tap.take()) is not None:
            given_s.append(asyncio.get_running_loop().time())
            assert due.at is not None
            meant.append(due.at)
            await asyncio.sleep(60.0)
        assert given_s == pytest.approx([0.0, 150.0, 210.0, 270.0])
        assert before <= meant[0] <= after
        assert [(at - meant[0]).total_seconds() for at in meant] == [0.0, 150.0, 150.0, 200.0]

    run_in_virtual_time(work())


def test_a_pause_moves_what_is_due() -> None:
    """No sample is given meanwhile, and none is late because of the pause."""

    async def work() -> None:
        tap = SampleQueue(samples(2), [0.0, 10.0])
        first = await tap.take()
        await asyncio.sleep(4.0)
        tap.pause()
        await asyncio.sleep(1.0)
        tap.pause()
        waiting = asyncio.create_task(tap.take())
        await asyncio.sleep(30.0)
        assert not waiting.done()
        tap.resume()
        second = await waiting
        assert asyncio.get_running_loop().time() == pytest.approx(41.0, abs=0.01)
        assert first is not None and second is not None and first.at is not None
        assert second.at is not None
        assert (second.at - first.at).total_seconds() == pytest.approx(41.0)

    run_in_virtual_time(work())


async def test_what_is_due_after_a_pause_is_given_as_much_later(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The sample is given at its shifted time by the loop's clock, not at once."""
    loop, ahead = asyncio.get_running_loop(), [0.0]
    real = loop.time
    monkeypatch.setattr(loop, "time", lambda: real() + ahead[0])
    tap = SampleQueue(samples(2), [0.0, 3600.0])
    first = await tap.take()
    tap.pause()
    ahead[0] += 7200.0
    tap.resume()
    waiting = asyncio.create_task(tap.take())
    await asyncio.sleep(0.01)
    assert not waiting.done(), "an hour is left"
    ahead[0] += 3600.0
    second = await asyncio.wait_for(waiting, 60)
    assert first is not None and second is not None
    assert first.at is not None and second.at is not None
    assert (second.at - first.at).total_seconds() == pytest.approx(3 * 3600, abs=60)


async def test_closing_ends_those_who_wait() -> None:
    """The sessions wait for a sample that is due in an hour, in a pause, or for their turn in a
    ramp."""
    for paused in (False, True):
        tap = SampleQueue(samples(2), [3600.0, 3600.0])
        if paused:
            tap.pause()
        waiting = [asyncio.create_task(tap.take()) for _ in range(3)]
        ramp = asyncio.create_task(tap.until(3600))
        await asyncio.sleep(0.01)
        tap.close(SPENT)
        assert await asyncio.wait_for(asyncio.gather(*waiting), 60) == [None] * 3
        await asyncio.wait_for(ramp, 60)
        assert tap.reason == SPENT and not SPENT.ends_cell


async def test_who_waits_for_its_turn_in_a_ramp_ends_with_the_samples() -> None:
    """Sessions that start too late have nothing to wait for."""
    tap = SampleQueue(samples(1))
    late = asyncio.create_task(tap.until(3600))
    await all_of(tap, 1)
    await asyncio.wait_for(late, 60)
