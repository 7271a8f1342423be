"""Estimate of a sweep: which cells exist, which would run, how long and at what cost.

In: a suite, or a plan, and the store. Out: a `PlanEstimate`, and the notices before a run. Nothing
is started or entered. Times and costs are those of past cells of the same benchmark and model: of
the same policy and concurrency if there are some, else of the nearest concurrency, which the
estimate states.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from statistics import median
from typing import Any, Literal, NamedTuple

import sqlalchemy as sa

from tutti.storage import Catalog, open_catalog, query
from tutti.storage import catalog as cat
from tutti.tasks.agents.commands import shipped_harness
from tutti.tasks.retrieval import read_manifest
from tutti.tasks.scoring import SCORERS
from tutti.tasks.scoring.statistics import expected_sd, minimum_detectable
from tutti.tasks.serving.engines import engine_lines
from tutti.tasks.serving.metering import find_price, read_price_book
from tutti.tasks.serving.registry import Model, pick_models
from tutti.tasks.sweeps.plan.deployment import Deployment
from tutti.tasks.sweeps.plan.library import SearchService, find_index, named_index
from tutti.tasks.sweeps.plan.missing import finished_counts, missing_cells
from tutti.tasks.sweeps.plan.plan import Cell, Plan, plan_of, sandbox_alarm
from tutti.tasks.sweeps.plan.roles import other_models
from tutti.tasks.sweeps.plan.task_set import TaskSet
from tutti.tasks.sweeps.spec import Suite, SuiteError
from tutti.tasks.synthesis import find_made

Decision = Literal["reuse", "re-score", "run"]
PAST = """
select c.policy, c.concurrency, count(*) as n,
       if(count(*) = count(a.cost_usd), avg(a.cost_usd), null) as cost_usd,
       avg(k.headline_score) as score, any_value(seconds) as seconds
from attempts a join cells c using (cell_id)
     left join counted k on k.cell_id = a.cell_id and k.attempt_id = a.attempt_id join (
    -- A cell that was interrupted takes what its runs took, not the night between them.
    select cell_id, sum(seconds) as seconds from (
        select cell_id, epoch_us(max(ended_at)) / 1e6 - epoch_us(min(started_at)) / 1e6 as seconds
        from attempts where status != 'cancelled' and stop_reason is distinct from 'worker_lost'
        group by cell_id, run_id)
    group by cell_id) s on s.cell_id = a.cell_id
where c.benchmark = $benchmark and c.model = $model and a.status != 'cancelled'
group by c.cell_id, c.policy, c.concurrency
"""
SCORED = """
select distinct a.cell_id from counted a
where a.cell_id in (select unnest($cells))
  and not exists (from scores s where s.attempt_id = a.attempt_id and s.scorer = $scorer
                  and s.scorer_version = $version)
"""
ELSEWISE = """
select distinct c.policy, c.concurrency, c.repeat from cells c join sweeps s using (sweep_id)
where s.name = $sweep and c.benchmark = $benchmark and c.model = $model
  and c.cell_id not in (select unnest($cells))
  and exists (from attempts a where a.cell_id = c.cell_id and a.status != 'cancelled')
"""
"""Points of a sweep that were measured with other settings than the plan's."""
LOST = """
select cell_id, count(*) as n from attempts a
where cell_id in (select unnest($cells)) and status = 'scorer_error'
  and not exists (from scores s where s.attempt_id = a.attempt_id and s.correct is not null)
group by cell_id
"""
"""Samples that their scorer failed on, by cell."""


@dataclass(frozen=True)
class CellEstimate:
    """The estimate of one cell."""

    cell: Cell
    decision: Decision
    reason: str
    missing: int = 0
    """Samples that would run."""
    seconds: float | None = None
    """None where there is no past cell."""
    cost_usd: float | None = None
    basis: str = ""
    """What the estimate is from."""
    unscored: int = 0
    """Samples that are finished and have no score, because the scorer failed."""


