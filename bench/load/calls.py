"""How a load is judged: ours and the peers' by the same rule, over the same calls.

All sessions of a closed loop start at once and end at once. So the first `SKIPPED` calls for each
session are left out, and as many at the end, in the order of their sending; what counts begins with
the first call that is left, and ends when the first that is left out at the end is sent.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median
from typing import NamedTuple

from bench.load.wire import DELAY_S

SKIPPED = 2


class Call(NamedTuple):
    """One call, in seconds on one clock."""

    due: float
    """When it was meant to start: when its session's last answer had ended. Peers do not say it in
    one way, and there it is when the call was sent."""
    sent: float
    first_token: float
    ended: float


@dataclass(frozen=True)
class Judged:
    """What a load generator says of its load."""

    calls: int
    held: float
    """The mean number of calls in flight."""
    due_median_s: float
    """Time to the first token, from when the call was meant to start."""
    due_p99_s: float
    sent_median_s: float
    """The same, from when it was sent."""
    sent_p99_s: float


@dataclass(frozen=True)
class Served:
    """What the mock says of it."""

    calls: int
    per_s: float
    service_s: float
    """Median seconds from a request read to its first token written: the true one."""
    late_p99_s: float
    """By how much the mock itself wrote later than it should."""


def judged(calls: Sequence[Call], sessions: int) -> Judged:
    """Held calls and times to the first token. Raises ValueError where too few calls are left."""
    ordered = sorted(calls, key=lambda call: call.sent)
    first, last = _counted(len(ordered), sessions)
    start, end = ordered[first].sent, ordered[last].sent
    in_flight = sum(max(0.0, min(c.ended, end) - max(c.sent, start)) for c in ordered)
    due = sorted(call.first_token - call.due for call in ordered[first:last])
    sent = sorted(call.first_token - call.sent for call in ordered[first:last])
    return Judged(
        calls=len(due),
        held=in_flight / (end - start),
        due_median_s=median(due),
        due_p99_s=_p99(due),
        sent_median_s=median(sent),
        sent_p99_s=_p99(sent),
    )


def served(times: Sequence[tuple[float, float]], sessions: int) -> Served:
    """Of (read, written) of each call, in seconds. Raises ValueError where too few are left."""
    ordered = sorted(times)
    first, last = _counted(len(ordered), sessions)
    took = sorted(written - read for read, written in ordered[first:last])
    per_s = len(took) / (ordered[last][0] - ordered[first][0])
    return Served(len(took), per_s, median(took), _p99(took) - DELAY_S)


def error_ratio(seconds: float) -> float:
    """By what share of the true time to the first token a measured one is off."""
    return abs(seconds - DELAY_S) / DELAY_S


def _counted(calls: int, sessions: int) -> tuple[int, int]:
    edge = SKIPPED * sessions
    if calls - 2 * edge < sessions:
        raise ValueError(f"{calls} calls of {sessions} sessions are too few")
    return edge, calls - edge


def _p99(ordered: Sequence[float]) -> float:
    return ordered[int(len(ordered) * 0.99)]
