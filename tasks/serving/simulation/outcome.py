"""The results of a simulated run: the figures by which a real cell is judged."""

from array import array
from collections.abc import Sequence
from dataclasses import dataclass, field, fields
from typing import Any

import numpy as np


@dataclass(slots=True)
class RunLog:
    """What a simulation records while it runs."""

    step_ends: "array[float]" = field(default_factory=lambda: array("d"))
    latency: "array[float]" = field(default_factory=lambda: array("d"))
    held: "array[float]" = field(default_factory=lambda: array("d"))
    ttft: "array[float]" = field(default_factory=lambda: array("d"))
    program_ends: list[float] = field(default_factory=list)
    idle_with_queue_s: float = 0.0
    """Seconds in which an engine was idle while a call was held, summed over engines."""


@dataclass(frozen=True, kw_only=True)
class Figures:
    """Figures of a run, measured or simulated."""

    steps_per_min: float
    """Rate between the ends of the first and last fifth of the steps, as the bench counts it."""
    steps_per_min_all: float
    hit_share: float
    makespan_s: float
    latency_p50_s: float
    latency_p95_s: float
    latency_max_s: float
    held_p50_s: float
    held_p95_s: float
    held_max_s: float
    step_ends: tuple[float, ...] = field(repr=False)
    latencies: tuple[float, ...] = field(repr=False)


def common_figures(
    step_ends: Sequence[float],
    latencies: Sequence[float],
    held: Sequence[float],
    makespan_s: float,
) -> dict[str, Any]:
    """Return the fields of `Figures` except `hit_share`."""
    steps = np.sort(np.asarray(step_ends, dtype=float))
    return {
        "steps_per_min": window_rate(steps),
        "steps_per_min_all": 60.0 * len(steps) / makespan_s,
        "makespan_s": makespan_s,
        **_quantiles("latency", latencies),
        **_quantiles("held", held),
        "step_ends": tuple(steps.tolist()),
        "latencies": tuple(sorted(latencies)),
    }


@dataclass(frozen=True, kw_only=True)
class Outcome(Figures):
    """One simulated run."""

    policy: str
    programs: int
    steps: int
    engine_hours: float
    """Number of engines times the time until the last program ended."""
    recomputed_tokens: int
    """Prompt tokens prefilled again after they had been evicted."""
    prefilled_tokens: int
    preemptions: int
    ttft_p50_s: float
    ttft_p95_s: float
    ttft_max_s: float
    idle_with_queue_share: float
    """Share of engine time in which an engine was idle while a call was held."""

    def figures(self) -> dict[str, Any]:
        return {
            each.name: getattr(self, each.name)
            for each in fields(self)
            if each.name not in ("step_ends", "latencies")
        }


def summarise(log: RunLog, policy: str, engines: int, totals: dict[str, int]) -> Outcome:
    """Summarise a run. `totals`: queries, hits, recomputed, prefilled and preemptions of all
    engines."""
    makespan = max(*log.program_ends, 1e-9) if log.program_ends else 1e-9
    return Outcome(
        **common_figures(log.step_ends, log.latency, log.held, makespan),
        **_quantiles("ttft", log.ttft),
        policy=policy,
        programs=len(log.program_ends),
        steps=len(log.step_ends),
        engine_hours=engines * makespan / 3600.0,
        hit_share=totals["hits"] / max(totals["queries"], 1),
        recomputed_tokens=totals["recomputed"],
        prefilled_tokens=totals["prefilled"],
        preemptions=totals["preemptions"],
        idle_with_queue_share=log.idle_with_queue_s / (makespan * engines),
    )


def window_rate(step_ends: Any) -> float:
    """Steps per minute between the steps that end the first and the fourth fifth of all steps,
    which are sorted by their ends."""
    count = len(step_ends)
    first, last = (min(count - 1, int(count * share)) for share in (0.2, 0.8))
    if last <= first or step_ends[last] <= step_ends[first]:
        return 0.0
    return float((last - first) / (step_ends[last] - step_ends[first]) * 60.0)


def _quantiles(name: str, values: Sequence[float]) -> dict[str, Any]:
    found = np.quantile(np.asarray(values or [0.0], dtype=float), (0.5, 0.95, 1.0))
    names = (f"{name}_p50_s", f"{name}_p95_s", f"{name}_max_s")
    return dict(zip(names, map(float, found), strict=True))
