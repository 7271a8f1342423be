"""The flow `find-concurrency`: for each policy of a suite, the highest concurrency that meets the
limits of step latency and accuracy. Each probe is a cell of the suite's sweep, so it is reused."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from prefect import flow
from rich.console import Console

from tutti.flows.sweep import DEFAULT_SUITE
from tutti.storage import connect
from tutti.tasks.platform import MODELS
from tutti.tasks.platform.progress import Run, in_flow_run, open_run
from tutti.tasks.reporting import concurrency_table
from tutti.tasks.serving.registry import pick_models
from tutti.tasks.sweeps import SuiteError
from tutti.tasks.sweeps.plan import (
    Deployment,
    SearchService,
    TaskSet,
    other_models,
    plan_of,
    task_set_of,
)
from tutti.tasks.sweeps.run import BudgetTracker, run_plan
from tutti.tasks.sweeps.search import (
    Objectives,
    Probe,
    SearchOutcome,
    content_of,
    find_highest,
    lines_of,
    never_run,
    probe_suite,
    read_probe,
)
from tutti.tasks.sweeps.spec import Suite
from tutti.terminal import table

DEFAULT_OBJECTIVES = Objectives()


@flow(name="find-concurrency")
async def find_concurrency(
    suite: Suite = DEFAULT_SUITE,
    objectives: Objectives = DEFAULT_OBJECTIVES,
    models: Path = MODELS,
) -> dict[str, Any]:
    """Find the highest concurrency of each policy that meets the objectives.

    Args:
       suite: The suite to measure; the search chooses its levels.
       objectives: The limits to meet, and the range of levels.
       models: The model registry file.

    Returns the sweep's id, and for each policy the answer and its probes. Raises SuiteError for a
    suite of several benchmarks or models.
    """
    if suite.is_grid:
        raise SuiteError(
            "benchmarks, models: a search is of one of each; give `benchmark`, `model`"
        )
    lowest = objectives.lowest or min(*suite.concurrency, objectives.highest)
    parameters = {"suite": suite.model_dump(mode="json"), "models": str(models)}
    parameters |= {"objectives": objectives.model_dump(mode="json")}
    entries = pick_models(models, (suite.model, *other_models(suite)))
    with open_run("find-concurrency", parameters) as run:
        async with SearchService.of_suites((suite,), run.catalog, run.log) as library:
            task_set = await task_set_of(suite, library, run.catalog, run.log)
            served = Deployment(entries, run.catalog, run.log, library, suite.execution.engines)
            async with served as deployment:
                levels = _Levels(suite, task_set, deployment, run, BudgetTracker(suite.budget))
                found = [
                    await find_highest(label, lowest, objectives, levels.measure)
                    for label in suite.each_policy
                ]
    await _show(suite.name, found)
    return {"sweep": suite.name, "policies": [content_of(each) for each in found]}


@dataclass(frozen=True)
class _Levels:
    suite: Suite
    task_set: TaskSet
    deployment: Deployment
    run: Run
    spending: BudgetTracker

    async def measure(self, policy: str, level: int, repeats: int, limit_s: float) -> Probe | str:
        """Return the measurements of a level's cells; or why they are incomplete."""
        probe = probe_suite(self.suite, policy, level, repeats, limit_s)
        plan = plan_of(probe, self.deployment.config(probe, self.task_set), whole=self.suite)
        await run_plan(plan, self.deployment, self.run, self.spending)
        cells = [cell.cell_id for cell in plan.cells]
        if left := never_run(self.run.catalog, cells):
            return f"{left} samples are left; the same command goes on"
        return await asyncio.to_thread(self._read, plan.sweep_id, level, cells)

    def _read(self, sweep_id: str, level: int, cells: Sequence[str]) -> Probe:
        with connect(self.run.catalog.home, comments=False) as store:
            return read_probe(store, sweep_id, level, cells)


async def _show(name: str, found: Sequence[SearchOutcome]) -> None:
    """Show the answers as a table, with notes; in a flow run as an artifact too."""
    rows, console = concurrency_table(found), Console()
    console.print(table(dict.fromkeys(rows[0], "fold"), (list(row.values()) for row in rows)))
    said = [f"{each.policy}: {line}" for each in found for line in lines_of(each)]
    console.print("\n".join(said), highlight=False)
    if in_flow_run():
        from prefect.artifacts import acreate_table_artifact

        description = f"Highest concurrency of {name}\n\n" + "\n".join(f"- {line}" for line in said)
        await acreate_table_artifact(rows, "highest-concurrency", description)
