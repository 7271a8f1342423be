"""Search for a policy's highest concurrency that meets objectives: doubling, then bisection.

In: objectives, and a function that measures a level. Out: the answer with its probes, as values, as
JSON and in words. A probe that its intervals cannot decide is measured again, a bounded number of
times, and then decided by its values, which a note says.
"""

import math
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from statistics import fmean
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import sqlalchemy as sa
from pydantic import Field, model_validator

from tutti.storage import Catalog
from tutti.storage import catalog as cat
from tutti.storage.catalog import REASON_PRECISION, CellReason
from tutti.tasks.platform import Strict
from tutti.tasks.scoring.statistics import Interval
from tutti.tasks.sweeps.analysis import accuracy_of
from tutti.tasks.sweeps.results import summarise, t_interval
from tutti.tasks.sweeps.spec import Suite

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

Word = Literal["met", "not met", "inconclusive"]


class Objectives(Strict):
    """The limits that a level must meet, and the levels among which the highest is sought."""

    step_latency_p95: float = Field(
        2.0, gt=0, description="95th percentile of step latency, time held included: at most, s"
    )
    accuracy: float | None = Field(None, ge=0, le=1, description="at least, 0 to 1")
    lowest: int | None = Field(
        None, ge=1, description="first level to probe; the suite's lowest if left out"
    )
    highest: int = Field(64, ge=1, description="last level to probe")
    resolution: float = Field(
        0.1, gt=0, le=1, description="how near the answer must be, as a share of it; at least 1"
    )
    times: int = Field(
        3, ge=1, description="how often a level is measured that its intervals do not decide"
    )

    @model_validator(mode="after")
    def _range(self) -> "Objectives":
        if self.lowest is not None and self.lowest > self.highest:
            raise ValueError(f"lowest is {self.lowest}, above highest, {self.highest}")
        return self


class Figure(NamedTuple):
    """A value and its 95 % interval; None means unknown."""

    value: float | None = None
    low: float | None = None
    high: float | None = None


@dataclass(frozen=True)
class Probe:
    """The measurements of a level."""

    level: int
    cells: tuple[str, ...]
    latency: Figure
    """p95 of step latency, seconds."""
    accuracy: Figure
    rate: Figure
    saturated_s: float | None = None
    """The limit that one of its cells surely exceeded, and so ended early, where one did."""
    doubts: tuple[str, ...] = ()


class Outcome(NamedTuple):
    """Whether a level meets the objectives."""

    word: Word
    by_value: bool
    reason: str


def judge_probe(probe: Probe, objectives: Objectives) -> Outcome:
    """Judge a probe: met when each interval lies on its good side; not met when one lies on its bad
    side.

    A cell that ended as over-saturated is above the limit, and above any lower one. An unknown
    value meets nothing.
    """
    limit, least = objectives.step_latency_p95, objectives.accuracy
    if probe.saturated_s is not None and probe.saturated_s >= limit * (1 - REASON_PRECISION):
        return Outcome("not met", False, "over-saturated")
    # Negated, a latency is a figure that must reach a bound, as accuracy is.
    value, low, high = (None if each is None else -each for each in probe.latency)
    bounds = {f"p95 {limit:g} s": (Figure(value, high, low), -limit)}
    if least is not None:
        bounds[f"accuracy {least:g}"] = probe.accuracy, least
    failed = [n for n, (f, bound) in bounds.items() if f.high is not None and f.high < bound]
    open_ = [n for n, (f, bound) in bounds.items() if f.low is None or f.low < bound]
    by_value = all(f.value is not None and f.value >= bound for f, bound in bounds.values())
    if failed:
        return Outcome("not met", by_value, f"surely beyond {' and '.join(failed)}")
    if open_:
        known = all(figure.low is not None for figure, _ in bounds.values())
        reason = f"on either side of {' and '.join(open_)}"
        reason = reason if known else "without an interval: too few steps, or too much was lost"
        return Outcome("inconclusive", by_value, reason)
    return Outcome("met", by_value, "all intervals are on the good side")


