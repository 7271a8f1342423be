"""The results of a simulated run: the figures that a real cell is judged by."""

from array import array
from collections.abc import Sequence
from dataclasses import dataclass, field, fields
from typing import Any

import numpy as np

NEAR = 1e-9
Event = tuple[float, str, str, str, str, str]
"""(at, event, program, call, reason_code, reason), named as in `gateway_events`."""


@dataclass(slots=True)
class RunLog:
    """What a simulation records while it runs."""

    step_ends: "array[float]" = field(default_factory=lambda: array("d"))
    """When each step ended: the call and the tool run after it."""
    latency: "array[float]" = field(default_factory=lambda: array("d"))
    """From sending to the end of the answer, hold time included."""
    held: "array[float]" = field(default_factory=lambda: array("d"))
    ttft: "array[float]" = field(default_factory=lambda: array("d"))
    program_ends: list[float] = field(default_factory=list)
    durations: list[float] = field(default_factory=list)
    """Of each program from its first sending, in order of their ends."""
    failed: int = 0
    calls: int = 0
    idle_with_queue_s: float = 0.0
    """Seconds in which an engine was idle while a call was held, summed over engines."""
    events: list[Event] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Outcome:
    """One simulated run."""

    policy: str
    programs: int
    failed: int
    """Programs whose client gave up."""
    steps: int
    """Answered calls."""
    makespan_s: float
    steps_per_min: float
    """Rate between the two steps that open and close the window, as the bench counts it."""
    steps_per_min_programs: float
    """Rate between the ends of the two programs that open and close the window; over the whole run
    if they ended at the same time."""
    steps_per_min_all: float
    hit_share: float
    """Cached share of all prompt tokens."""
    recomputed_tokens: int
    """Prompt tokens prefilled again after they had been evicted."""
    prefilled_tokens: int
    preemptions: int
    latency_p50_s: float
    latency_p95_s: float
    latency_p99_s: float
    latency_max_s: float
    held_share: float
    """Share of calls that were held."""
    held_mean_s: float
    held_p50_s: float
    held_p95_s: float
    max_wait_s: float
    ttft_p50_s: float
    ttft_p95_s: float
    jain: float
    """Jain's index of program durations: 1 if all are equal."""
    duration_p50_s: float
    duration_p95_s: float
    idle_with_queue_share: float
    """Share of engine time in which an engine was idle while a call was held."""
    events_processed: int
    step_ends: tuple[float, ...] = field(repr=False, default=())
    """Sorted."""
    latencies: tuple[float, ...] = field(repr=False, default=())
    """Sorted."""
    durations: tuple[float, ...] = field(repr=False, default=())
    events: tuple[Event, ...] = field(repr=False, default=())

    def figures(self) -> dict[str, Any]:
        return {
            each.name: getattr(self, each.name)
            for each in fields(self)
            if each.name not in ("step_ends", "latencies", "durations", "events")
        }


def summarise(
    book: RunLog,
    policy: str,
    engines: int,
    totals: dict[str, int],
    window: tuple[float, float],
    events_processed: int,
) -> Outcome:
    """Summarise a run. `totals`: queries, hits, recomputed, prefilled and preemptions of all
    engines; `window`: shares of programs completed."""
    ends, steps = sorted(book.program_ends), np.sort(_floats(book.step_ends))
    makespan = max(ends[-1] if ends else 0.0, NEAR)
    whole = 60.0 * len(steps) / makespan
    start, end = (_completed(ends, share) for share in window)
    inside = int(((steps > start) & (steps <= end)).sum())
    durations = np.array(book.durations or [0.0])
    latency, held, ttft = (_quantiles(x) for x in (book.latency, book.held, book.ttft))
    return Outcome(
        policy=policy,
        programs=len(ends),
        failed=book.failed,
        steps=len(steps),
        makespan_s=makespan,
        steps_per_min=window_rate(steps, *window),
        steps_per_min_programs=60.0 * inside / (end - start) if end - start > NEAR else whole,
        steps_per_min_all=whole,
        hit_share=totals["hits"] / max(totals["queries"], 1),
        recomputed_tokens=totals["recomputed"],
        prefilled_tokens=totals["prefilled"],
        preemptions=totals["preemptions"],
        latency_p50_s=latency[0],
        latency_p95_s=latency[1],
        latency_p99_s=latency[2],
        latency_max_s=latency[3],
        held_share=sum(h > NEAR for h in book.held) / max(len(book.held), 1),
        held_mean_s=sum(book.held) / max(len(book.held), 1),
        held_p50_s=held[0],
        held_p95_s=held[1],
        max_wait_s=held[3],
        ttft_p50_s=ttft[0],
        ttft_p95_s=ttft[1],
        jain=jain(book.durations),
        duration_p50_s=float(np.quantile(durations, 0.5)),
        duration_p95_s=float(np.quantile(durations, 0.95)),
        idle_with_queue_share=book.idle_with_queue_s / (makespan * engines),
        events_processed=events_processed,
        step_ends=tuple(steps.tolist()),
        latencies=tuple(np.sort(_floats(book.latency)).tolist()),
        durations=tuple(book.durations),
        events=tuple(book.events),
    )


def window_rate(step_ends: Any, opens: float, closes: float) -> float:
    """Steps per minute between two steps, given as shares of all steps; `step_ends` is sorted."""
    count = len(step_ends)
    first, last = (min(count - 1, int(count * share)) for share in (opens, closes))
    if last <= first or step_ends[last] <= step_ends[first]:
        return 0.0
    return float((last - first) / (step_ends[last] - step_ends[first]) * 60.0)


def jain(values: Sequence[float]) -> float:
    """Jain's fairness index: 1 if all values are equal, 1/n if one has everything."""
    squares = sum(value * value for value in values)
    return sum(values) ** 2 / (len(values) * squares) if squares else 1.0


def _completed(ends: Sequence[float], share: float) -> float:
    """When that share of the programs had completed."""
    count = round(share * len(ends))
    return ends[count - 1] if count else 0.0


def _quantiles(values: "array[float]") -> tuple[float, float, float, float]:
    """p50, p95, p99 and the largest."""
    if not values:
        return 0.0, 0.0, 0.0, 0.0
    p50, p95, p99, most = np.quantile(_floats(values), (0.5, 0.95, 0.99, 1.0))
    return float(p50), float(p95), float(p99), float(most)


def _floats(values: "array[float]") -> Any:
    return np.frombuffer(values) if values else np.zeros(0)
