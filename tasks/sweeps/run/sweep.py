"""Running a suite: its benchmarks and models, each on its deployment, and the missing cells of each
plan.

In: a suite, its search service, a run. Out: the sweep's id. One model runs after another, each
engine is started once; with ``interleave``, and if all models have external endpoints, levels
alternate with all of them up.
"""

import asyncio
import time
from collections.abc import Iterable, Sequence
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Literal

import sqlalchemy as sa
from rich.text import Text

from tutti.storage import Catalog, Lease, commit, held
from tutti.storage import catalog as cat
from tutti.tasks.platform.progress import Run, StageProgress, stage
from tutti.tasks.serving import EngineFailed
from tutti.tasks.serving import engines as serving
from tutti.tasks.serving.registry import Model, pick_models
from tutti.tasks.sweeps.plan import (
    Adapter,
    Cell,
    Deployment,
    Plan,
    SearchService,
    enter_plan,
    missing_cells,
    notices,
    other_models,
    plan_of,
    task_set_of,
)
from tutti.tasks.sweeps.results import A_A
from tutti.tasks.sweeps.run.budget import BudgetTracker
from tutti.tasks.sweeps.run.progress import SweepProgress
from tutti.tasks.sweeps.run.runner import PAUSED, Execution, Progress, client_row, run_cell
from tutti.tasks.sweeps.spec import Suite

OF_SUITE = "suite"


def enter_windows(suite: Suite, sweep_id: str, catalog: Catalog) -> None:
    """Enter the suite's windows for every cell of the sweep; remove those it no longer names."""
    cells, windows = cat.cells.c, cat.windows
    ids = sa.select(cells.cell_id).where(cells.sweep_id == sweep_id)
    with catalog.transaction() as connection:
        mine = windows.c.cell_id.in_(ids) & (windows.c.reason_code == OF_SUITE)
        connection.execute(sa.delete(windows).where(mine))
        for cell_id in connection.execute(ids).scalars().all():
            for name, (start_s, end_s) in suite.report.windows.items():
                row = {"cell_id": cell_id, "name": name, "start_s": start_s, "end_s": end_s}
                row |= {"reason_code": OF_SUITE, "reason": "the suite's", "created_at": cat.now()}
                cat.upsert(connection, windows, row)


SHOW_S = 0.2
RESTARTED = "engine_restarts"
"""A row of `server_metrics`: engines were started again so often, because one had died."""


async def run_suite(
    suite: Suite,
    models: Path,
    library: SearchService | None,
    run: Run,
    whole: BudgetTracker | None = None,
) -> str:
    """Measure the missing cells of a suite; `models` is the registry's file, `whole` the spending
    that includes this one.

    Raises RegistryError and SuiteError before anything starts, and as `Deployment.start`.
    """
    every = suite.parts()
    entries = pick_models(models, dict.fromkeys(part.model for part in every))
    Deployment.check(entries)
    # The commands of all engines of the sweep, also of those that start hours later.
    by_model = _grouped(every, "model").values()
    deployments = [_deployment(own, models, run) for own in by_model]
    engines = {each.engine_id: each for deployment in deployments for each in deployment.started}
    if unknown := [engine for engine in engines.values() if serving.needs_check(engine.launch)]:
        await check_commands(run.log, unknown)
    spending, sweep_id = BudgetTracker(suite.budget, whole), ""
    for together in _rounds(suite, every, entries.values()):
        async with AsyncExitStack() as stack:
            served = {
                model: await stack.enter_async_context(_deployment(own, models, run, library))
                for model, own in _grouped(together, "model").items()
            }
            serving.place_engines(
                each for deployment in served.values() for each in deployment.started
            )
            # All models of one benchmark: their cells alternate.
            for parts in _grouped(together, "benchmark").values():
                sets = [await task_set_of(each, library, run.catalog, run.log) for each in parts]
                plans = [
                    _PlanRun(plan_of(part, own.config(part, task_set), suite), own)
                    for part, task_set in zip(parts, sets, strict=True)
                    for own in (served[part.model],)
                ]
                await run_plans(plans, run, spending)
                sweep_id = plans[0].plan.sweep_id
    enter_windows(suite, sweep_id, run.catalog)
    return sweep_id


@stage(name="check", tags=("engine",))
async def check_commands(_: StageProgress, engines: Sequence[serving.Engine]) -> None:
    """Check commands with their servers' own parsers. Raises RegistryError with every refusal."""
    await asyncio.to_thread(serving.check_engines, engines)


def _deployment(
    of_model: Sequence[Suite], models: Path, run: Run, search: SearchService | None = None
) -> Deployment:
    others = {name for part in of_model for name in other_models(part)}
    entries = pick_models(models, (of_model[0].model, *sorted(others)))
    return Deployment(entries, run.catalog, run.log, search, of_model[0].execution.engines)


def _rounds(
    suite: Suite, every: Sequence[Suite], entries: Iterable[Model]
) -> Iterable[Sequence[Suite]]:
    # Endpoints need nothing of this machine, so they always fit side by side.
    if suite.execution.interleave or all(entry.checkpoint is None for entry in entries):
        return [every]
    return _grouped(every, "model").values()


def _grouped(
    parts: Sequence[Suite], field: Literal["model", "benchmark"]
) -> dict[str, list[Suite]]:
    groups: dict[str, list[Suite]] = {}
    for part in parts:
        groups.setdefault(getattr(part, field), []).append(part)
    return groups


async def run_plan(
    plan: Plan,
    deployment: Deployment,
    run: Run,
    spending: BudgetTracker | None = None,
    adapter: Adapter | None = None,
) -> None:
    """Run the missing cells of a plan; `adapter` is loaded into the engine before."""
    spending = spending or BudgetTracker(plan.suite.budget)
    await run_plans([_PlanRun(plan, deployment, adapter)], run, spending)


