"""Run a plan's cells on a bench: skip what is finished, measure the rest in order."""

import time
from collections.abc import Sequence
from dataclasses import dataclass

from tutti.storage import Lease, held
from tutti.tasks.progress import StageLog, StageProgress, SweepProgress
from tutti.tasks.runs import Run
from tutti.tasks.sweeps.plan import (
    A_A,
    Adapter,
    Cell,
    Plan,
    detectable_line,
    enter_plan,
    missing_cells,
    sandbox_alarm,
)
from tutti.tasks.sweeps.run.bench import Bench
from tutti.tasks.sweeps.run.budget import Spending
from tutti.tasks.sweeps.run.runner import Execution, Progress, run_cell
from tutti.tasks.training import load_adapter

SHOW_S = 0.2


@dataclass(frozen=True)
class BenchedPlan:
    """A plan, and what its model is served by."""

    plan: Plan
    bench: Bench
    adapter: Adapter | None = None
    """Loaded into the engine before the first cell."""


async def run_plan(
    plan: Plan,
    bench: Bench,
    run: Run,
    spending: Spending | None = None,
    adapter: Adapter | None = None,
) -> None:
    """Run what is missing of a plan's cells, as `run_plans` does for several."""
    spending = spending or Spending(plan.suite.budget)
    await run_plans([BenchedPlan(plan, bench, adapter)], run, spending)


async def run_plans(benched: Sequence[BenchedPlan], run: Run, spending: Spending) -> None:
    """Run what is missing of the cells of plans of one sweep, block by block.

    A block is one concurrency level once: its cells of all plans run before those of the next, so
    that drift of the machine is no model's effect. `spending` is what the run has spent so far of
    the suite's budget; once that is spent the rest stays missing.
    """
    with held(run.catalog, benched[0].plan.sweep_id) as lease:
        runs = [await _prepare(each, run, lease, spending) for each in benched]
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


async def _prepare(benched: BenchedPlan, run: Run, lease: Lease, spending: Spending) -> "_PlanRun":
    """Enter a plan, find what is missing of it, and print what to know before it runs."""
    plan, bench, adapter = benched.plan, benched.bench, benched.adapter
    enter_plan(plan, run.catalog)  # under the lease: a process that is refused changes nothing
    missing = missing_cells(plan, run.catalog)
    if missing and (alarm := sandbox_alarm(plan)):
        run.log.console.print(f"[bold red]  {alarm}[/]")
    if missing and (line := detectable_line(plan, run.catalog)):
        run.log.console.print(f"[dim]  {line}[/]")
    if missing and adapter is not None:
        services = await bench.services()
        await load_adapter(services.engine.address.url, adapter.name, adapter.folder)
    return _PlanRun(benched, run, lease, spending, missing)


def _in_blocks(runs: Sequence["_PlanRun"]) -> list[tuple["_PlanRun", Cell]]:
    """The missing cells of all plans, in the order in which they run."""
    every = [(run, cell) for run in runs for cell in run.missing]
    return sorted(every, key=lambda pair: pair[1].block)  # stable: plans keep their order


class _PlanRun:
    """One plan's missing cells and their progress."""

    def __init__(
        self,
        benched: BenchedPlan,
        run: Run,
        lease: Lease,
        spending: Spending,
        missing: Sequence[Cell],
    ) -> None:
        self.plan, self.bench, self.missing = benched.plan, benched.bench, missing
        self._run, self._lease, self._spending = run, lease, spending
        left = {cell.cell_id for cell in missing}
        samples = {cell.cell_id: len(cell.samples) for cell in self.plan.cells}
        self._overall = SweepProgress(samples, finished=samples.keys() - left)

    async def measure(self, cell: Cell) -> None:
        """Run one cell; the engine and the gateway start with the first."""
        services, run = await self.bench.services(), self._run
        execution = Execution(
            self.plan, services, run.catalog, run.run_id, self._lease, self._spending
        )
        await _run_one(execution, cell, run.log, self._overall)


async def _run_one(execution: Execution, cell: Cell, log: StageLog, overall: SweepProgress) -> None:
    async def work(progress: StageProgress) -> None:
        shown = 0.0

        def show(state: Progress) -> None:
            nonlocal shown
            overall.tell(cell.cell_id, state.done, state.counted, state.correct, state.infra)
            now = time.monotonic()
            if now - shown < SHOW_S and state.done < state.total and not state.paused:
                return  # hundreds of samples may end in a second
            shown = now
            note = f"accuracy {state.correct / state.counted:.0%}" if state.counted else ""
            if state.infra:
                note += f", {state.infra} infra errors"
            note += ", paused" * state.paused
            progress.show(state.done, state.total, note, overall.line())

        done = await run_cell(execution, cell, show)
        overall.finish(cell.cell_id)
        if done.reason:
            why = f"ended after {done.done} of {done.total}: {done.reason}"
            log.console.print(f"[yellow]  {why}[/]")

    plan = execution.plan
    title = f"{plan.suite.name}: {plan.set_up.served_name} {cell.policy} at {cell.concurrency}"
    again = f" #{cell.repeat + 1}" if plan.suite.repetition.repeats > 1 else ""
    await log.run(title + (" A/A" if cell.repeat == A_A else again), work)
