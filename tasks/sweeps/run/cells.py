"""Run a plan's cells on a bench: skip what is finished, measure the rest in order."""

import time

from tutti.storage import held
from tutti.tasks.progress import StageLog, StageProgress, SweepProgress
from tutti.tasks.runs import Run
from tutti.tasks.sweeps.plan import (
    A_A,
    Adapter,
    Cell,
    Plan,
    detectable_line,
    enter_plan,
    sandbox_alarm,
)
from tutti.tasks.sweeps.run.bench import Bench
from tutti.tasks.sweeps.run.budget import Spending
from tutti.tasks.sweeps.run.early_stop import missing_cells
from tutti.tasks.sweeps.run.runner import Execution, Progress, run_cell
from tutti.tasks.training import load_adapter

SHOW_S = 0.2


async def run_plan(
    plan: Plan,
    bench: Bench,
    run: Run,
    spending: Spending | None = None,
    adapter: Adapter | None = None,
) -> None:
    """Run what is missing of a plan's cells.

    `spending` is what the run has spent so far, of the suite's budget; once that is spent the rest
    stays missing. `adapter` is loaded into the engine before the first cell.
    """
    suite, catalog, log = plan.suite, run.catalog, run.log
    spending = spending or Spending(suite.budget)
    with held(catalog, plan.sweep_id) as lease:
        enter_plan(plan, catalog)  # under the lease: a process that is refused changes nothing
        missing = missing_cells(plan, catalog)
        if missing and (alarm := sandbox_alarm(plan)):
            log.console.print(f"[bold red]  {alarm}[/]")
        if missing and (line := detectable_line(plan, catalog)):
            log.console.print(f"[dim]  {line}[/]")
        if missing and adapter is not None:
            services = await bench.services()
            await load_adapter(services.engine.address.url, adapter.name, adapter.folder)
        overall = SweepProgress(
            {cell.cell_id: len(cell.samples) for cell in plan.cells},
            finished={cell.cell_id for cell in plan.cells} - {cell.cell_id for cell in missing},
        )
        for cell in missing:
            if (why := spending.spent()) is not None:
                line = f"{suite.name}: {why.text}; the same command goes on later"
                log.console.print(f"[yellow]{line}[/]")
                break
            services = await bench.services()
            execution = Execution(plan, services, catalog, run.run_id, lease, spending)
            await _run_one(execution, cell, log, overall)
        if reused := len(plan.cells) - len(missing):
            log.console.print(f"[dim]  {suite.name}: {reused} finished cells reused[/]")


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
    again = f" #{cell.repeat + 1}" if plan.suite.repeats > 1 else ""
    await log.run(title + (" A/A" if cell.repeat == A_A else again), work)