class Search:
    """Finds the highest level of `lowest` to `highest` that meets the objectives.

    If levels up to some point meet them and those above do not, the answer is that point, or below
    it by less than the resolution; else a level that meets them, with one near above that does not.
    """

    def __init__(self, lowest: int, highest: int, resolution: float = 0.1, times: int = 3) -> None:
        """ValueError for an empty range, resolution outside 0 to 1, fewer than one time."""
        if not 1 <= lowest <= highest or not 0 < resolution <= 1 or times < 1:
            given = f"{lowest} to {highest}, {resolution}, {times} times"
            raise ValueError(f"no range, resolution or number of times: {given}")
        self._lowest, self._highest = lowest, highest
        self._resolution, self._times = resolution, times
        self._times_measured: dict[int, int] = {}
        self._open: int | None = None
        self._met: dict[int, bool] = {}
        self.by_value: list[int] = []
        """Levels that their intervals left open."""

    def next(self) -> int | None:
        """The level to measure, the same until `tell` is called; None when the answer is found."""
        if self._open is not None:
            return self._open
        met, above = self.answer, self._lowest_not_met
        if above is None:
            if met is None:
                return self._lowest
            return None if met >= self._highest else min(2 * met, self._highest)
        if met is None:
            return None if above <= self._lowest else self._lowest
        near = max(1.0, self._resolution * met)
        return None if above - met <= near else (met + above) // 2

    def times(self, level: int) -> int:
        return self._times_measured.get(level, 0)

    def tell(self, level: int, outcome: Outcome) -> None:
        """Record the outcome of all of the level's measurements together."""
        self._times_measured[level] = self.times(level) + 1
        self._open = None
        if outcome.word != "inconclusive":
            self._met[level] = outcome.word == "met"
        elif self._times_measured[level] < self._times:
            self._open = level
        else:
            self._met[level] = outcome.by_value
            self.by_value.append(level)

    @property
    def answer(self) -> int | None:
        """The highest level so far that meets the objectives, below all that do not; or None."""
        above = self._lowest_not_met
        met = [level for level, is_met in self._met.items() if is_met]
        return max((level for level in met if above is None or level < above), default=None)

    @property
    def is_sure(self) -> bool:
        """Whether intervals decided the answer and the level above it."""
        return not {self.answer, self._lowest_not_met} & set(self.by_value)

    @property
    def _lowest_not_met(self) -> int | None:
        return min((level for level, is_met in self._met.items() if not is_met), default=None)


def out_of_order(probes: Sequence[Probe]) -> list[str]:
    """Sentences about pairs of levels of which the lower is surely slower or less accurate.

    A search by halves takes for granted that more load is never better; where it was, levels that
    were not probed may be better too.
    """
    notes = []
    for lower, higher in combinations(sorted(probes, key=lambda probe: probe.level), 2):
        at = f"at {lower.level} than at {higher.level}: load alone does not explain it"
        if _surely_above(lower.latency, higher.latency):
            notes.append(f"p95 of step latency is higher {at}")
        if _surely_above(higher.accuracy, lower.accuracy):
            notes.append(f"accuracy is lower {at}")
    return notes


def _surely_above(first: Figure, second: Figure) -> bool:
    return first.low is not None and second.high is not None and first.low > second.high


Measure = Callable[[str, int, int, float], Awaitable[Probe | str]]
"""Measures a policy at a level, in all a number of times; a cell that surely is above the limit
(seconds) may end early. A text is why the level could not be measured whole."""


@dataclass(frozen=True)
class SearchOutcome:
    policy: str
    concurrency: int | None
    """None where not even the lowest level meets the objectives, or a probe could not be ended."""
    sure: bool
    words: str
    probes: tuple[Probe, ...]
    """Probes in the order they were measured; the last state of each level."""
    outcomes: Mapping[int, Outcome]
    notes: Sequence[str]
    is_whole: bool
    """Whether every level that was probed was measured whole."""

    @property
    def best(self) -> Probe | None:
        return next((each for each in self.probes if each.level == self.concurrency), None)


