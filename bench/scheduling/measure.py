"""Computes a cell's measures from its steps: rates in windows, latencies, shares, fairness.

In: the client's `Outcome` and the engine's own counts. Out: `measure`, a dictionary of numbers
that goes into the cell's record. Windows go by steps done, not by programs ended: programs that
began together end together, and a window between the first end and the last would be a moment.
"""

import math
from collections.abc import Iterable, Sequence

from bench.scheduling.client import Outcome, Step
from tutti.tasks.serving.registry.settings import BLOCK_TOKENS

WINDOWS = {"20_80": (0.2, 0.8), "10_90": (0.1, 0.9), "25_75": (0.25, 0.75)}
"""Shares of all steps at which a window opens and closes; the first is used for the figures."""
OK = 200


def measure(outcome: Outcome, counted: dict[str, float], programs: int) -> dict[str, float]:
    """Every number of a cell."""
    done = [step for step in outcome.steps if step.status == OK]
    found: dict[str, float] = {"seconds": outcome.seconds, "steps": len(done)}
    ends = sorted(step.tool_end_s for step in done)
    # A cell that made no progress until its limit has no window: its whole time is used.
    lasted = outcome.seconds if outcome.cut else ends[-1] if ends else 0.0
    found["whole_steps_per_min"] = _share(len(done) * 60, lasted)
    for name, (opens, closes) in WINDOWS.items():
        rate = found["whole_steps_per_min"] if outcome.cut else window_rate(ends, opens, closes)
        found[f"steps_per_min_{name}"] = rate
    found["steps_per_min"] = found["steps_per_min_20_80"]
    latencies = sorted(step.latency_s for step in done)
    for share in (50, 95, 99, 100):
        found[f"latency_p{share}_s"] = quantile(latencies, share / 100)
    took = [outcome.ended_s[place] - outcome.began_s[place] for place in outcome.ended_s]
    found["program_median_s"] = quantile(sorted(took), 0.5)
    found["program_max_s"] = max(took, default=0.0)
    found["jain"] = jain(took)
    found["hit_share"] = _share(counted["hit_tokens"], counted["queried_tokens"])
    found["recomputed_tokens"] = recomputed(done)
    found["preemptions"] = counted["preemptions"]
    found["idle_share"] = idle_share(outcome.held)
    found["held_mean"] = _mean(held for _, held, _ in outcome.held)
    found["tries_more"] = sum(step.tries - 1 for step in outcome.steps)
    found["failed_programs"] = programs - len(outcome.ended_s)
    return {name: round(value, 5) for name, value in found.items()}


def window_rate(ends: Sequence[float], opens: float, closes: float) -> float:
    """Steps per minute between the ends of two steps, given as shares of all; `ends` sorted."""
    first, last = window_steps(len(ends), opens, closes)
    if last <= first or ends[last] <= ends[first]:
        return 0.0
    return (last - first) / (ends[last] - ends[first]) * 60


def window_steps(count: int, opens: float, closes: float) -> tuple[int, int]:
    """Indices of the steps whose ends open and close a window."""
    return min(count - 1, math.floor(count * opens)), min(count - 1, math.floor(count * closes))


def quantile(ordered: Sequence[float], share: float) -> float:
    """Quantile of sorted values, interpolated between the two nearest; 0 for none."""
    if not ordered:
        return 0.0
    place = share * (len(ordered) - 1)
    below = math.floor(place)
    above = min(below + 1, len(ordered) - 1)
    return ordered[below] + (ordered[above] - ordered[below]) * (place - below)


def jain(values: Sequence[float]) -> float:
    """Jain's index: 1 when all are equal, 1/n when one has everything; 0 of none."""
    squares = sum(value * value for value in values)
    return sum(values) ** 2 / (len(values) * squares) if squares else 0.0


def recomputed(steps: Iterable[Step]) -> float:
    """Prompt tokens recomputed that an unlimited cache would have held, in whole blocks.

    Recomputation after preemption is not included: it is not visible in the answer.
    """
    return sum(
        max(0, min(step.reusable_tokens, step.prompt_tokens - 1) // BLOCK_TOKENS * BLOCK_TOKENS)
        - step.cached_tokens
        for step in steps
        if step.cached_tokens
        < min(step.reusable_tokens, step.prompt_tokens - 1) // BLOCK_TOKENS * BLOCK_TOKENS
    )


def idle_share(held: Sequence[tuple[float, int, int]]) -> float:
    """Share of samples at which the gateway held calls and every call in flight was held: then the
    engine was idle."""
    return _mean(
        float(held_calls > 0 and in_flight <= held_calls) for _, held_calls, in_flight in held
    )


def _share(part: float, whole: float) -> float:
    return part / whole if whole else 0.0


def _mean(values: Iterable[float]) -> float:
    known = list(values)
    return sum(known) / len(known) if known else 0.0
