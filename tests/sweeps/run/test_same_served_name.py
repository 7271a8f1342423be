"""Tests of entries that serve one name at several endpoints: each is called, priced and shown
separately."""

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import yaml
from aiohttp import web
from aiohttp.test_utils import TestServer

from tests.serving.engine_double import EngineDouble, completion, is_first_call
from tests.sweeps.run.asking import asking
from tutti import storage
from tutti.tasks.platform.progress import StageLog
from tutti.tasks.platform.progress.runs import Run
from tutti.tasks.reporting import family_scores
from tutti.tasks.serving import RegistryError
from tutti.tasks.sweeps.analysis import Side, compare_sides
from tutti.tasks.sweeps.plan.estimate import PlanEstimate
from tutti.tasks.sweeps.results import summarise
from tutti.tasks.sweeps.run.sweep import run_suite
from tutti.tasks.sweeps.spec.suite import Suite

SERVED = "qwen"
SCRIPT = asking("What is 1?")


class Endpoints:
    """Two endpoints that serve one model under the name `SERVED`, and a registry of entries."""

    def __init__(self, folder: Path, urls: dict[str, str]) -> None:
        self.file, self._urls = folder / "models.yaml", urls
        self.engines = {name: EngineDouble() for name in urls}

    def register(self, **entries: tuple[str, float]) -> Path:
        """Write entries by name: the endpoint, and USD per million output tokens."""
        models = {
            name: {
                "provider": "openai",
                "context_tokens": 4096,
                "api_key_env": None,
                "endpoint": self._urls[place],
                "served_name": SERVED,
                "prices": {"completion": usd},
            }
            for name, (place, usd) in entries.items()
        }
        self.file.write_text(yaml.safe_dump({"models": models}))
        return self.file

    def asked(self, place: str) -> list[dict[str, Any]]:
        """Return an endpoint's requests after the first call."""
        return [body for _, body in self.engines[place].requests if not is_first_call(body)]


@pytest.fixture
async def endpoints(tmp_path: Path) -> AsyncIterator[Endpoints]:
    """Yield endpoints: at `a` each answer is correct, at `b` each is wrong; other model names are
    unknown."""
    async with _endpoint("a", 1) as (one, url_one), _endpoint("b", 5) as (two, url_two):
        made = Endpoints(tmp_path, {"a": url_one, "b": url_two})
        made.engines = {"a": one, "b": two}
        yield made


@asynccontextmanager
async def _endpoint(name: str, number: int) -> AsyncIterator[tuple[EngineDouble, str]]:
    async def reply(_: web.Request, body: dict[str, Any]) -> web.StreamResponse:
        if body["model"] != SERVED:
            return web.json_response({"error": f"no model {body['model']}"}, status=404)
        judges = "Verdict" in json.dumps(body["messages"])
        return web.json_response(completion("Verdict: correct" if judges else f"#### {number}"))

    double = EngineDouble()
    double.reply = reply
    async with TestServer(double.application()) as server:
        yield double, str(server.make_url("/v1"))