async def find_highest(
    policy: str, lowest: int, objectives: Objectives, measure: Measure
) -> SearchOutcome:
    """Probe level after level until the answer is found, or a level could not be measured."""
    highest, limit_s = objectives.highest, objectives.step_latency_p95
    search = Search(lowest, max(lowest, highest), objectives.resolution, objectives.times)
    probes: dict[int, Probe] = {}
    outcomes: dict[int, Outcome] = {}
    broken_off = ""
    while not broken_off and (level := search.next()) is not None:
        probe = await measure(policy, level, search.times(level) + 1, limit_s)
        if isinstance(probe, str):
            broken_off = f"broken off at {level}: {probe}"
        else:
            probes[level], outcomes[level] = probe, judge_probe(probe, objectives)
            search.tell(level, outcomes[level])
    answer, sure = (None, False) if broken_off else (search.answer, search.is_sure)
    words = str(answer)
    if answer is None:
        words = broken_off or f"none, {min(outcomes)} is too high"
    elif answer >= highest:
        words = f"{answer}, the highest asked"
    words += "" if sure or broken_off else ", by values alone"
    measured = tuple(probes.values())
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
    return SearchOutcome(policy, answer, sure, words, measured, outcomes, notes, not broken_off)


def lines_of(found: SearchOutcome) -> list[str]:
    """The judgement of each level, and reasons to doubt the answer."""
    levels = []
    for level, outcome in found.outcomes.items():
        by_values = "met by values" if outcome.by_value else "not met by values"
        levels.append(f"{level} {by_values if outcome.word == 'inconclusive' else outcome.word}")
    return [f"probed {', '.join(levels) or 'nothing'}", *found.notes]


def content_of(found: SearchOutcome) -> dict[str, Any]:
    """The answer with its figures and every probe, as JSON."""
    content: dict[str, Any] = {"policy": found.policy, "concurrency": found.concurrency}
    content |= {"sure": found.sure, "said": found.words, "notes": list(found.notes)}
    content |= {"whole": found.is_whole} | ({} if found.best is None else _figures(found.best))
    probes = []
    for probe in found.probes:
        outcome = found.outcomes[probe.level]
        judged = {"outcome": outcome.word, "by_value": outcome.by_value, "reason": outcome.reason}
        own = {"concurrency": probe.level, "cells": list(probe.cells)}
        probes.append(own | judged | _figures(probe))
    return content | {"probes": probes}


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
    return suite.with_values(
        {
            "policies": (suite.each_policy[policy].model_dump(),),
            "concurrency": (level,),
            "repeats": repeats,
            "saturation": {"step_latency_p95": limit_s},
            "stop_when_decided": None,
            "repeat_baseline": False,
            "min_samples_per_session": max(PER_SESSION, suite.repetition.min_samples_per_session),
        }
    )


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
    own = [each for each in summarise(connection, sweep_id) if each.cell_id in cells]
    latencies = [(c.step_latency_p95, c.latency_interval) for c in own]
    limits = [
        each.reason_value
        for each in own
        if each.reason_code == CellReason.LATENCY_LIMIT and each.reason_value is not None
    ]
    return Probe(
        level,
        tuple(cells),
        pooled(latencies),
        Figure(*accuracy_of(connection, cells)),
        pooled([(c.steps_per_min, c.rate_interval) for c in own]),
        max(limits, default=None),
        tuple(each.client_fault for each in own if each.client_fault is not None),
    )


def pooled(figures: Sequence[tuple[float | None, Interval | None]]) -> Figure:
    """The mean of repeats with an interval from each one's own; unknown values are left out.

    Errors of independent repeats add in squares. Where two of their intervals do not even touch,
    repeats differ by more than their parts show: then from the lowest end to the highest. Where one
    has no interval, Student's over the repeats' values; none for a single one.
    """
    values = [value for value, _ in figures if value is not None]
    ends = [interval for value, interval in figures if value is not None and interval is not None]
    if not values:
        return Figure()
    mean = fmean(values)
    if len(ends) < len(values):
        low, high = t_interval(values) or (None, None)
        return Figure(mean, None if low is None else max(0.0, low), high)
    lows, highs = zip(*ends, strict=True)
    if max(lows) > min(highs):
        return Figure(mean, min(lows), max(highs))
    below, above = (
        math.sqrt(sum((end - value) ** 2 for end, value in zip(side, values, strict=True)))
        for side in (lows, highs)
    )
    return Figure(mean, max(0.0, mean - below / len(values)), mean + above / len(values))
