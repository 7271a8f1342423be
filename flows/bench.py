"""A model under measurement: its engine and gateway, and the cells of a suite run on it."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path

from flows.library import Library
from flows.stages import StageLog, StageProgress
from storage import Catalog
from tasks.serving import (
    Engine,
    Model,
    checkpoint_id,
    claim_port,
    gateway,
    pick_model,
)
from tasks.sweeps.plan import Cell, Plan, enter_plan, finished_samples, make_plan
from tasks.sweeps.runner import Progress, Services, run_cell, sweep_lock
from tasks.sweeps.suite import Suite
from tasks.synthesis.generate import read_tasks
from tasks.training.serve_adapter import load_adapter

PROJECT = Path(__file__).resolve().parents[1]
MODELS = PROJECT / "deployments" / "models.yaml"
SUITES = PROJECT / "deployments" / "suites"


class Bench:
    """A model under measurement. Its engine and gateway start when they are first needed.

    A sweep whose cells are all finished needs neither, so running it again costs no engine start.
    """

    def __init__(
        self,
        name: str,
        model: Model,
        library: Library,
        catalog: Catalog,
        log: StageLog,
        port: int | None,
    ) -> None:
        self.model, self.library = model, library
        self.model_id = checkpoint_id(model)
        self.engine = Engine(name, model, catalog)
        if port is not None:
            claim_port(port)  # a taken port is better said now than after the engine's start
        self._catalog, self._log, self._port = catalog, log, port
        self._open = contextlib.ExitStack()
        self._services: Services | None = None

    async def services(self) -> Services:
        """Engine, gateway and library, running. Raises what `open_bench` says."""
        if self._services is None:
            await self._log.run("engine", self._start)
            before = gateway(self.engine.address, self.model.prices, self._catalog, self._port)
            client = await asyncio.to_thread(self._open.enter_context, before)
            self._services = Services(self.engine, client, self.library.search_url)
        return self._services

    async def _start(self, _: StageProgress) -> None:
        self._open.callback(self.engine.stop)
        await asyncio.to_thread(self.engine.start)

    def close(self) -> None:
        """End gateway and engine, in that order, if they run."""
        self._open.close()


@contextlib.asynccontextmanager
async def open_bench(
    model_name: str,
    models: Path,
    library: Library,
    catalog: Catalog,
    log: StageLog,
    port: int | None = None,
) -> AsyncIterator[Bench]:
    """A registry's model, ready to be measured; what it started is ended with the block.

    `port` is the gateway's (any free one if None). Raises RegistryError here, and when the
    services start EngineFailed, ModelsEnvironmentMissing, PortTaken or GatewayFailed.
    """
    bench = Bench(model_name, pick_model(models, model_name), library, catalog, log, port)
    try:
        yield bench
    finally:
        bench.close()


@dataclass(frozen=True)
class Adapter:
    """A LoRA adapter to measure in the bench's engine instead of its own weights."""

    name: str
    adapter_id: str
    folder: Path


async def run_sweep(
    suite: Suite,
    task_set_id: str,
    bench: Bench,
    catalog: Catalog,
    run_id: str,
    log: StageLog,
    adapter: Adapter | None = None,
) -> Plan:
    """Run what is missing of a suite's cells; returns the plan."""
    tasks = read_tasks(catalog, task_set_id, "test")
    name, model_id = (
        (suite.model, bench.model_id) if adapter is None else (adapter.name, adapter.adapter_id)
    )
    index_id, engine_id = bench.library.index_id, bench.engine.engine_id
    plan = make_plan(suite, tasks, task_set_id, index_id, engine_id, model_id, name)
    enter_plan(plan, catalog)
    with sweep_lock(catalog, plan.sweep_id):
        missing = [c for c in plan.cells if len(finished_samples(catalog, c)) < len(c.samples)]
        if missing and adapter is not None:
            services = await bench.services()
            await load_adapter(services.engine.address.url, adapter.name, adapter.folder)
        for cell in missing:
            await _run_one(plan, cell, await bench.services(), catalog, run_id, log)
        if reused := len(plan.cells) - len(missing):
            log.console.print(f"[dim]  {suite.name}: {reused} finished cells reused[/]")
    return plan


async def _run_one(
    plan: Plan, cell: Cell, services: Services, catalog: Catalog, run_id: str, log: StageLog
) -> None:
    async def work(progress: StageProgress) -> None:
        def show(state: Progress) -> None:
            note = f"accuracy {state.correct / state.counted:.0%}" if state.counted else ""
            if state.infra:
                note += f", {state.infra} infra errors"
            progress.show(state.done, state.total, note)

        await run_cell(plan, cell, services, catalog, run_id, show)

    title = f"{plan.suite.name}: {plan.served_name} {cell.policy} at {cell.concurrency}"
    await log.run(title + (f" #{cell.repeat + 1}" if plan.suite.repeats > 1 else ""), work)
