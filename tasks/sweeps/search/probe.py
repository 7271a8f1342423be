"""One level of a search: the suite that measures it, and what its cells came to.

Figures are those of the report, read from the store: of each cell's window, but for accuracy.
"""

import math
from collections.abc import Callable, Sequence
from statistics import fmean
from typing import TYPE_CHECKING, Any

import sqlalchemy as sa

from tutti.storage import Catalog
from tutti.storage import catalog as cat
from tutti.storage.catalog import CellReason
from tutti.tasks.reporting import CellSummary, summarise, t_interval
from tutti.tasks.scoring.statistics import Interval
from tutti.tasks.sweeps.judge import FIGURES, sampled
from tutti.tasks.sweeps.search.search import Figure, Probe
from tutti.tasks.sweeps.spec import Suite, with_values

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

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
    return with_values(suite, change)


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
    score = FIGURES["score"](sampled(connection, cells))
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
        Figure(score.value, *(score.interval or (None, None))),
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
