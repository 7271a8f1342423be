"""Tests of a deployment of more than one model: each is reached by its name behind one gateway."""

import contextlib
from collections.abc import Iterator
from io import StringIO
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import aiohttp
import pytest
import yaml
from aiohttp import web
from aiohttp.test_utils import TestServer
from rich.console import Console

from tests.serving.engine_double import EngineDouble, completion
from tutti import storage
from tutti.tasks.platform.progress import StageLog
from tutti.tasks.serving import EngineFailed, RegistryError
from tutti.tasks.serving.registry import pick_models
from tutti.tasks.sweeps.plan.deployment import Deployment, start_engines
from tutti.tasks.sweeps.plan.roles import roles_of
from tutti.tasks.sweeps.spec.suite import Suite


@pytest.fixture
def catalog(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[storage.Catalog]:
    """Yield the test's open store."""
    monkeypatch.delenv("TUTTI_CATALOG_URL", raising=False)
    with storage.open_catalog(storage.Home(tmp_path / "store")) as catalog:
        yield catalog


def registry(tmp_path: Path, **models: dict[str, Any]) -> Path:
    """Return a models.yaml of external endpoints."""
    common = {"provider": "openai", "context_tokens": 4096, "api_key_env": None}
    file = tmp_path / "models.yaml"
    file.write_text(yaml.safe_dump({"models": {n: common | m for n, m in models.items()}}))
    return file


async def test_each_model_is_reached_by_its_name(tmp_path: Path, catalog: storage.Catalog) -> None:
    """Candidate and judge have separate endpoints; a second entry of the candidate shares its
    endpoint."""
    first, second = EngineDouble(), EngineDouble()
    async with (
        TestServer(first.application()) as one,
        TestServer(second.application()) as two,
    ):
        mine = {"endpoint": str(one.make_url("/v1")), "served_name": "big"}
        models = registry(
            tmp_path,
            mine=mine,
            again=mine | {"thinking": False},
            grader={"endpoint": str(two.make_url("/v1")), "served_name": "small"},
        )
        entries = pick_models(models, ("mine", "again", "grader"))
        async with Deployment(entries, catalog, StageLog()) as deployment:
            gateway = await deployment.start()
            assert [engine.name for engine in deployment.others] == ["grader"]
            assert deployment.served["again"].engine_id == deployment.engine.engine_id
            async with aiohttp.ClientSession() as client:
                for name in ("mine", "grader", "small"):
                    body = {"model": name, "messages": [{"role": "user", "content": "hi"}]}
                    url = f"{gateway.url}/v1/chat/completions"
                    async with client.post(url, json=body) as answer:
                        assert answer.status == 200
        assert (len(first.requests), len(second.requests)) == (1, 2)
        served = deployment.served
    rows = storage.query(
        "select model, endpoint, count(*) as n from calls group by all order by n", catalog.home
    )
    assert rows == [
        {"model": "mine", "endpoint": served["mine"].engine_id, "n": 1},
        {"model": "grader", "endpoint": served["grader"].engine_id, "n": 2},
    ]
    suite = Suite(benchmark="simpleqa", roles={"judge": "grader"})
    roles = roles_of(suite, served)
    assert roles.judge is not None and roles.judge.name == "grader"
    asked = roles_of(suite.with_fields({"judge": "again"}), served)
    assert asked.engine_ids == [deployment.engine.engine_id] and asked.content != roles.content


@pytest.mark.parametrize("status", [400, 401, 404])
async def test_an_endpoint_is_called_once_before_anything_is_measured(
    tmp_path: Path, catalog: storage.Catalog, status: int
) -> None:
    """An endpoint that refuses ends the run in one call, and the error quotes it and names the
    entry."""
    double = EngineDouble()

    async def refuse(_: web.Request, body: dict[str, Any]) -> web.Response:
        return web.json_response({"error": "unknown field seed"}, status=status)

    async with TestServer(double.application()) as server:
        mine = {"endpoint": str(server.make_url("/v1")), "served_name": "big"}
        entries = pick_models(registry(tmp_path, mine=mine), ("mine",))
        async with Deployment(entries, catalog, StageLog()) as deployment:
            gateways = [await deployment.start_for(Suite()) for _ in range(2)]
            assert gateways[0] is gateways[1] and len(double.requests) == 1
        double.reply = refuse
        async with Deployment(entries, catalog, StageLog()) as deployment:
            with pytest.raises(EngineFailed, match=rf"models.mine failed.*HTTP {status}") as raised:
                await deployment.start_for(Suite())
    assert "unknown field seed" in str(raised.value) and len(double.requests) == 2


@pytest.mark.parametrize(
    ("served", "listed", "warned"),
    [("big", ["m", "n"], True), ("m", ["m", "n"], False), ("big", [], False), ("big", None, False)],
)
async def test_a_model_that_its_endpoint_does_not_list_is_warned_of(
    tmp_path: Path, catalog: storage.Catalog, served: str, listed: list[str] | None, warned: bool
) -> None:
    """The warning shows the list, because an endpoint may serve any name with another model. An
    endpoint without a list gives no warning."""
    application, shown = web.Application(), StringIO()

    async def answer(_: web.Request) -> web.Response:
        return web.json_response(completion("ready"))

    async def names(_: web.Request) -> web.Response:
        return web.json_response({"data": [{"id": name} for name in listed or ()]})

    application.router.add_post("/v1/chat/completions", answer)
    if listed is not None:
        application.router.add_get("/v1/models", names)
    async with TestServer(application) as server:
        mine = {"endpoint": str(server.make_url("/v1")), "served_name": served}
        entries = pick_models(registry(tmp_path, mine=mine), ("mine",))
        log = StageLog(Console(file=shown, width=300))
        async with Deployment(entries, catalog, log) as deployment:
            await deployment.start_for(Suite())
    words = f"models.mine: {mine['endpoint']} does not list 'big'; it lists m, n; what answers"
    assert (words in shown.getvalue()) == ("does not list" in shown.getvalue()) == warned


async def test_more_engines_are_for_models_that_tutti_serves(
    tmp_path: Path, catalog: storage.Catalog
) -> None:
    """The number of external engines cannot be changed; the error is raised before anything
    starts."""
    models = registry(tmp_path, mine={"endpoint": "http://a:1/v1"})
    with pytest.raises(RegistryError, match=r"models\.mine is served by others"):
        entries = pick_models(models, ("mine",))
        async with Deployment(entries, catalog, engines=2):
            pass


async def test_engines_are_started_in_order_and_each_is_stopped() -> None:
    """The one whose start fails is stopped, too; those after it are not started."""
    told: list[str] = []

    class Double:
        def __init__(self, name: str, fails: bool = False) -> None:
            self.name, self._fails = name, fails

        def start(self) -> None:
            told.append(f"start {self.name}")
            if self._fails:
                raise EngineFailed("it does not start")

        def stop(self) -> None:
            told.append(f"stop {self.name}")

    every = [Double("a"), Double("b", fails=True), Double("c")]
    served: Any = SimpleNamespace(every=every, started=[])
    with pytest.raises(EngineFailed, match="it does not start"), contextlib.ExitStack() as stack:
        await start_engines(StageLog(), served, stack)
    assert told == ["start a", "start b", "stop b", "stop a"]