@dataclass(frozen=True)
class PlanEstimate:
    """The estimate of a plan."""

    # Not shown: asyncio.run shows what it returns to nobody, which took as long as all else.
    plan: Plan = field(repr=False)
    cells: tuple[CellEstimate, ...] = field(repr=False)
    measure: str
    """The benchmark's headline: accuracy or mean score."""
    expected: float | None
    """That measure of past cells."""
    detectable: float | None
    """The smallest true difference in it that two of its cells would show with a chance of 80 %;
    None for too few tasks. Of a mean score at most: its spread is taken as that of right or wrong,
    and no score of 0 to 1 spreads wider."""

    @classmethod
    def of(cls, suite: Suite, models: Path) -> "tuple[PlanEstimate, ...]":
        """Return the estimates of running `suite` now, one for each of its benchmarks and models.

        Raises RegistryError, BenchmarkError, and SuiteError if its tasks do not exist yet.
        """
        every = suite.parts()
        Deployment.check(pick_models(models, dict.fromkeys(part.model for part in every)))
        found = []
        with open_catalog() as catalog:
            for part in every:
                entries = pick_models(models, (part.model, *other_models(part)))
                task_set, index_id = _tasks(part, catalog)
                search = None if index_id is None else SearchService(index_id, "")
                deployment = Deployment(entries, catalog, None, search, part.execution.engines)
                plan = plan_of(part, deployment.config(part, task_set), suite)
                found.append(outlook_of(plan, catalog))
        return tuple(found)

    @property
    def seconds(self) -> float | None:
        """Seconds of all cells that would run; None if one is unknown."""
        return _sum(each.seconds for each in self.cells if each.missing)

    @property
    def cost_usd(self) -> float | None:
        """Cost of all cells that would run; None if one is unknown."""
        return _sum(each.cost_usd for each in self.cells if each.missing)

    @property
    def warnings(self) -> list[str]:
        """Warnings about the plan."""
        return [line] if (line := greedy_line(self.plan)) else []

    @property
    def detectable_words(self) -> str:
        """The measure and its figures as text; empty if there are none."""
        if self.detectable is None:
            return ""
        if self.detectable > 1:
            return "so few tasks would show no difference between two cells"
        at = "an assumed 50 %" if self.expected is None else f"{self.expected:.0%} as before"
        return (
            f"two cells show a difference of {100 * self.detectable:.1f} points or more with a "
            f"chance of 80 % (paired by task, {self.measure} {at})"
        )


def outlook_of(plan: Plan, catalog: Catalog) -> PlanEstimate:
    """Return the estimate of a plan."""
    ids = [cell.cell_id for cell in plan.cells]
    past = _past(plan, catalog)
    lost = {row["cell_id"]: row["n"] for row in query(LOST, catalog.home, {"cells": ids})}
    stale, unbegun = _stale(plan, catalog, lost), _unbegun(plan, catalog)
    finished = finished_counts(catalog, plan.cells)
    missing = {cell.cell_id for cell in missing_cells(plan, catalog)}
    cells = []
    for cell in plan.cells:
        cell_id, done, n = cell.cell_id, finished[cell.cell_id], len(cell.samples)
        estimate = CellEstimate(cell, "reuse", "all samples are finished")
        if cell_id in missing:
            some = f"{done} of {n} samples are finished" if done else "no sample is finished"
            reason = unbegun.get(cell_id, some)
            estimate = CellEstimate(cell, "run", reason, n - done, *_like(cell, n - done, past))
        elif done < n:
            estimate = CellEstimate(cell, "reuse", "it ended early, as the suite asks")
        elif cell_id in stale:
            estimate = CellEstimate(cell, "re-score", stale[cell_id])
        cells.append(replace(estimate, unscored=lost.get(cell_id, 0)))
    return _with_cells(plan, tuple(cells), past)


def _with_cells(
    plan: Plan, cells: tuple[CellEstimate, ...], past: Sequence[Mapping[str, Any]]
) -> PlanEstimate:
    scores = [row["score"] for row in past if row["score"] is not None]
    expected, headline = median(scores) if scores else None, plan.config.task_set.benchmark.headline
    measure = "accuracy" if headline is None else headline.measure
    return PlanEstimate(plan, cells, measure, expected, _detectable(plan, expected))


def _past(plan: Plan, catalog: Catalog) -> list[dict[str, Any]]:
    of = {"benchmark": plan.suite.benchmark_name, "model": plan.config.model_name}
    return query(PAST, catalog.home, of)


