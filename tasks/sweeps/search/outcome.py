"""Search one policy's highest concurrency, and say what came of it, as JSON and in words.

In: objectives, and who measures a level. Out: the answer with its probes, in values and words.
"""

import math
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import TYPE_CHECKING, Any

import sqlalchemy as sa

from tutti.storage import Catalog
from tutti.storage import catalog as cat
from tutti.storage.catalog import CellReason
from tutti.tasks.scoring.statistics import Interval
from tutti.tasks.sweeps.analysis import accuracy_of
from tutti.tasks.sweeps.results import CellSummary, summarise, t_interval
from tutti.tasks.sweeps.search.search import (
    Figure,
    Objectives,
    Outcome,
    Probe,
    Search,
    judge_probe,
    out_of_order,
)
from tutti.tasks.sweeps.spec import Suite

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

Measure = Callable[[str, int, int, float], Awaitable[Probe | str]]
"""Measures a policy at a level, so many times, those before included; a cell that surely is above
the limit (seconds) may end early. Or says why the level could not be measured whole."""


@dataclass(frozen=True)
class SearchOutcome:
    """The answer of one policy."""

    policy: str
    concurrency: int | None
    """None where not even the lowest level meets the objectives, or a probe could not be ended."""
    sure: bool
    """Whether intervals decided it."""
    said: str
    """The answer in words."""
    probes: tuple[Probe, ...]
    """In the order they were measured; the last state of each level."""
    outcomes: Mapping[int, Outcome]
    notes: tuple[str, ...]
    is_whole: bool = True
    """Whether every level that was probed was measured whole."""

    @property
    def best(self) -> Probe | None:
        """What was measured at the answer."""
        return next((each for each in self.probes if each.level == self.concurrency), None)


async def find_highest(
    policy: str, lowest: int, objectives: Objectives, measure: Measure
) -> SearchOutcome:
    """Probe level after level until the answer is found, or a level could not be measured."""
    asked = objectives
    search = Search(lowest, max(lowest, asked.highest), asked.resolution, asked.times)
    probes: dict[int, tuple[Probe, Outcome]] = {}
    while (level := search.next()) is not None:
        probe = await measure(policy, level, search.times(level) + 1, asked.step_latency_p95)
        if isinstance(probe, str):
            return _found(policy, search, asked, probes, f"broken off at {level}: {probe}")
        outcome = judge_probe(probe, asked)
        search.tell(level, outcome)
        probes[level] = probe, outcome
    return _found(policy, search, asked, probes)


def _found(
    policy: str,
    search: Search,
    objectives: Objectives,
    probes: Mapping[int, tuple[Probe, Outcome]],
    broken_off: str | None = None,
) -> SearchOutcome:
    measured = tuple(probe for probe, _ in probes.values())
    outcomes = {level: outcome for level, (_, outcome) in probes.items()}
    notes = [
        f"at {level}: measured {search.times(level)} times, still {outcomes[level].reason}: "
        "decided by the values"
        for level in search.by_value
    ]
    notes += [
        f"at {probe.level}: the client may have been the bottleneck in {len(probe.doubts)} of "
        f"{len(probe.cells)} cells: {probe.doubts[0]}"
        for probe in measured
        if probe.doubts
    ]
    notes += out_of_order(measured)
    if broken_off is not None:
        return SearchOutcome(
            policy, None, False, broken_off, measured, outcomes, tuple(notes), is_whole=False
        )
    answer, sure = search.answer, search.is_sure
    said = str(answer)
    if answer is None:
        said = f"none, {min(outcomes)} is too high"
    elif answer >= objectives.highest:
        said = f"{answer}, the highest asked"
    said += "" if sure else ", by values alone"
    return SearchOutcome(policy, answer, sure, said, measured, outcomes, tuple(notes))


def lines_of(found: SearchOutcome) -> list[str]:
    """How each level was judged, and what speaks against the answer."""
    levels = [f"{each.level} {_word(found.outcomes[each.level])}" for each in found.probes]
    return [f"probed {', '.join(levels) or 'nothing'}", *found.notes]


def _word(outcome: Outcome) -> str:
    if outcome.word != "inconclusive":
        return outcome.word
    return "met by values" if outcome.by_value else "not met by values"


def content_of(found: SearchOutcome) -> dict[str, Any]:
    """As JSON: the answer with its figures, and every probe."""
    answer: dict[str, Any] = {"policy": found.policy, "concurrency": found.concurrency}
    answer |= {"sure": found.sure, "said": found.said, "notes": list(found.notes)}
    answer["whole"] = found.is_whole
    best = {} if found.best is None else _figures(found.best)
    return answer | best | {"probes": [_content(found, each) for each in found.probes]}


