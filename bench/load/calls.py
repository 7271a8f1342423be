"""Figures of a load, computed by the same rule for our client and the peers.

All sessions of a closed loop start and end together. So the first `SKIPPED` calls per session are
left out, and as many at the end, in order of sending. The measured interval begins with the first
remaining call, and ends when the first call left out at the end is sent.
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
    """The intended start: when its session's previous answer ended. For peers, which report it in
    different ways, it is when the call was sent."""
    sent: float
    first_token: float
    ended: float


@dataclass(frozen=True)
class ReportedLoad:
    """Figures of a load as reported by its generator."""

    calls: int
    held: float
    """Mean number of calls in flight."""
    due_median_s: float
    """Time to first token, from the intended start of the call."""
    due_p99_s: float
    sent_median_s: float
    """The same, from when it was sent."""
    sent_p99_s: float


@dataclass(frozen=True)
class MockMeasurements:
    """Figures of the load as measured by the mock."""

    calls: int
    per_s: float
    service_s: float
    """Median seconds from reading a request to writing its first token: the true value."""
    late_p99_s: float
    """How late the mock itself wrote, 99th percentile."""


def judged(calls: Sequence[Call], sessions: int) -> ReportedLoad:
    """Calls in flight and times to first token. Raises ValueError if too few calls are left."""
    ordered = sorted(calls, key=lambda call: call.sent)
    first, last = _counted(len(ordered), sessions)
    start, end = ordered[first].sent, ordered[last].sent
    in_flight = sum(max(0.0, min(c.ended, end) - max(c.sent, start)) for c in ordered)
    due = sorted(call.first_token - call.due for call in ordered[first:last])
    sent = sorted(call.first_token - call.sent for call in ordered[first:last])
    return ReportedLoad(
        calls=len(due),
        held=in_flight / (end - start),
        due_median_s=median(due),
        due_p99_s=_p99(due),
        sent_median_s=median(sent),
        sent_p99_s=_p99(sent),
    )


def served(times: Sequence[tuple[float, float]], sessions: int) -> MockMeasurements:
    """From (read, written) of each call, in seconds. Raises ValueError if too few are left."""
    ordered = sorted(times)
    first, last = _counted(len(ordered), sessions)
    took = sorted(written - read for read, written in ordered[first:last])
    per_s = len(took) / (ordered[last][0] - ordered[first][0])
    return MockMeasurements(len(took), per_s, median(took), _p99(took) - DELAY_S)


def error_ratio(seconds: float) -> float:
    """Relative error of a measured time to first token."""
    return abs(seconds - DELAY_S) / DELAY_S


def _counted(calls: int, sessions: int) -> tuple[int, int]:
    edge = SKIPPED * sessions
    if calls - 2 * edge < sessions:
        raise ValueError(f"{calls} calls of {sessions} sessions are too few")
    return edge, calls - edge


def _p99(ordered: Sequence[float]) -> float:
    return ordered[int(len(ordered) * 0.99)]
