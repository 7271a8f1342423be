"""Two sides compared: paired by task where each task was tried on both, by intervals else.

In: a store's connection and `Pair`s of cells. Out: `SetupComparison` rows, each with a verdict,
Holm's correction made over the comparisons of one figure.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tutti.tasks.reporting.focus import rows
from tutti.tasks.reporting.intervals import from_interval, ratio
from tutti.tasks.reporting.summary import (
    BASELINE,
    CellSummary,
    LoadPoint,
    ids_of,
    load_points,
    pooled,
    without_a_a,
)
from tutti.tasks.reporting.text.numbers import at_once
from tutti.tasks.scoring.statistics import (
    MOST_LOST,
    Comparison,
    Finding,
    Interval,
    Verdict,
    compare_paired,
    judge,
    simultaneous_confidence,
)

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

SAME_WITHIN = 0.05  # of a score; as a share of the first side's value for what has no upper end
TOO_SHORT = "no interval: a window is too short"

# The tasks that both sides tried, repeats averaged, and how many only one of them did.
PAIRED_SQL = """
with members as (
    select unnest($sides) as side, unnest($cells) as cell_id
),
means as (
    select side, task_id, avg({column}) as value
    from counted join members using (cell_id) where {column} is not null group by all
),
pairs as (
    select unnest($pairs) as pair, unnest($firsts) as first, unnest($seconds) as second
),
sides as (
    select pair, task_id, any_value(value) filter (side = first) as a,
           any_value(value) filter (side = second) as b
    from pairs join means on side = first or side = second group by pair, task_id
)
select pair, list(a order by task_id) filter (a is not null and b is not null) as a,
       list(b order by task_id) filter (a is not null and b is not null) as b,
       count(*) filter (a is null or b is null) as left_out
from sides group by pair order by pair
"""

# Of each side, the share of its samples that infrastructure or a scorer kept out of every score.
LOST_SQL = """
with members as (
    select unnest($sides) as side, unnest($cells) as cell_id
)
select side, avg(lost) as share
from (select cell_id, 0 as lost from counted union all select cell_id, 1 from lost_samples)
     join members using (cell_id)
group by side
"""


@dataclass(frozen=True)
class Figure:
    """What of an attempt is compared."""

    name: str
    column: str
    """SQL over `counted`; null: the attempt is left out."""
    higher_is_better: bool
    is_relative: bool
    """Whether SAME_WITHIN is a share of the first side's mean."""


SCORE = Figure("score", "headline_score", True, False)
SECONDS = Figure(
    "seconds an attempt", "(epoch_us(ended_at) - epoch_us(started_at)) / 1e6", False, True
)
COST = Figure("USD an attempt", "cost_usd", False, True)
FIGURES = (SCORE, SECONDS, COST)
RATE = "steps/min"


@dataclass(frozen=True)
class Pair:
    """Two groups of cells over the same tasks; `b` is judged against `a`."""

    where: str
    """What they share, in words."""
    name_a: str
    cells_a: tuple[str, ...]
    name_b: str
    cells_b: tuple[str, ...]


@dataclass(frozen=True)
class SetupComparison:
    """One figure of one pair. None is "not known", never 0."""

    where: str
    name_a: str
    name_b: str
    figure: str
    n: int
    """Paired tasks; for rates the steps behind them."""
    left_out: int
    """Tasks tried on one side only."""
    mean_a: float | None
    mean_b: float | None
    change: float | None
    """b - a; for rates b / a."""
    low: float | None
    """Ends of the change's 95 % interval."""
    high: float | None
    p: float | None
    """Holm's, over the comparisons of this figure."""
    verdict: str
    """better, worse, same or inconclusive."""
    reason: str


def policy_pairs(cells: Sequence[CellSummary]) -> list[Pair]:
    """At each load of a benchmark and model: the baseline, else the first policy, and each other.

    With one policy there is nothing to compare, and no pair.
    """
    groups: dict[tuple[str, str, int], list[LoadPoint]] = {}
    for point in load_points(cells):
        groups.setdefault((point.benchmark, point.model, point.concurrency), []).append(point)
    pairs = []
    for _, points in sorted(groups.items()):
        first = next((p for p in points if p.policy == BASELINE), points[0])
        where = setting(first, cells)
        pairs += [
            Pair(where, first.policy, ids_of(first), other.policy, ids_of(other))
            for other in points
            if other is not first
        ]
    return pairs


def model_pairs(cells: Sequence[CellSummary]) -> list[Pair]:
    """On each benchmark the model measured first, and each other, over all of their cells."""
    groups: dict[str, dict[str, list[str]]] = {}
    for cell in without_a_a(cells):
        groups.setdefault(cell.benchmark, {}).setdefault(cell.model, []).append(cell.cell_id)
    return [
        Pair(benchmark, first, tuple(models[first]), other, tuple(models[other]))
        for benchmark, models in groups.items()
        for first in list(models)[:1]
        for other in list(models)[1:]
    ]


def setting(point: LoadPoint, cells: Sequence[CellSummary]) -> str:
    """A point's load, with benchmark and model in front where the cells differ in them."""
    parts = [
        getattr(point, key)
        for key in ("benchmark", "model")
        if len({getattr(cell, key) for cell in cells}) > 1
    ]
    return ", ".join([*parts, at_once(point.concurrency)])


def compare_pairs(
    connection: "DuckDBPyConnection", pairs: Sequence[Pair], figures: Sequence[Figure] = FIGURES
) -> list[SetupComparison]:
    """Every figure of every pair that has tasks tried on both sides; a figure's pairs together."""
    return [each for figure in figures for each in _compared(connection, pairs, figure)]


