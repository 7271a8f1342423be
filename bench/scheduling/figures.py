"""From cells to the figures of the scheduling bench's last line.

In: records. Out: each arm's rate in each group, and ratios to direct, to the oracle (the best cap
of the sweep, or none, by its median over the blocks) and to ThunderAgent at its better interval.
A ratio is taken in each block between two arms that ran minutes apart; the figure is an end of the
95 % bootstrap interval of the ratios' median: the lower one, for latencies and errors the upper.
"""

import statistics
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from bench.report import Report, shown
from bench.scheduling.arms import arm_named
from bench.scheduling.plan import CellSpec, Group
from bench.scheduling.records import Record

RESAMPLES = 10_000
TAILS = (2.5, 97.5)
OURS = "adaptive"
CLAIM_LOAD, CLAIM_SHAPE = 3.0, "append"
"""Where the figures that end in 3x_ratio are measured; the lowest over the set-ups."""

Cells = Mapping[str, Mapping[int, Record]]
"""Maps arm and block to a cell."""
Predictor = Callable[[CellSpec, Record], float | None]
"""A simulator: steps per minute of a cell, or None if it cannot predict them."""
DETAIL = {
    "steps_per_min_20_80": "20-80 %",
    "steps_per_min_10_90": "10-90 %",
    "steps_per_min_25_75": "25-75 %",
    "whole_steps_per_min": "whole",
    "hit_share": "hit",
    "recomputed_tokens": "recomputed",
    "preemptions": "preempted",
    "latency_p50_s": "p50 s",
    "latency_p95_s": "p95 s",
    "latency_p99_s": "p99 s",
    "latency_p100_s": "max s",
    "jain": "Jain",
    "idle_share": "idle",
    "tries_more": "retries",
    "failed_programs": "failed",
    "seconds": "took s",
}
"""Measures of a cell and their headings in the table of details; those of windows are steps per
minute."""
OTHER_RATES = ("steps_per_min_10_90", "steps_per_min_25_75", "whole_steps_per_min")
"""Shown in the notes beside the figures: a ratio that only one window shows is not reliable."""


@dataclass(frozen=True)
class Interval:
    """A median over blocks and the ends of its 95 % interval."""

    median: float
    lower: float
    upper: float
    blocks: int

    def __str__(self) -> str:
        return f"{self.median:.3f} ({self.lower:.3f} to {self.upper:.3f}, n {self.blocks})"


@dataclass
class RatioBounds:
    """The interval ends that form the ratios of the last line, over all groups."""

    oracle: list[float] = field(default_factory=list)
    direct: list[float] = field(default_factory=list)
    direct_claim: list[float] = field(default_factory=list)
    thunderagent_claim: list[float] = field(default_factory=list)
    p95: list[float] = field(default_factory=list)
    simulator: list[float] = field(default_factory=list)


def bootstrap(values: Sequence[float], seed: int = 0) -> Interval:
    """The interval of the median of `values`, by resampling them."""
    given = np.asarray(values, dtype=float)
    drawn = np.random.default_rng(seed).integers(0, len(given), (RESAMPLES, len(given)))
    lower, upper = np.percentile(np.median(given[drawn], axis=1), TAILS)
    return Interval(float(np.median(given)), float(lower), float(upper), len(given))


def paired(ours: Mapping[int, Record], theirs: Mapping[int, Record], name: str) -> list[float]:
    """Ours over theirs, in every block that has both."""
    return [
        ours[block].measures[name] / theirs[block].measures[name]
        for block in sorted(ours.keys() & theirs.keys())
        if theirs[block].measures[name] > 0
    ]


def rates(cells: Mapping[int, Record]) -> list[float]:
    """Steps a minute in each block."""
    return [cells[block].measures["steps_per_min"] for block in sorted(cells)]


def best_of(cells: Cells, names: Iterable[str]) -> str | None:
    """The arm with the highest median rate."""
    there = [name for name in names if cells.get(name)]
    return max(there, key=lambda name: statistics.median(rates(cells[name])), default=None)


def oracle_of(cells: Cells) -> str | None:
    """The best cap, or direct as a cap without effect; None if no cap was swept.

    Caps that were eliminated early are left out: a few lucky blocks do not make an oracle.
    """
    blocks = {name: len(found) for name, found in cells.items() if arm_named(name).is_cap}
    caps = [name for name, count in blocks.items() if count == max(blocks.values())]
    return best_of(cells, [*caps, "direct"]) if caps else None