@pytest.fixture
def questions(tmp_path: Path) -> Suite:
    """Return three questions of GSM8K, all with the answer 1."""
    folder = tmp_path / "gsm8k"
    folder.mkdir()
    rows = [{"question": f"What is 1 * 1 (question {n})?", "answer": "#### 1"} for n in range(3)]
    (folder / "test.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    fields: dict[str, Any] = {"data": {"source": tmp_path}, "limits": {"max_turns": 1}}
    fields |= {"policies": ("passthrough",), "concurrency": (2,)}
    return Suite(name="questions", benchmark="gsm8k", **fields)


@pytest.fixture
def facts(tmp_path: Path) -> Suite:
    """Return one fact of SimpleQA, which a judge scores."""
    file = tmp_path / "facts.jsonl"
    file.write_text(json.dumps({"problem": "What is fact 1?", "answer": "1"}) + "\n")
    fields: dict[str, Any] = {
        "data": {"source": file, "rule": "three_votes"},
        "limits": {"max_turns": 1},
    }
    fields |= {"policies": ("passthrough",), "concurrency": (1,)}
    return Suite(name="facts", benchmark="simpleqa", model="fast", **fields)


class Store:
    """The test's store, after sweeps."""

    def __init__(self, catalog: storage.Catalog) -> None:
        self.catalog = catalog

    async def run(self, suite: Suite, models: Path) -> str:
        """Run a suite and return the sweep's id."""
        return await run_suite(suite, models, None, Run(self.catalog, "run:1", StageLog()))

    def sql(self, statement: str) -> list[tuple[Any, ...]]:
        return [tuple(row.values()) for row in storage.query(statement, self.catalog.home)]

    def places(self) -> dict[str, str]:
        """Return the ports of the endpoints that are artifacts, by id."""
        rows = storage.query("select artifact_id, detail from artifacts", self.catalog.home)
        details = {row["artifact_id"]: json.loads(row["detail"] or "{}") for row in rows}
        known = {name: each for name, each in details.items() if "served_name" in each}
        assert {each["served_name"] for each in known.values()} == {SERVED}
        return {name: each["endpoint"] for name, each in known.items()}


@pytest.fixture
def store(tmp_path: Path) -> Any:
    with storage.open_catalog(storage.Home(tmp_path / "store")) as catalog:
        yield Store(catalog)


async def test_two_providers_of_one_served_name_are_two_models(
    endpoints: Endpoints, questions: Suite, store: Store
) -> None:
    """The models are separate in plan, routes, prices, tables, report and comparison; the served
    name is in the lineage."""
    models = endpoints.register(fast=("a", 1.0), slow=("b", 10.0))
    grid = questions.with_fields({"models": ("fast", "slow")})
    sweep_id = await store.run(grid, models)
    for place in ("a", "b"):
        assert [body["model"] for body in endpoints.asked(place)] == [SERVED] * 3
    assert store.sql(
        "select model, count(*), sum(correct::int) from attempts group by 1 order by 1"
    ) == [("fast", 3, 3), ("slow", 3, 0)]
    calls = store.sql(
        "select a.model as of, c.model, c.endpoint = a.engine_id, sum(c.cost_usd) from calls c "
        "join attempts a using (attempt_id) group by all order by 1"
    )
    tokens = 3 * 30 / 1e6
    assert calls == [
        ("fast", "fast", True, pytest.approx(1.0 * tokens)),
        ("slow", "slow", True, pytest.approx(10.0 * tokens)),
    ]
    assert len(store.places()) == 2
    assert store.sql("select model, score from results order by 1") == [("fast", 1), ("slow", 0)]
    with storage.connect(store.catalog.home) as connection:
        assert {cell.model for cell in summarise(connection, sweep_id)} == {"fast", "slow"}
        assert {each.model for each in family_scores(connection, sweep_id)} == {"fast", "slow"}
        sides = Side.find_pair(connection, "fast", "slow")
        assert sides[0] is not None and sides[1] is not None
        (compared,) = compare_sides(connection, sides[0], sides[1])
    assert "fast" in compared.where and "slow" in compared.where and compared.difference == -1


async def test_a_resumed_sweep_of_them_runs_nothing_again(
    endpoints: Endpoints, questions: Suite, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The plan says so, and no cell of one supersedes the other's."""
    monkeypatch.setenv("TUTTI_HOME", str(store.catalog.home))
    models = endpoints.register(fast=("a", 1.0), slow=("b", 10.0))
    grid = questions.with_fields({"models": ("fast", "slow")})

    def decisions() -> list[tuple[str, str]]:
        return [
            (each.plan.suite.model, each.cells[0].decision)
            for each in PlanEstimate.of(grid, models)
        ]

    assert decisions() == [("fast", "run"), ("slow", "run")]
    await store.run(grid, models)
    assert decisions() == [("fast", "reuse"), ("slow", "reuse")]
    asked = [len(engine.requests) for engine in endpoints.engines.values()]
    await store.run(grid, models)
    assert [len(engine.requests) for engine in endpoints.engines.values()] == asked
    assert store.sql("select model, status from cells order by 1") == [
        ("fast", "finished"), ("slow", "finished"),
    ]  # fmt: skip


async def test_a_renamed_entry_renames_its_cells(
    endpoints: Endpoints, questions: Suite, store: Store, tmp_path: Path
) -> None:
    """The endpoint and the name there are the same, so the cells are the same, shown under the
    current name."""
    own = questions.with_fields({"model": "fast", "source": tmp_path / "gsm8k"})
    await store.run(own, endpoints.register(fast=("a", 1.0)))
    renamed = own.with_fields({"model": "quick", "concurrency": (2, 3)})
    sweep_id = await store.run(renamed, endpoints.register(quick=("a", 1.0)))
    assert store.sql("select concurrency, model from cells order by 1") == [
        (2, "quick"), (3, "quick"),
    ]  # fmt: skip
    with storage.connect(store.catalog.home) as connection:
        assert [each.model for each in family_scores(connection, sweep_id)] == ["quick"]


@pytest.mark.parametrize(("judge", "place"), [("grader", "b"), (SERVED, "b"), ("grader", "a")])
async def test_a_judge_of_the_measured_models_served_name(
    endpoints: Endpoints, facts: Suite, store: Store, judge: str, place: str
) -> None:
    """The judge's calls have their own role, name, price and endpoint, even if its entry has the
    served name of the measured model or shares the endpoint."""
    models = endpoints.register(fast=("a", 1.0), **{judge: (place, 100.0)})
    await store.run(facts.with_fields({"judge": judge}), models)
    assert store.sql("select model, status from attempts") == [("fast", "ok")]
    places = store.places()
    calls = store.sql(
        "select role, model, endpoint, count(*), sum(cost_usd) from calls "
        "where cell_id != '' group by all order by role"
    )
    urls = [(*row[:2], places[row[2]], *row[3:]) for row in calls]
    usd = pytest.approx
    assert urls == [
        ("judge", judge, endpoints._urls[place], 3, usd(3 * 30 * 100 / 1e6)),
        ("orchestrator", "fast", endpoints._urls["a"], 1, usd(30 / 1e6)),
    ]
    assert [row[0] for row in store.sql("select cost_usd from attempts")] == [usd(30 / 1e6)]


@pytest.mark.parametrize(("judge", "told"), [("grader", SERVED), (SERVED, "fast")])
async def test_a_command_reaches_the_measured_model(
    endpoints: Endpoints, facts: Suite, store: Store, tmp_path: Path, judge: str, told: str
) -> None:
    """The command uses the served name, which client libraries know, or the entry's name if a judge
    has the served one."""
    script = tmp_path / "agent.py"
    script.write_text(SCRIPT + 'print(os.environ["TUTTI_MODEL"])\n')
    models = endpoints.register(fast=("a", 1.0), **{judge: ("b", 1.0)})
    change = {"judge": judge, "command": f"{{python}} {script}"}
    await store.run(facts.with_fields(change), models)
    (answer,) = store.sql("select answer from attempts")
    assert answer[0].split() == ["####", "1", told]
    calls = "select role, model, count(*) from calls where cell_id != '' group by all order by 1"
    assert store.sql(calls) == [("judge", judge, 3), ("orchestrator", "fast", 1)]


async def test_an_expert_of_the_measured_models_served_name(
    endpoints: Endpoints, questions: Suite, store: Store, tmp_path: Path
) -> None:
    """The orchestrator calls it by its entry, although both have one served name."""
    function = {"name": "answer", "arguments": '{"model": "answer-1"}'}
    call = {"id": "1", "type": "function", "function": function}

    async def orchestrate(_: web.Request, body: dict[str, Any]) -> web.StreamResponse:
        return web.json_response(completion("", tool_calls=[call]))

    endpoints.engines["a"].reply = orchestrate
    models = endpoints.register(fast=("a", 1.0), wise=("b", 100.0))
    change = {"source": tmp_path / "gsm8k", "limit": 1, "model": "fast", "agent": "pocket"}
    change |= {"experts": {"pocket": "wise"}, "search_url": "http://127.0.0.1:1"}
    await store.run(questions.with_fields(change), models)
    assert store.sql("select model, cost_usd from attempts") == [
        ("fast", pytest.approx(30 * 101 / 1e6))
    ]
    calls = "select role, model from calls where cell_id != '' order by sent_at"
    assert store.sql(calls) == [("orchestrator", "fast"), ("expert", "wise")]


async def test_a_simulated_user_of_the_measured_models_served_name(
    endpoints: Endpoints, store: Store, tmp_path: Path
) -> None:
    """The customer's messages come from the endpoint of its entry."""
    folder = tmp_path / "tau2" / "mock"
    folder.mkdir(parents=True)
    scenario = {"instructions": "Say hello."}
    criteria = {"actions": [], "reward_basis": ["DB"]}
    task = {"id": "hello", "user_scenario": scenario, "evaluation_criteria": criteria}
    (folder / "tasks.json").write_text(json.dumps([task]))
    (folder / "db.json").write_text(json.dumps({"tasks": {}, "users": {}}))
    (folder / "policy.md").write_text("Be quick.")
    fields: dict[str, Any] = {"data": {"source": tmp_path / "tau2"}, "limits": {"max_turns": 2}}
    fields |= {"policies": ("passthrough",), "concurrency": (1,), "roles": {"user": "customer"}}
    suite = Suite(name="dialogue", benchmark="tau2-mock", model="fast", **fields)
    await store.run(suite, endpoints.register(fast=("a", 1.0), customer=("b", 100.0)))
    calls = store.sql(
        "select role, model, endpoint, sum(cost_usd) / count(*) from calls "
        "where cell_id != '' group by all order by 1"
    )
    places = store.places()
    assert [(*row[:2], places[row[2]], row[3]) for row in calls] == [
        ("orchestrator", "fast", endpoints._urls["a"], pytest.approx(30 / 1e6)),
        ("user", "customer", endpoints._urls["b"], pytest.approx(30 * 100 / 1e6)),
    ]


async def test_one_model_twice_is_refused(
    endpoints: Endpoints, questions: Suite, store: Store
) -> None:
    """Two entries that do not differ in anything that affects answers would have the same cells."""
    models = endpoints.register(fast=("a", 1.0), again=("a", 2.0))
    grid = questions.with_fields({"models": ("fast", "again")})
    with pytest.raises(RegistryError, match=r"models\.again and models\.fast are one model"):
        await store.run(grid, models)