def compare_rates(pairs: Sequence[Pair], cells: Sequence[CellSummary]) -> list[SetupComparison]:
    """Steps per minute of each pair as a ratio with its interval; pairs without rates are left out.

    Rates of two runs share no tasks' luck worth pairing: their intervals are taken as independent.
    """
    by_id = {cell.cell_id: cell for cell in cells}
    found = []
    for pair in pairs:
        sides = [
            pooled(tuple(by_id[each] for each in side)) for side in (pair.cells_a, pair.cells_b)
        ]
        if sides[0].rate and sides[1].rate:
            found.append((pair, sides[0], sides[1]))
    measured = [_ratio(a, b) for _, a, b in found]
    at = simultaneous_confidence(max(1, len(found)))
    findings = []
    for times, interval in measured:
        p, wide = from_interval(times, interval, at) if interval else (None, None)
        findings.append(Finding(times - 1, _less_one(interval), _less_one(wide), p))
    verdicts = judge(findings, SAME_WITHIN)
    return [
        _rates(each, *of_each, verdict)
        for each, of_each, verdict in zip(found, measured, verdicts, strict=True)
    ]


def _compared(
    connection: "DuckDBPyConnection", pairs: Sequence[Pair], figure: Figure
) -> list[SetupComparison]:
    import numpy as np

    if not pairs:
        return []
    names: Mapping[tuple[str, ...], int] = {
        side: i for i, side in enumerate(sorted({s for p in pairs for s in (p.cells_a, p.cells_b)}))
    }
    members = [(name, cell) for side, name in names.items() for cell in side]
    sides, cells = [name for name, _ in members], [cell for _, cell in members]
    gone = rows(connection, LOST_SQL, sides=sides, cells=cells)
    shares = {row["side"]: float(row["share"]) for row in gone}
    found = rows(
        connection,
        PAIRED_SQL.format(column=figure.column),
        sides=sides,
        cells=cells,
        pairs=list(range(len(pairs))),
        firsts=[names[pair.cells_a] for pair in pairs],
        seconds=[names[pair.cells_b] for pair in pairs],
    )
    kept = [row for row in found if row["a"]]
    tried = [(np.array(row["a"])[:, None], np.array(row["b"])[:, None]) for row in kept]
    if figure.is_relative and not any(side.any() for both in tried for side in both):
        return []  # models without a price cost nothing, and that is no finding
    # What has no upper end is compared in shares of the first side's mean; of zeros there are none.
    units = [abs(float(a.mean())) or 1.0 if figure.is_relative else 1.0 for a, _ in tried]
    at = simultaneous_confidence(max(1, len(tried)))
    plain = [compare_paired(a / unit, b / unit) for (a, b), unit in zip(tried, units, strict=True)]
    wide = [
        compare_paired(a / unit, b / unit, confidence=at)
        for (a, b), unit in zip(tried, units, strict=True)
    ]
    findings = [
        Finding(each.difference, _both(each.low, each.high), _both(more.low, more.high), each.p)
        for each, more in zip(plain, wide, strict=True)
    ]
    verdicts = judge(findings, SAME_WITHIN, figure.higher_is_better)
    made = []
    for row, each, unit, verdict in zip(kept, plain, units, verdicts, strict=True):
        pair = pairs[row["pair"]]
        lost = max(shares.get(names[side], 0.0) for side in (pair.cells_a, pair.cells_b))
        made.append(_row(pair, figure, row["left_out"], each, unit, _unless_lost(verdict, lost)))
    return made


def _unless_lost(verdict: Verdict, share: float) -> Verdict:
    """The verdict; none where a side's scores leave out too many of its samples."""
    if share <= MOST_LOST:
        return verdict
    reason = f"{share:.0%} of a side's samples were lost to infrastructure or a scorer"
    return verdict._replace(word="inconclusive", reason=reason)


def _row(
    pair: Pair, figure: Figure, left_out: int, found: Comparison, unit: float, verdict: Verdict
) -> SetupComparison:
    where = (pair.where, pair.name_a, pair.name_b, figure.name)
    means = (found.n, left_out, found.first * unit, found.second * unit)
    low, high = _both(found.low, found.high) or (None, None)
    ends = [None if end is None else end * unit for end in (low, high)]
    change = (found.difference * unit, ends[0], ends[1], verdict.p_holm)
    return SetupComparison(*where, *means, *change, verdict.word, verdict.reason)


def _rates(
    found: tuple[Pair, LoadPoint, LoadPoint],
    times: float,
    interval: Interval | None,
    verdict: Verdict,
) -> SetupComparison:
    pair, a, b = found
    low, high = interval or (None, None)
    where = (pair.where, pair.name_a, pair.name_b, RATE)
    reason = verdict.reason if interval else TOO_SHORT
    rates = (a.rate, b.rate, times, low, high, verdict.p_holm)
    return SetupComparison(*where, a.steps + b.steps, 0, *rates, verdict.word, reason)


def _ratio(a: LoadPoint, b: LoadPoint) -> tuple[float, Interval | None]:
    assert a.rate and b.rate, f"rates that are not there: {a} {b}"
    interval = None
    if a.rate_interval is not None and b.rate_interval is not None:
        interval = ratio(b.rate, b.rate_interval, a.rate, a.rate_interval)
    return b.rate / a.rate, interval if interval and interval[0] > 0 else None


def _less_one(interval: Interval | None) -> Interval | None:
    return interval and (interval[0] - 1, interval[1] - 1)


def _both(low: float | None, high: float | None) -> Interval | None:
    return None if low is None or high is None else (low, high)