def enter_figures(
    report: Report,
    found: Sequence[tuple[Group, Cells]],
    seed: int,
    predicted: Predictor | None = None,
) -> None:
    """Enter all figures into the report."""
    ends = RatioBounds()
    for group, cells in found:
        _enter_rates(report, group, cells)
        _enter_ratios(report, group, cells, ends, seed)
        if predicted is not None:
            ends.simulator += _simulator_errors(cells, predicted, seed)
    named = {
        "adaptive_vs_oracle_min_ratio": (min, ends.oracle),
        "adaptive_vs_direct_min_ratio": (min, ends.direct),
        "adaptive_vs_direct_3x_ratio": (min, ends.direct_claim),
        "adaptive_vs_thunderagent_3x_ratio": (min, ends.thunderagent_claim),
        "adaptive_p95_vs_direct_max_ratio": (max, ends.p95),
        "simulator_error_ratio": (max, ends.simulator),
    }
    for name, (choose, values) in named.items():
        if values:  # what was not measured is absent
            report.figure(name, [choose(values)])
    report.note(
        "steps_per_min: between the ends of the steps at 20 % and 80 % of all steps; ratios: "
        "paired in blocks, the end of the 95 % interval of their median that claims least; "
        f"3x: {CLAIM_SHAPE} at {CLAIM_LOAD:g}x, the lowest of the set-ups; oracle: the best cap."
    )


def _enter_rates(report: Report, group: Group, cells: Cells) -> None:
    for name in sorted(cells):
        found = rates(cells[name])
        if arm_named(name).is_peer:
            report.peer(name, f"{group.name}_steps_per_min", found)
        else:
            report.figure(f"{group.name}_{name.replace('-', '_')}_steps_per_min", found)
    oracle = oracle_of(cells)
    if oracle is not None:
        report.figure(f"{group.name}_oracle_steps_per_min", rates(cells[oracle]))
        report.note(f"{group.name}: the oracle is {oracle}")
    report.note(_details(group, cells))


def _details(group: Group, cells: Cells) -> str:
    """A table for people: medians over the blocks, one arm per line."""
    rows = [(group.name, "n", "cut", *DETAIL.values())]
    for name in sorted(cells):
        known = list(cells[name].values())
        medians = (statistics.median(r.measures[each] for r in known) for each in DETAIL)
        cut = sum(record.cut for record in known)
        rows.append((f"  {name}", str(len(known)), str(cut), *map(shown, medians)))
    widths = [max(len(row[place]) for row in rows) for place in range(len(rows[0]))]
    return "\n".join(
        "  ".join([row[0].ljust(widths[0]), *map(str.rjust, row[1:], widths[1:])]) for row in rows
    )


def _enter_ratios(report: Report, group: Group, cells: Cells, ends: RatioBounds, seed: int) -> None:
    ours = cells.get(OURS)
    if not ours:
        return
    claimed = group.load == CLAIM_LOAD and group.shape == CLAIM_SHAPE
    peer = best_of(cells, [name for name in cells if name.startswith("ThunderAgent")])
    for against, name, own in (
        ("direct", "direct", [ends.direct, *([ends.direct_claim] if claimed else [])]),
        ("oracle", oracle_of(cells), [ends.oracle]),
        ("ThunderAgent", peer, [ends.thunderagent_claim] if claimed else []),
    ):
        found = paired(ours, cells.get(name or "", {}), "steps_per_min")
        if not found:
            continue
        interval = bootstrap(found, seed)
        also = ", ".join(
            f"{DETAIL[each]} {bootstrap(paired(ours, cells[name or ''], each), seed)}"
            for each in OTHER_RATES
        )
        report.note(f"{group.name}: {OURS} over {against} ({name}) {interval}; {also}")
        for each in own:
            each.append(interval.lower)
    slower = paired(ours, cells.get("direct", {}), "latency_p95_s")
    if slower:
        interval = bootstrap(slower, seed)
        report.note(f"{group.name}: p95 of {OURS} over direct {interval}")
        ends.p95.append(interval.upper)


def _simulator_errors(cells: Cells, predicted: Predictor, seed: int) -> list[float]:
    """The upper end of the interval of the simulator's error, for each arm that it supports."""
    found = []
    for of_blocks in cells.values():
        errors = [
            abs(said / record.measures["steps_per_min"] - 1)
            for record in of_blocks.values()
            if (said := predicted(record.spec, record)) is not None
            and record.measures["steps_per_min"] > 0
        ]
        if errors:
            found.append(bootstrap(errors, seed).upper)
    return found