async def run_plans(runs: Sequence["_PlanRun"], run: Run, spending: BudgetTracker) -> None:
    """Run the missing cells of plans of one sweep, block by block, until the budget is spent.

    A block is one concurrency level once: its cells of all plans run before those of the next, so
    that drift of the machine is no model's effect.
    """
    with held(run.catalog, runs[0].plan.sweep_id) as lease:
        for each in runs:
            each.prepare(run, lease, spending)
        for plan_run, cell in _in_blocks(runs):
            if (why := spending.spent()) is not None:
                line = f"{plan_run.plan.suite.name}: {why.text}; the same command goes on later"
                run.log.console.print(f"[yellow]{line}[/]")
                break
            await plan_run.measure(cell)
        for plan_run in runs:
            if reused := len(plan_run.plan.cells) - len(plan_run.missing):
                name = plan_run.plan.suite.name
                run.log.console.print(f"[dim]  {name}: {reused} finished cells reused[/]")


def _in_blocks(runs: Sequence["_PlanRun"]) -> list[tuple["_PlanRun", Cell]]:
    every = [(run, cell) for run in runs for cell in run.missing]
    return sorted(every, key=lambda pair: pair[1].block)  # stable: plans keep their order


class _PlanRun:
    def __init__(self, plan: Plan, deployment: Deployment, adapter: Adapter | None = None) -> None:
        self.plan, self._deployment, self._adapter = plan, deployment, adapter
        self.missing: Sequence[Cell] = ()
        self._is_loaded = False
        self._restarts = 0

    def prepare(self, run: Run, lease: Lease, spending: BudgetTracker) -> None:
        """Enter the plan, find its missing cells, and print the notices before it runs."""
        plan = self.plan
        enter_plan(plan, run.catalog)  # under the lease: a process that is refused changes nothing
        self.missing = missing_cells(plan, run.catalog)
        for style, line in notices(plan, run.catalog, spending.limits_usd) if self.missing else ():
            run.log.console.print(f"[{style}]  {line}[/]")
        self._run = run
        self._execution = Execution(
            plan, self._deployment, run.catalog, run.run_id, lease, spending
        )
        left = {cell.cell_id for cell in self.missing}
        samples = {cell.cell_id: len(cell.samples) for cell in plan.cells}
        self._overall = SweepProgress(samples, finished=samples.keys() - left)

    async def measure(self, cell: Cell) -> None:
        """Run one cell; the engine and the gateway start with the first.

        If an engine dies, all start again, as often as the suite allows, and the cell continues
        with the missing samples. Raises EngineFailed after that, and at once if a training has
        changed an engine's weights, because a restart would serve the old ones.
        """
        suite = self.plan.suite
        while True:
            await self._start()
            try:
                again = f" #{cell.repeat + 1}" if suite.repetition.repeats > 1 else ""
                load = f"{cell.concurrency}{' A/A' if cell.repeat == A_A else again}"
                title = f"{suite.name}: {self.plan.config.model_name} {cell.policy} at {load}"
                log, execution = self._run.log, self._execution
                return await measure_cell.titled(log, title, execution, cell, self._overall)
            except EngineFailed as error:
                trained = any(each.trained_by for each in self._deployment.started)
                if trained or self._restarts >= suite.execution.restarts:
                    raise
                self._restarts += 1
                await self._restart(cell, self._deployment.engine.engine_id, error)

    async def _start(self) -> None:
        await self._deployment.start_for(self.plan.suite)
        if self._adapter is not None and not self._is_loaded:
            address = self._deployment.engine.address
            await serving.load_adapter(address.url, self._adapter.name, self._adapter.folder)
            self._is_loaded = True

    async def _restart(self, cell: Cell, engine_id: str, why: EngineFailed) -> None:
        """Print and record the restart, and start everything anew. No window lies across it."""
        settings = self.plan.suite.execution
        reason = str(why).splitlines()[0].removesuffix("; its log says:").removesuffix(".")
        again = f"start {self._restarts} of {settings.restarts} anew"
        self._run.log.console.print(Text(f"  {reason}; {again}", "yellow"))
        key = {"sweep_id": self.plan.sweep_id, "cell_id": cell.cell_id}
        rows = [
            key | client_row(RESTARTED, float(self._restarts)) | {"engine_id": engine_id},
            key | client_row(PAUSED, 1.0),
        ]
        await asyncio.to_thread(commit, self._run.catalog, {"server_metrics": rows})
        self._is_loaded = False
        await self._deployment.restart()
        await asyncio.sleep(settings.restart_pause_s)


@stage(name="cell", tags=("cell",))
async def measure_cell(
    progress: StageProgress, execution: Execution, cell: Cell, overall: SweepProgress
) -> None:
    """Measure one cell. It has no retries: the same run, started again, resumes it."""
    shown_at = 0.0

    def show(state: Progress) -> None:
        """Show the state, unless another was shown just before: hundreds may end in a second."""
        nonlocal shown_at
        overall.tell(cell.cell_id, state.done, state.counted, state.correct, state.infra)
        now = time.monotonic()
        if now - shown_at < SHOW_S and state.done < state.total and not state.paused:
            return
        shown_at = now
        note = f"accuracy {state.correct / state.counted:.0%}" if state.counted else ""
        note += f", {state.infra} infra errors" if state.infra else ""
        note += ", paused" * state.paused
        progress.show(state.done, state.total, note, overall.line())

    done = await run_cell(execution, cell, show)
    overall.finish(cell.cell_id)
    if done.reason:
        why = f"ended after {done.done} of {done.total}: {done.reason}"
        progress.console.print(Text(f"  {why}", "yellow"))
