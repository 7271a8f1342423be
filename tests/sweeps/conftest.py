"""Fixtures of a sweep on loopback: the real runner and gateway, and an engine that plays a scripted
agent.

The engine is two of the gateway's: for the model `pocket` and, more expensive, for `other`.
"""

import asyncio
from collections.abc import AsyncIterator, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer

from tests.serving.conftest import ADMIN, running
from tests.serving.engine_double import EngineDouble, completion
from tutti import storage
from tutti.storage.catalog import leasing as leases
from tutti.tasks.agents import opening
from tutti.tasks.benchmarks import benchmark_named
from tutti.tasks.serving import EngineFailed
from tutti.tasks.serving.gateway.endpoints.endpoint import EndpointConfig
from tutti.tasks.serving.gateway.settings import GatewaySettings
from tutti.tasks.serving.registry.models import Prices
from tutti.tasks.serving.served import GatewayClient
from tutti.tasks.sweeps.plan import TaskSet
from tutti.tasks.sweeps.plan.config import CellConfig
from tutti.tasks.sweeps.plan.enter import enter_plan
from tutti.tasks.sweeps.plan.plan import Cell, Plan
from tutti.tasks.sweeps.plan.plan import plan_of as make_plan
from tutti.tasks.sweeps.run import runner
from tutti.tasks.sweeps.run.budget import BudgetTracker
from tutti.tasks.sweeps.run.runner import Execution, Progress, run_cell
from tutti.tasks.sweeps.spec import Budget
from tutti.tasks.sweeps.spec.suite import Suite
from tutti.tasks.synthesis.families.task import question_task
from tutti.tasks.task_sets import Task

SUITE = Suite(policies=("passthrough",), concurrency=(2,))


def made_task(question: str, answer: str, slots: dict[str, str], split: str = "test") -> Task:
    """Return a task about the standard library, with its prompt."""
    made = question_task("sum", question, answer, slots, (), split)
    return replace(made, messages=tuple(opening(question)))


def make_tasks(count: int) -> list[Task]:
    """Return tasks whose answers the scripted agent knows: what is 0 + 1, what is 1 + 1, ..."""
    return [made_task(f"what is {i} + 1", str(i + 1), {"i": str(i)}) for i in range(count)]


def config_of(
    tasks: Sequence[Task] | TaskSet, index_id: str | None = "index:1", **more: Any
) -> CellConfig:
    """Return a set-up with constructed parents; `more` are fields of `CellConfig`."""
    given = {"engine_id": "engine:1", "model_id": "checkpoint:1", "served_name": "pocket"} | more
    task_set = (
        tasks
        if isinstance(tasks, TaskSet)
        else TaskSet("", benchmark_named("stdlib"), tuple(tasks))
    )
    return CellConfig(replace(task_set, task_set_id="task_set:1"), index_id=index_id, **given)


def plan_of(suite: Suite = SUITE, count: int = 6) -> Plan:
    """Return a plan with constructed parents."""
    return make_plan(suite, config_of(make_tasks(count)))


class WatchedEngine:
    """Fake of the runner's view of an engine: `watch` never returns, or raises when it `dies`."""

    def __init__(self) -> None:
        self.died = asyncio.Event()

        self.resets = 0

    def reset(self) -> None:
        """Count a reset."""
        self.resets += 1

    async def watch(self) -> None:
        """Wait for the end of the engine."""
        await self.died.wait()
        raise EngineFailed("the engine died while serving")


