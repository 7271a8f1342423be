"""Run a suite's cells on a bench: plan them, skip what is finished, measure the rest in order."""

import time
from dataclasses import dataclass
from pathlib import Path

from tutti.storage import Catalog, Lease, held
from tutti.tasks.progress import StageLog, StageProgress, SweepProgress
from tutti.tasks.sweeps.plan import (
    A_A,
    Cell,
    Plan,
    TaskSet,
    detectable_line,
    enter_plan,
    make_plan,
    roles_of,
    sandbox_alarm,
)
from tutti.tasks.sweeps.run.bench import Bench
from tutti.tasks.sweeps.run.budget import Spending
from tutti.tasks.sweeps.run.early_stop import missing_cells
from tutti.tasks.sweeps.run.runner import Progress, Services, run_cell
from tutti.tasks.sweeps.spec import STDLIB, Suite, sweep_id_of
from tutti.tasks.training import load_adapter

SHOW_S = 0.2


@dataclass(frozen=True)
class Adapter:
    """A LoRA adapter to measure in the bench's engine instead of its own weights."""

    name: str
    adapter_id: str
    folder: Path


async def run_sweep(
    suite: Suite,
    task_set: TaskSet,
    bench: Bench,
    catalog: Catalog,
    run_id: str,
    log: StageLog,
    adapter: Adapter | None = None,
    whole: Suite | None = None,
    spending: Spending | None = None,
) -> Plan:
    """Run what is missing of a suite's cells; returns the plan.

    `whole`: the suite of several benchmarks or models that this is a part of; `spending`: what the
    run has spent so far, of the suite's budget. Once it is spent the rest stays missing.
    """
    spending = spending or Spending(suite.budget)
    name, model_id = bench.engine.address.served_name, bench.model_id
    if adapter is not None:
        name, model_id = adapter.name, adapter.adapter_id
    searched = bench.library if suite.benchmark == STDLIB else None
    index_id = None if searched is None else searched.index_id
    engine_id = bench.engine.engine_id
    ids = (task_set.task_set_id, index_id, engine_id, model_id, name)
    roles = roles_of(suite, bench.served)
    plan = make_plan(
        suite,
        task_set.problems,
        *ids,
        model=bench.model,
        roles=roles,
        whole=whole,
        sweep_id=None if whole is None else sweep_id_of(whole),
    )
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
                log.console.print(f"[yellow]{suite.name}: {why}; the same command goes on later[/]")
                break
            services = await bench.services()
            await _run_one(plan, cell, services, catalog, run_id, lease, log, spending, overall)
        if reused := len(plan.cells) - len(missing):
            log.console.print(f"[dim]  {suite.name}: {reused} finished cells reused[/]")
    return plan


async def _run_one(
    plan: Plan,
    cell: Cell,
    services: Services,
    catalog: Catalog,
    run_id: str,
    lease: Lease,
    log: StageLog,
    spending: Spending,
    overall: SweepProgress,
) -> None:
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

        done = await run_cell(plan, cell, services, catalog, run_id, lease, show, spending)
        overall.finish(cell.cell_id)
        if done.reason:
            why = f"ended after {done.done} of {done.total}: {done.reason}"
            log.console.print(f"[yellow]  {why}[/]")

    title = f"{plan.suite.name}: {plan.served_name} {cell.policy} at {cell.concurrency}"
    again = f" #{cell.repeat + 1}" if plan.suite.repeats > 1 else ""
    await log.run(title + (" A/A" if cell.repeat == A_A else again), work)
