"""Run a suite's cells on a bench: plan them, skip what is finished, measure the rest in order."""

from dataclasses import dataclass
from pathlib import Path

from flows.bench import Bench
from flows.progress import StageProgress
from flows.stages import StageLog
from storage import Catalog, Lease, held
from tasks.sweeps.plan import Cell, Plan, enter_plan, finished_samples, make_plan
from tasks.sweeps.roles import roles_of
from tasks.sweeps.runner import Progress, Services, run_cell
from tasks.sweeps.suite import Suite
from tasks.sweeps.task_set import TaskSet
from tasks.training.serve_adapter import load_adapter


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
) -> Plan:
    """Run what is missing of a suite's cells; returns the plan."""
    name, model_id = (
        (bench.engine.address.served_name, bench.model_id)
        if adapter is None
        else (adapter.name, adapter.adapter_id)
    )
    index_id = None if bench.library is None else bench.library.index_id
    engine_id = bench.engine.engine_id
    ids = (task_set.task_set_id, index_id, engine_id, model_id, name)
    roles = roles_of(suite, bench.served)
    plan = make_plan(suite, task_set.problems, *ids, model=bench.model, roles=roles)
    enter_plan(plan, catalog)
    with held(catalog, plan.sweep_id) as lease:
        missing = [c for c in plan.cells if len(finished_samples(catalog, c)) < len(c.samples)]
        if missing and adapter is not None:
            services = await bench.services()
            await load_adapter(services.engine.address.url, adapter.name, adapter.folder)
        for cell in missing:
            await _run_one(plan, cell, await bench.services(), catalog, run_id, lease, log)
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
) -> None:
    async def work(progress: StageProgress) -> None:
        def show(state: Progress) -> None:
            note = f"accuracy {state.correct / state.counted:.0%}" if state.counted else ""
            if state.infra:
                note += f", {state.infra} infra errors"
            progress.show(state.done, state.total, note)

        await run_cell(plan, cell, services, catalog, run_id, lease, show)

    title = f"{plan.suite.name}: {plan.served_name} {cell.policy} at {cell.concurrency}"
    await log.run(title + (f" #{cell.repeat + 1}" if plan.suite.repeats > 1 else ""), work)
