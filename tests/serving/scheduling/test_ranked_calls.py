"""Tests of the queue of policies with their own order."""

from tutti.tasks.serving.scheduling import Call, Program
from tutti.tasks.serving.scheduling.policy import RankedCalls


def test_calls_leave_once_and_keep_their_turn_among_equals() -> None:
    queue = RankedCalls()
    a, b, c = (Call(name, Program(name, 0.0), 0.0, 1, 1) for name in "abc")
    for call, rank in ((a, 1.0), (b, 1.0), (c, 0.0)):
        queue.put(call, (rank,))
    assert list(queue) == [c, a, b]
    queue.put(a, (2.0,))
    assert list(queue) == [c, b, a]
    queue.put(a, (1.0,))
    assert list(queue) == [c, a, b]
    assert [queue.drop(call) for call in (c, c, b)] == [True, False, True]
    assert (list(queue), c in queue, len(queue)) == ([a], False, 1)
