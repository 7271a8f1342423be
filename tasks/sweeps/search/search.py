"""Search for the highest concurrency that meets objectives: doubling, then bisection.

In: after each probe, whether its level met them. Out: the level to probe next, and the answer. A
probe that its intervals cannot decide is measured again, a bounded number of times, and then
decided by its values, which is said. Pure: `tutti.tasks.sweeps.search.outcome` reads
what a probe measured.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

from pydantic import BaseModel, ConfigDict, Field, model_validator

from tutti.storage.catalog import REASON_PRECISION

Word = Literal["met", "not met", "inconclusive"]


class Objectives(BaseModel):
    """What a level must keep, and among which levels the highest that does is sought."""

    model_config = ConfigDict(extra="forbid", frozen=True)

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
    """A value and its 95 % interval; None is "not known"."""

    value: float | None = None
    low: float | None = None
    high: float | None = None


@dataclass(frozen=True)
class Probe:
    """What measuring a level came to."""

    level: int
    cells: tuple[str, ...]
    """One a repeat."""
    latency: Figure
    """p95 of step latency, seconds."""
    accuracy: Figure
    rate: Figure
    """Steps per minute."""
    saturated_s: float | None = None
    """The limit that one of its cells surely exceeded, and so ended early, where one did."""
    doubts: tuple[str, ...] = ()
    """What speaks against its figures."""


class Outcome(NamedTuple):
    """Whether a level meets the objectives."""

    word: Word
    by_value: bool
    """Whether the values do, whatever the intervals say."""
    reason: str


def judge_probe(probe: Probe, objectives: Objectives) -> Outcome:
    """Met when each interval lies on its good side; not met when one lies on its bad side.

    A cell that ended as over-saturated is surely above the limit, and above any lower one. A value
    that is not known meets nothing.
    """
    limit, least = objectives.step_latency_p95, objectives.accuracy
    if probe.saturated_s is not None and probe.saturated_s >= limit * (1 - REASON_PRECISION):
        return Outcome("not met", False, "over-saturated")
    bounds = [_Bound(f"p95 {limit:g} s", probe.latency, limit, is_least=False)]
    if least is not None:
        bounds.append(_Bound(f"accuracy {least:g}", probe.accuracy, least, is_least=True))
    of: dict[Word, list[str]] = {"met": [], "not met": [], "inconclusive": []}
    for each in bounds:
        of[each.word].append(each.name)
    by_value = all(each.holds(each.figure.value) for each in bounds)
    if of["not met"]:
        return Outcome("not met", by_value, f"surely beyond {' and '.join(of['not met'])}")
    if of["inconclusive"]:
        known = all(each.figure.low is not None for each in bounds)
        reason = f"on either side of {' and '.join(of['inconclusive'])}"
        reason = reason if known else "without an interval: too few steps, or too much was lost"
        return Outcome("inconclusive", by_value, reason)
    return Outcome("met", by_value, "all intervals are on the good side")


class _Bound(NamedTuple):
    name: str
    figure: Figure
    bound: float
    is_least: bool

    def holds(self, value: float | None) -> bool:
        if value is None:
            return False
        return value >= self.bound if self.is_least else value <= self.bound

    @property
    def word(self) -> Word:
        _, low, high = self.figure
        worst, best = (low, high) if self.is_least else (high, low)
        if best is not None and not self.holds(best):
            return "not met"
        return "met" if self.holds(worst) else "inconclusive"


class Search:
    """Finds the highest level of `lowest` to `highest` that meets the objectives.

    If levels up to some point meet them and those above do not, the answer is that point or below
    it by less than the resolution, after at most log2(highest / lowest) + 2 probes of doubling and
    log2(1 / resolution) + 1 of bisection. Else it is a level that meets them, with one near above
    it that does not.
    """

    def __init__(self, lowest: int, highest: int, resolution: float = 0.1, times: int = 3) -> None:
        """ValueError for an empty range, resolution outside 0 to 1, fewer than one time."""
        if not 1 <= lowest <= highest or not 0 < resolution <= 1 or times < 1:
            given = f"{lowest} to {highest}, {resolution}, {times} times"
            raise ValueError(f"no range, resolution or number of times: {given}")
        self._lowest, self._highest = lowest, highest
        self._resolution, self._times = resolution, times
        self._asked: dict[int, int] = {}
        self._open: int | None = None
        self._met: dict[int, bool] = {}
        self.by_value: list[int] = []
        """Levels that their intervals left open."""

    def next(self) -> int | None:
        """The level to measure; None when the answer is found. The same level until it is told."""
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
        """How often the level was measured so far."""
        return self._asked.get(level, 0)

    def tell(self, level: int, outcome: Outcome) -> None:
        """What the level's measurements, all together, came to."""
        self._asked[level] = self.times(level) + 1
        self._open = None
        if outcome.word != "inconclusive":
            self._met[level] = outcome.word == "met"
        elif self._asked[level] < self._times:
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
    """In words, each pair of levels of which the lower is surely slower or less accurate.

    A search by halves takes for granted that more load is never better; where it was, levels that
    were not probed may be better too.
    """
    found = []
    ordered = sorted(probes, key=lambda probe: probe.level)
    for place, lower in enumerate(ordered):
        for higher in ordered[place + 1 :]:
            at = f"at {lower.level} than at {higher.level}"
            if _surely_above(lower.latency, higher.latency):
                found.append(f"p95 of step latency is higher {at}: load alone does not explain it")
            if _surely_above(higher.accuracy, lower.accuracy):
                found.append(f"accuracy is lower {at}: load alone does not explain it")
    return found


def _surely_above(first: Figure, second: Figure) -> bool:
    return first.low is not None and second.high is not None and first.low > second.high