def _content(found: SearchOutcome, probe: Probe) -> dict[str, Any]:
    outcome = found.outcomes[probe.level]
    content: dict[str, Any] = {"concurrency": probe.level, "cells": list(probe.cells)}
    content |= {"outcome": outcome.word, "by_value": outcome.by_value, "reason": outcome.reason}
    return content | _figures(probe)


def _figures(probe: Probe) -> dict[str, Any]:
    return {
        "step_latency_p95": probe.latency._asdict(),
        "accuracy": probe.accuracy._asdict(),
        "steps_per_min": probe.rate._asdict(),
    }


PER_SESSION = 4  # samples of each session at least: in fewer, hardly ever all run at once


def probe_suite(suite: Suite, policy: str, level: int, repeats: int, limit_s: float) -> Suite:
    """`suite` at one level of the policy that tables call `policy`.

    A cell whose step latency surely is above `limit_s` ends. The probe's cells are those that the
    suite has at this level, except where that has fewer samples than `PER_SESSION` of each session.
    """
    options = suite.each_policy[policy].model_dump()
    change: dict[str, Any] = {"policies": (options,), "concurrency": (level,), "repeats": repeats}
    change |= {
        "saturation": {"step_latency_p95": limit_s},
        "stop_when_decided": None,
        "repeat_baseline": False,
    }
    change["min_samples_per_session"] = max(PER_SESSION, suite.repetition.min_samples_per_session)
    return suite.with_values(change)


def never_run(catalog: Catalog, cells: Sequence[str]) -> int:
    """Samples of `cells` that have no attempt though their cell did not end early."""
    samples, states = cat.samples.c, cat.attempt_states.c
    tried = sa.exists().where(states.sample_id == samples.sample_id)
    query = (
        sa.select(sa.func.count().label("n"))
        .join_from(cat.samples, cat.cells, samples.cell_id == cat.cells.c.cell_id)
        .where(samples.cell_id.in_(cells), cat.cells.c.status != cat.ENDED_EARLY, ~tried)
    )
    return int(catalog.rows(query)[0]["n"])


def read_probe(
    connection: "DuckDBPyConnection", sweep_id: str, level: int, cells: Sequence[str]
) -> Probe:
    """The figures of `cells`, repeats together; those that are not known are None."""
    found = [each for each in summarise(connection, sweep_id) if each.cell_id in cells]
    score, interval = accuracy_of(connection, cells)
    limits = [
        each.reason_value
        for each in found
        if each.reason_code == CellReason.LATENCY_LIMIT and each.reason_value is not None
    ]
    doubts = [each.client_fault for each in found if each.client_fault is not None]
    return Probe(
        level,
        tuple(cells),
        _together(found, lambda c: c.step_latency_p95, lambda c: c.latency_interval),
        Figure(score, *(interval or (None, None))),
        _together(found, lambda c: c.steps_per_min, lambda c: c.rate_interval),
        max(limits, default=None),
        tuple(doubts),
    )


def _together(
    cells: Sequence[CellSummary],
    value_of: Callable[[CellSummary], float | None],
    interval_of: Callable[[CellSummary], Interval | None],
) -> Figure:
    known = [(value, interval_of(c)) for c in cells if (value := value_of(c)) is not None]
    return pooled([value for value, _ in known], [interval for _, interval in known])


def pooled(values: Sequence[float], intervals: Sequence[Interval | None]) -> Figure:
    """The mean of repeats with an interval from each one's own.

    Errors of independent repeats add in squares. Where two of their intervals do not even touch,
    repeats differ by more than their parts show: then from the lowest end to the highest. Where one
    has no interval, Student's over the repeats' values; none for a single one.
    """
    if not values:
        return Figure()
    mean = fmean(values)
    known = [interval for interval in intervals if interval is not None]
    if len(known) < len(values):
        low, high = t_interval(values) or (None, None)
        return Figure(mean, None if low is None else max(0.0, low), high)
    lows, highs = zip(*known, strict=True)
    if max(lows) > min(highs):
        return Figure(mean, min(lows), max(highs))
    below, above = (
        math.sqrt(sum((end - value) ** 2 for end, value in zip(ends, values, strict=True)))
        for ends in (lows, highs)
    )
    return Figure(mean, max(0.0, mean - below / len(values)), mean + above / len(values))