class Agent:
    """Reply of the fake engine: it solves each question except for those in `odd`."""

    def __init__(self) -> None:
        self.odd: dict[str, list[Any]] = {}
        """Question to what comes before its answer: a status, a content, or a whole message."""
        self.asked: list[str] = []
        self.seeds: list[Any] = []

    async def __call__(self, _: web.Request, body: dict[str, Any]) -> web.StreamResponse:
        question = body["messages"][1]["content"]
        self.asked.append(question)
        self.seeds.append(body.get("seed"))
        odd = self.odd.get(question)
        reply = odd.pop(0) if odd else None
        if isinstance(reply, asyncio.Event):
            await reply.wait()
            reply = None
        if isinstance(reply, int):
            return web.json_response({"error": "scripted"}, status=reply)
        if isinstance(reply, dict):
            return web.json_response(reply)
        number = int(question.split()[2])
        content = f"so \\boxed{{{number + 1}}}" if reply is None else reply
        return web.json_response(completion(content))


async def found(_: web.Request) -> web.Response:
    """Return the retrieval service's response with one hit."""
    hit = {"document": {"id": "d1", "contents": "d1\ntext"}, "score": 0.5}
    return web.json_response({"index_id": "index:1", "result": [[hit]]})


class Sweep:
    """One plan on one deployment."""

    def __init__(
        self, catalog: storage.Catalog, deployment: Any, agent: Agent, double: EngineDouble
    ) -> None:
        self.catalog, self.deployment, self.agent = catalog, deployment, agent
        self.double = double
        self.run_count = 0

    @property
    def engine(self) -> Any:
        """Return the watched engine."""
        return self.deployment.engine

    def enter(self, plan: Plan) -> Cell:
        """Enter the plan and return its first cell."""
        enter_plan(plan, self.catalog)
        return plan.cells[0]

    async def run(self, plan: Plan, cell: Cell, lease: storage.Lease | None = None) -> Progress:
        """Run a cell once, within a time limit."""
        self.run_count += 1
        run_id = f"run:{self.run_count}"
        # Each run comes after the one before it, as a process after a dead one.
        lease = lease or leases.acquire(self.catalog, plan.sweep_id, seconds=0)
        return await asyncio.wait_for(
            run_cell(self.execution(plan, lease, run_id), cell), timeout=60
        )

    def execution(
        self, plan: Plan, lease: storage.Lease, run_id: str = "run:0", usd: float | None = None
    ) -> Execution:
        """Return a run of `plan` with a budget of `usd`."""
        spending = BudgetTracker(Budget(usd=usd))
        return Execution(plan, self.deployment, self.catalog, run_id, lease, spending)

    def sql(self, sql: str) -> list[tuple[Any, ...]]:
        return [tuple(row.values()) for row in storage.query(sql, self.catalog.home)]


@pytest.fixture
def catalog(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[storage.Catalog]:
    """Yield the test's open store, independent of the environment."""
    monkeypatch.setenv("TUTTI_HOME", str(tmp_path / "not-this-one"))
    monkeypatch.delenv("TUTTI_CATALOG_URL", raising=False)
    with storage.open_catalog(storage.Home(tmp_path / "store")) as catalog:
        yield catalog


@pytest.fixture
async def sweep(catalog: storage.Catalog, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Sweep]:
    """Yield a running gateway and scripted engine; retries do not wait."""
    monkeypatch.setattr(runner, "RETRY_WAIT_S", 0.01)
    double, agent = EngineDouble(), Agent()
    double.reply = agent
    application = double.application()
    application.router.add_post("/retrieve", found)
    async with TestServer(application) as server:
        url = str(server.make_url("")).rstrip("/")
        endpoint = EndpointConfig(
            url=url, id="engine:1", models=("pocket",), prices=Prices(completion=10)
        )
        others = EndpointConfig(
            url=url,
            id="engine:2",
            pool="other",
            models=("other",),
            prices=Prices(completion=1000),
            metrics=False,
        )
        settings = GatewaySettings(policy="passthrough")
        async with running(catalog, settings, [endpoint, others]) as (gateway, _):
            client = GatewayClient(f"http://127.0.0.1:{gateway.server.port}", ADMIN)
            engine = WatchedEngine()
            deployment = SimpleNamespace(
                engine=engine, every=[engine], gateway=client, search_url=url
            )
            yield Sweep(catalog, deployment, agent, double)
