"""Tests of an attempt's waits: in any order, overlapping time counts once."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tutti.storage import ProgramClock, WaitedTime
from tutti.storage.programs.tally import SPANS_KEPT

WAITS = st.lists(st.tuples(st.integers(0, 30), st.integers(0, 30)))


@given(WAITS)
def test_overlapping_waits_count_once(waits: list[tuple[int, int]]) -> None:
    """Each call returns what it adds to the earlier waits; a wait that ends before it starts is
    ignored."""
    waited, covered = WaitedTime(), set[int]()
    for start, end in waits:
        new = set(range(start, end)) - covered
        covered |= new
        assert waited.add(start, end) == len(new)
        assert waited.seconds == pytest.approx(len(covered))


def test_memory_is_bounded_and_old_waits_still_count() -> None:
    waited = WaitedTime()
    for number in range(3 * SPANS_KEPT):
        waited.add(10.0 * number, 10.0 * number + 1)
    assert waited.seconds == 3 * SPANS_KEPT and len(waited._spans) == SPANS_KEPT


def test_a_program_waits_before_sends_in_failed_calls_and_after_them() -> None:
    """The program is held for 2 s of 5; then a call fails after 10 s, and the next call starts 20 s
    later."""
    clock = ProgramClock()
    clock.take((0.0, 5.0), 2.0, failed=False, role="orchestrator")
    assert (clock.held_s, clock.failing_since) == (2.0, None)
    clock.take((6.0, 16.0), 0.5, failed=True, role="orchestrator")
    assert (clock.held_s, clock.failing_since) == (12.0, 6.0)
    clock.take((36.0, 37.0), 0.0, failed=True, role="orchestrator")
    assert (clock.held_s, clock.failing_since) == (33.0, 6.0)
    clock.take((37.0, 40.0), 1.0, failed=False, role="orchestrator")
    assert (clock.held_s, clock.failing_since, clock.partner_s) == (34.0, None, 0.0)


def test_a_partners_whole_call_is_its_time_and_concurrent_waits_count_once() -> None:
    clock = ProgramClock()
    clock.take((0.0, 5.0), 4.0, failed=False, role="user")
    clock.take((10.0, 20.0), 8.0, failed=False, role="orchestrator")
    clock.take((11.0, 19.0), 8.0, failed=False, role="orchestrator")  # at the same time
    assert (clock.partner_s, clock.held_s) == (5.0, 9.0)