def notices(plan: Plan, catalog: Catalog, limits_usd: bool = False) -> list[tuple[str, str]]:
    """Return notices before a plan runs, each with its style: unsafe programs, calls that no limit
    in USD counts, trials that will be alike, and the difference in score that its cells can show.

    `limits_usd`: whether the run has a limit besides the suite's own. Raises SandboxUnavailable if
    it runs programs and no sandbox level may be used, PriceError for an invalid price file.
    """
    every = [
        ("bold red", sandbox_alarm(plan)),
        ("yellow", unpriced_line(plan, limits_usd)),
        ("yellow", greedy_line(plan)),
        ("dim", detectable_line(plan, catalog)),
    ]
    return [(style, line) for style, line in every if line]


class UnpricedModels(NamedTuple):
    """Names of models without a price."""

    own: list[str]
    """Whose calls are an attempt's own: the measured model and its experts."""
    aside: list[str]
    """Whose are not: judge and user."""


def unpriced_models(plan: Plan) -> UnpricedModels:
    """Return the models of a plan without a price. Raises PriceError for an invalid price file."""
    suite, config = plan.suite, plan.config
    own = {one.name: one.model for one in config.roles.experts.values()}
    if config.model is not None:
        own[suite.model] = config.model
    roles = (config.roles.judge, config.roles.user)
    aside = {one.name: one.model for one in roles if one is not None}
    return UnpricedModels(_unpriced(own), _unpriced(aside))


def unpriced_line(plan: Plan, limits_usd: bool = False) -> str:
    """Return a notice of the models that a sweep's limits in USD do not count; empty without such
    models or limits.

    `limits_usd`: whether the run has a limit besides the suite's own. Raises PriceError for an
    invalid price file.
    """
    suite = plan.suite
    limits = ["budget.usd"] if suite.budget.usd is not None or limits_usd else []
    limits += ["limits.attempt_usd"] if suite.limits.attempt_usd is not None else []
    unpriced = unpriced_models(plan) if limits else UnpricedModels([], [])
    if not (names := sorted({*unpriced.own, *unpriced.aside})):
        return ""
    return (
        f"{' and '.join(limits)}: the price of {', '.join(names)} is unknown, so its calls do not "
        "count; state `prices` in its entry of models.yaml"
    )


def _unpriced(models: Mapping[str, Model]) -> list[str]:
    without = {name: model for name, model in models.items() if model.prices is None}
    if not without:
        return []
    book, now = read_price_book(), datetime.now(UTC)
    return [
        name
        for name, model in without.items()
        if all(find_price(book, each, now) is None for each in (model.served_name or name, name))
    ]


def greedy_line(plan: Plan) -> str:
    """Return a notice that greedy trials will be alike; empty for one trial, or if answers vary.

    A harness of the user's own has its own sampling, and is not judged.
    """
    suite = plan.suite
    trials = suite.samples_of_each
    if trials < 2 or suite.harness.command is not None or suite.sampling.temperature > 0:
        return ""
    return (
        f"{trials} trials of each task at temperature 0: a model that decodes greedily repeats its "
        "answer, so pass@k and majority@k show little; set `sampling.temperature`, such as 0.7"
    )


def detectable_line(plan: Plan, catalog: Catalog) -> str:
    """Return a notice of the difference in score that two of the plan's cells can show.

    Empty for a plan of a single task or set-up, because there is nothing to compare.
    """
    models = () if plan.whole is None else plan.whole.models
    if len({(cell.policy, cell.concurrency) for cell in plan.cells}) < 2 and len(models) < 2:
        return ""
    return _with_cells(plan, (), _past(plan, catalog)).detectable_words


