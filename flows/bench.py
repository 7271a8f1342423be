"""What every measuring flow shares: documents, an index, a task set, engine, gateway, cells.

A `Bench` is these services running together for one model; the flows say in which order to use it.
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path

from flows.stages import StageLog, StageProgress
from storage import Catalog
from tasks.retrieval.corpus import load_stdlib_corpus
from tasks.retrieval.index import build_index
from tasks.serving import (
    Engine,
    Model,
    checkpoint_id,
    gateway,
    pick_model,
    reap_stale,
    retrieval_service,
)
from tasks.sweeps.plan import Cell, Plan, enter_plan, make_plan
from tasks.sweeps.runner import Progress, Services, run_cell, sweep_lock
from tasks.sweeps.suite import Suite
from tasks.synthesis.generate import TaskRequest, read_tasks, synthesize

PROJECT = Path(__file__).resolve().parents[1]
MODELS = PROJECT / "deployments" / "models.yaml"
SUITES = PROJECT / "deployments" / "suites"


@dataclass(frozen=True)
class Library:
    """An index and the service that searches it."""

    index_id: str
    search_url: str


@dataclass(frozen=True)
class Bench:
    """A model under measurement: its engine, gateway and library."""

    model: Model
    model_id: str
    services: Services
    library: Library


@contextlib.asynccontextmanager
async def open_library(catalog: Catalog, log: StageLog) -> AsyncIterator[Library]:
    """Build (or reuse) the index over the standard library and serve it for the block."""

    async def build(progress: StageProgress) -> Path:
        return await asyncio.to_thread(lambda: build_index(load_stdlib_corpus(), catalog))

    for role in reap_stale(catalog):
        log.console.print(f"[yellow]ended a {role} process that an earlier run left behind[/]")
    folder = await log.run("index", build)
    service = retrieval_service(folder, catalog)
    url = await asyncio.to_thread(service.__enter__)
    try:
        yield Library(f"index:{folder.name.removeprefix('index-')}", url)
    finally:
        service.__exit__(None, None, None)


async def make_tasks(
    request: TaskRequest, library: Library, catalog: Catalog, log: StageLog, name: str = "tasks"
) -> str:
    """Make (or reuse) the task set for `request`; returns its id."""

    async def work(progress: StageProgress) -> str:
        documents = load_stdlib_corpus()
        show = progress.show
        return await synthesize(
            documents, request, library.index_id, library.search_url, catalog, show
        )

    return await log.run(name, work)


@contextlib.asynccontextmanager
async def open_bench(
    model_name: str,
    models: Path,
    library: Library,
    catalog: Catalog,
    log: StageLog,
    port: int | None = None,
) -> AsyncIterator[Bench]:
    """Start the engine of a registry's model and a gateway before it; end both with the block.

    `port` is the gateway's (any free one if None).

    Raises RegistryError, EngineFailed, ModelsEnvironmentMissing, PortTaken or GatewayFailed.
    """
    model = pick_model(models, model_name)
    engine = Engine(model_name, model, catalog)

    async def start(progress: StageProgress) -> None:
        await asyncio.to_thread(engine.start)

    try:
        await log.run("engine", start)
        with gateway(engine.address, model.prices, catalog, port) as client:
            services = Services(engine, client, library.search_url)
            yield Bench(model, checkpoint_id(model), services, library)
    finally:
        engine.stop()


async def run_sweep(
    suite: Suite,
    task_set_id: str,
    bench: Bench,
    catalog: Catalog,
    run_id: str,
    log: StageLog,
    served: tuple[str, str] | None = None,
) -> Plan:
    """Run what is missing of a suite's cells; returns the plan.

    `served` is (name at the engine, artifact id), for an adapter loaded into the bench's engine.
    """
    name, model_id = served or (suite.model, bench.model_id)
    tasks = read_tasks(catalog, task_set_id, "test")
    engine_id = bench.services.engine.engine_id
    plan = make_plan(suite, tasks, task_set_id, bench.library.index_id, engine_id, model_id, name)
    enter_plan(plan, catalog)
    with sweep_lock(catalog, plan.sweep_id):
        for cell in plan.cells:
            await _run_one(plan, cell, bench, catalog, run_id, log)
    return plan


async def _run_one(
    plan: Plan, cell: Cell, bench: Bench, catalog: Catalog, run_id: str, log: StageLog
) -> None:
    async def work(progress: StageProgress) -> None:
        def show(state: Progress) -> None:
            note = f"accuracy {state.correct / state.counted:.0%}" if state.counted else ""
            if state.infra:
                note += f", {state.infra} infra errors"
            progress.show(state.done, state.total, note)

        await run_cell(plan, cell, bench.services, catalog, run_id, show)

    title = f"{plan.suite.name}: {plan.served_name} {cell.policy} at {cell.concurrency}"
    await log.run(title + (f" #{cell.repeat + 1}" if plan.suite.repeats > 1 else ""), work)