def _detectable(plan: Plan, before: float | None) -> float | None:
    fewest = min(plan.cells, key=lambda cell: len(cell.samples))
    tasks = len({sample.task.task_id for sample in fewest.samples})
    if tasks < 2:
        return None
    # All right before is not always right: half a task may be wrong, or the spread would be none.
    room = 0.5 / tasks
    expected = min(max(0.5 if before is None else before, room), 1 - room)
    return minimum_detectable(tasks, expected_sd(expected, len(fewest.samples) // tasks))


def _like(
    cell: Cell, missing: int, past: Sequence[Mapping[str, Any]]
) -> tuple[float | None, float | None, str]:
    """Return seconds and USD by the most similar past cells, and a description of those."""
    timed = [row for row in past if row["seconds"]]
    if not timed:
        return None, None, "no past cell of this benchmark and model"
    same = [row for row in timed if row["concurrency"] == cell.concurrency]
    own = [row for row in same if row["policy"] == cell.policy]
    if same:
        like, basis = (own, "past") if own else (same, "past of other policies")
        basis = f"{len(like)} {basis}"
    else:
        levels = {row["concurrency"] for row in timed}
        nearest = min(levels, key=lambda level: abs(math.log(level / cell.concurrency)))
        like, basis = [row for row in timed if row["concurrency"] == nearest], f"past at {nearest}"
    costs = [row["cost_usd"] for row in like if row["cost_usd"] is not None]
    seconds = median(row["seconds"] / row["n"] for row in like)
    return seconds * missing, median(costs) * missing if costs else None, basis


def _unbegun(plan: Plan, catalog: Catalog) -> dict[str, str]:
    """Return the reasons of cells without an attempt."""
    ids, states = [cell.cell_id for cell in plan.cells], cat.attempt_states.c
    begun = {
        row["cell_id"]
        for some in cat.any_of(states.cell_id, ids)
        for row in catalog.rows(sa.select(states.cell_id).where(some).distinct())
    }
    wanted: dict[str, Any] = {"sweep": plan.suite.name, "benchmark": plan.suite.benchmark_name}
    wanted |= {"model": plan.config.model_name, "cells": ids}
    elsewise = {tuple(row.values()) for row in query(ELSEWISE, catalog.home, wanted)}
    return {
        cell.cell_id: "was run with other settings, or by an earlier tutti"
        if (cell.policy, cell.concurrency, cell.repeat) in elsewise
        else "was never run"
        for cell in plan.cells
        if cell.cell_id not in begun
    }


def _stale(plan: Plan, catalog: Catalog, lost: Mapping[str, int]) -> dict[str, str]:
    """Return cells with attempts that today's scorer has not scored, or failed on, although the
    store has its inputs; each with the reason."""
    benchmark = plan.config.task_set.benchmark
    if not benchmark.is_scored or shipped_harness(plan.suite.command) is not None:
        return {}
    scorer, judge = benchmark.scoring, plan.suite.roles.judge
    if scorer == SCORERS["imported"]:
        return {}
    verb = f"tutti score {plan.suite.name}"
    by = f" --judge {judge}" if scorer.needs == "judge" and judge is not None else ""
    wanted: dict[str, Any] = {"cells": [cell.cell_id for cell in plan.cells]}
    wanted |= {"scorer": scorer.name, "version": scorer.version}
    reason = f"not scored by {scorer.name} {scorer.version}: `{verb}{by}`"
    reasons = {
        cell_id: f"samples lost to the scorer: {n}: `{verb} --lost{by}`"
        for cell_id, n in lost.items()
    }
    return reasons | {row["cell_id"]: reason for row in query(SCORED, catalog.home, wanted)}


def _sum(values: Iterable[float | None]) -> float | None:
    known = list(values)
    if any(value is None for value in known):
        return None
    return math.fsum(value for value in known if value is not None)


def engines_of(suite: Suite, models: Path) -> dict[str, str]:
    """A line for each engine that the suite needs: its server, device, parsers, fit, and GPUs.

    Nothing is started. Raises RegistryError if engines that run at the same time do not fit, or a
    command is refused.
    """
    lines: dict[str, str] = {}
    with open_catalog() as catalog:
        for part in suite.parts():
            entries = pick_models(models, (part.model, *other_models(part)))
            lines |= engine_lines(
                Deployment(entries, catalog, engines=part.execution.engines).started
            )
    return lines


def _tasks(suite: Suite, catalog: Catalog) -> tuple[TaskSet, str | None]:
    if suite.request is None:
        named = named_index(suite)
        index_id = named and read_manifest(find_index(named, catalog))["index_id"]
        return TaskSet.read(suite), index_id
    found = find_made(catalog, suite.request)
    if found is None:
        raise SuiteError(
            "tasks: the suite's task set is not made yet, so nothing is known of its cells; "
            "`tutti sweep run` makes it, and so does `tutti synth` with its numbers"
        )
    return TaskSet.made(found[0], catalog, suite), found[1]
