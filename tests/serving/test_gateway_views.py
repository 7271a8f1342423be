"""Tests of the gateway's status and charges: /ui, /state, /metrics, prices, GPUs."""

import asyncio
import hashlib
import re
from base64 import b64encode
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from datetime import date
from pathlib import Path
from typing import Any

import aiohttp
import pytest
import yaml
from aiohttp.test_utils import TestServer

from tests.serving.conftest import ADMIN, BOSS, until
from tests.serving.engine_double import EngineDouble
from tests.serving.metering.test_gpu import FakeNvml
from tutti import storage
from tutti.tasks.serving.gateway import views
from tutti.tasks.serving.gateway.app import Gateway
from tutti.tasks.serving.gateway.calls.access import Access
from tutti.tasks.serving.gateway.endpoints.endpoint import Endpoint, EndpointConfig
from tutti.tasks.serving.gateway.settings import GatewaySettings
from tutti.tasks.serving.metering.gpu import GpuSampler
from tutti.tasks.serving.registry.models import Prices

NASTY = 'gpu "0"\\n\nrack'
CONFIG = 'vllm:cache_config_info{block_size="16",num_gpu_blocks="100"} 1.0\n'
PRICE = {"prompt": 1.0, "completion": 2.0, "source": "me", "from": date(2026, 1, 1)}


@pytest.fixture
def book(tmp_path: Path) -> Path:
    models = {"m": PRICE, "registry's": PRICE}
    path = tmp_path / "prices.yaml"
    path.write_text(
        yaml.safe_dump({"as_of": date(2026, 1, 1), "currency": "USD", "models": models})
    )
    return path


class Front:
    """A listening gateway, its engine, and a client."""

    gateway: Gateway
    engine: EngineDouble
    client: aiohttp.ClientSession

    async def chat(self, program: str, model: str = "m") -> int:
        body = {"model": model, "messages": [{"role": "user", "content": "hello"}]}
        headers = {"X-Program-Id": program}
        async with self.client.post("/v1/chat/completions", json=body, headers=headers) as answer:
            await answer.read()
            return answer.status

    async def text(self, path: str) -> str:
        async with self.client.get(path) as answer:
            assert answer.status == 200, await answer.text()
            return await answer.text()

    async def state(self) -> dict[str, Any]:
        async with self.client.get("/state") as answer:
            found: dict[str, Any] = await answer.json()
            return found


@pytest.fixture
async def make_front(catalog: storage.Catalog) -> AsyncIterator[Any]:
    """Yield a function that starts a fake engine and a gateway in front of it, and waits until
    calls are accepted."""
    async with AsyncExitStack() as running:

        async def make(access: Access | None = None, **settings: Any) -> Front:
            front = Front()
            front.engine = EngineDouble()
            front.engine.metrics += CONFIG
            server = TestServer(front.engine.application())
            await running.enter_async_context(server)
            chosen = GatewaySettings(**{"sample_s": 0.05} | settings)
            access = access or Access("", admin_token=ADMIN)
            front.gateway = Gateway(catalog, chosen, access)
            config = EndpointConfig(url=str(server.make_url("")), id=NASTY)
            port = await front.gateway.start("127.0.0.1", 0, [config])
            running.push_async_callback(front.gateway.stop)
            front.client = aiohttp.ClientSession(f"http://127.0.0.1:{port}")
            await running.enter_async_context(front.client)
            endpoint = next(iter(front.gateway.pools.all_endpoints()))
            await until(lambda: endpoint.engine.accepting, "the engine is found")
            return front

        yield make


@pytest.fixture
async def front(make_front: Any) -> Front:
    made: Front = await make_front(policy="cap", limit=1)
    return made


# The page


async def test_the_page_runs_its_own_script_and_loads_nothing(front: Front) -> None:
    """The page works offline, and a program's name can never become markup."""
    async with front.client.get("/ui") as answer:
        page, headers = await answer.text(), answer.headers
    assert headers["Content-Type"] == "text/html; charset=utf-8"
    script = re.findall(r"<script>(.*?)</script>", page, re.S)
    assert len(script) == page.count("<script") == 1
    digest = b64encode(hashlib.sha256(script[0].encode()).digest()).decode()
    assert f"script-src 'sha256-{digest}'" in headers["Content-Security-Policy"]
    assert "default-src 'none'" in headers["Content-Security-Policy"]
    assert set(re.findall(r"(?:src|href)=\"?([^\s\">]*)", page)) == {"data:,"}
    assert not re.findall(r"https?://|@import|url\(", page)
    assert not re.findall(r"innerHTML|outerHTML|insertAdjacent|document\.write|\beval\b", page)
    assert "localStorage" not in page and "cookie" not in page


async def test_the_page_is_open_and_what_it_shows_is_not(make_front: Any) -> None:
    front = await make_front(Access("ops:read:secret agent:call:other"))
    assert "<title>tutti gateway" in await front.text("/ui")
    for token, status in [("", 401), ("wrong", 401), ("other", 403), ("secret", 200)]:
        headers = {"Authorization": f"Bearer {token}"} if token else {}
        async with front.client.get("/state", headers=headers) as answer:
            assert answer.status == status
            assert status == 200 or (await answer.json())["error"]["message"]


async def test_state_has_what_the_page_shows(front: Front) -> None:
    front.engine.gate.clear()
    calls = [asyncio.create_task(front.chat(name)) for name in ("first", "<b>second</b>")]
    ledger = front.gateway.pools.by_name[""].scheduler.ledger
    await until(lambda: front.engine.requests and ledger.waiting, "one runs, one is held")
    await front.gateway._round()
    found = await front.state()
    assert found["health"]["policy_options"] == {"limit": 1}
    assert (found["health"]["held"], found["health"]["running"]) == (1, 1)
    assert found["trend"][-1] == [1, 1]
    (engine,) = found["engines"]
    assert (engine["id"], engine["capacity_tokens"], engine["kv_usage"]) == (NASTY, 1600, 0.25)
    assert engine["booked_tokens"] > 0
    (held,) = found["held"]
    assert (held["program"], held["reason"]) == (
        "<b>second</b>",
        "cap: 1 of 1 places taken, 1 wait",
    )
    assert 0 <= held["held_s"] < 10 and held["tokens"] > 0
    assert list(found["programs"]) == ["<b>second</b>", "first"]
    assert found["programs"]["first"]["in_flight"] == 1
    front.engine.gate.set()
    await calls[0]
    found = await front.state()
    assert (found["programs"]["first"]["status"], found["programs"]["first"]["step_count"]) == (
        "acting",
        1,
    )
    await front.client.post("/programs/release", json={"program_id": "first"})
    assert await calls[1] == 200


async def test_state_is_bounded_and_shows_the_waiting_first(
    front: Front, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(views, "SHOWN", 2)
    for name in "abc":
        assert await front.chat(name) == 200
        await front.client.post("/programs/release", json={"program_id": name})
    ledger = front.gateway.pools.by_name[""].scheduler.ledger
    assert await front.chat("idle") == 200
    waiting = [asyncio.create_task(front.chat(name)) for name in ("x", "y", "z")]
    await until(lambda: len(ledger.waiting) == 3, "three are held")
    found = await front.state()
    assert (len(found["held"]), found["health"]["held"]) == (2, 3)
    assert sorted(found["programs"]) == ["x", "y"]
    for name in ("idle", "x", "y"):
        await front.client.post("/programs/release", json={"program_id": name})
    await asyncio.wait_for(asyncio.gather(*waiting), 60)


async def test_an_engine_that_is_away_has_no_use(front: Front) -> None:
    endpoint = next(iter(front.gateway.pools.all_endpoints()))
    pools = front.gateway.pools
    found = []
    for _ in range(3):
        pools._missed(endpoint, "gone")
        found.append(views.engines(front.gateway)[0]["kv_usage"])
    assert found == [0.25, 0.25, None]  # two answers that are missed are none that is away


async def test_health_says_whether_calls_are_taken(front: Front) -> None:
    (endpoint,) = front.gateway.pools.all_endpoints()
    assert views.health(front.gateway)["status"] == "ok"
    endpoint.engine.accepting = False
    assert views.health(front.gateway)["status"] == "no engine accepts calls"


# Prometheus

NAME = r"[a-zA-Z_:][a-zA-Z0-9_:]*"
LABEL = r'[a-zA-Z_][a-zA-Z0-9_]*="(?:[^"\\\n]|\\["\\n])*"'
SAMPLE = re.compile(rf"({NAME})(?:\{{((?:{LABEL})(?:,{LABEL})*)\}})? (\S+)")
ESCAPES = {"\\\\": "\\", '\\"': '"', "\\n": "\n"}


def parse(text: str) -> dict[str, tuple[str, dict[str, float]]]:
    """Return the families of Prometheus' text format: name -> (type, labels -> value). Strict: each
    line is a HELP, then a TYPE, then samples of that family, each series once."""
    assert text.endswith("\n") and "\n\n" not in text
    found: dict[str, tuple[str, dict[str, float]]] = {}
    family, helped = "", ""
    for line in text[:-1].split("\n"):
        if line.startswith("# HELP "):
            helped = line.split(" ", 3)[2]
            assert helped not in found and line.split(" ", 3)[3], line
        elif line.startswith("# TYPE "):
            _, _, family, kind = line.split(" ")
            assert family == helped and kind in ("counter", "gauge") and family not in found
            assert family.endswith("_total") == (kind == "counter"), line
            found[family] = (kind, {})
        else:
            match = SAMPLE.fullmatch(line)
            assert match is not None, f"not a sample: {line!r}"
            name, labels, value = match.groups(default="")
            series = found[family][1]
            assert name == family and labels not in series, line
            series[labels] = float(value)
    return found


def unescaped(labels: str) -> str:
    value = labels.partition('="')[2][:-1]
    return re.sub(r"\\.", lambda match: ESCAPES[match[0]], value)


async def test_metrics_are_prometheus_text(front: Front) -> None:
    """Names, types and escapes are checked by a strict parser, and by Prometheus' own if
    installed."""
    assert await front.chat("p") == 200
    front.gateway.count('a"b\\c\nd')
    async with front.client.get("/metrics") as answer:
        assert answer.headers["Content-Type"].startswith("text/plain; version=0.0.4")
        text = await answer.text()
    found = parse(text)
    assert all(name.startswith("tutti_gateway_") for name in found)
    kind, series = found["tutti_gateway_engine_calls_total"]
    ((labels, calls),) = series.items()
    assert (kind, unescaped(labels), calls) == ("counter", NASTY, 1.0)
    assert found["tutti_gateway_engine_kv_usage_ratio"] == ("gauge", {labels: 0.25})
    assert found["tutti_gateway_engine_capacity_tokens"] == ("gauge", {labels: 1600.0})
    events = found["tutti_gateway_events_total"][1]
    assert {unescaped(name) for name in events} >= {"status_ok", 'a"b\\c\nd'}
    official = pytest.importorskip("prometheus_client.parser")
    theirs = {
        (sample.name, tuple(sample.labels.values())): sample.value
        for family in official.text_string_to_metric_families(text)
        for sample in family.samples
    }
    ours = {
        (name, (unescaped(labels),) if labels else ()): value
        for name, (_, series) in found.items()
        for labels, value in series.items()
    }
    assert theirs == ours


async def test_counters_have_all_their_digits(front: Front) -> None:
    front.gateway.counts["many"] = 123_456_789
    front.gateway.access.budget.cost.add(1234.567891)
    found = parse(await front.text("/metrics"))
    assert found["tutti_gateway_events_total"][1]['what="many"'] == 123_456_789
    assert found["tutti_gateway_spent_usd_total"][1][""] == 1234.567891


# Prices


@pytest.mark.parametrize(
    ("change", "model", "prompt"),
    [
        ({}, "m", 1.0),
        ({"prices": Prices(prompt=9.0)}, "m", 9.0),
        ({"prices": Prices()}, "m", 0.0),
        ({}, "unknown", None),
        ({"entries": {"registry's": {"served_name": "served"}}}, "registry's", 1.0),
        ({"entries": {"registry's": {"served_name": "served"}}}, "served", 1.0),
        ({"entries": {"own": {"served_name": "m"}}}, "own", 1.0),
        ({"entries": {"own": {"served_name": "m", "prices": {"prompt": 7}}}}, "m", 7.0),
        ({"entries": {"registry's": {"served_name": "served"}}}, "an adapter", None),
    ],
)
async def test_prices_are_the_endpoints_own_or_the_books(
    catalog: storage.Catalog, book: Path, change: dict[str, Any], model: str, prompt: float | None
) -> None:
    """The price is looked up by the call's name or the registry's; an unknown price is null, not
    zero."""
    gateway = Gateway(catalog, GatewaySettings(prices=book))
    endpoint: Endpoint = gateway.pools.add(EndpointConfig(url="http://127.0.0.1:9", **change))
    found = endpoint.prices_of(model)
    await gateway.stop()
    assert (found.prompt if found else None) == prompt


async def test_calls_are_charged_by_the_book(
    make_front: Any, catalog: storage.Catalog, book: Path
) -> None:
    front = await make_front(prices=book)
    assert await front.chat("p") == 200 == await front.chat("p", "unknown")
    await front.client.post("/flush", headers=BOSS)
    rows = storage.query("select model, cost_usd from calls order by model", catalog.home)
    cost = (120 * 1.0 + 30 * 2.0) / 1e6
    assert rows == [
        {"model": "m", "cost_usd": pytest.approx(cost)},
        {"model": "unknown", "cost_usd": None},
    ]
    spent = front.gateway.access.budget.cost
    assert (spent.known_usd, spent.unknown) == (pytest.approx(cost), 1)


# GPUs


async def test_gpus_have_rows_while_a_cell_runs(
    catalog: storage.Catalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A thread reads them under the host's name; there are none without a cell or after its end."""
    gateway = Gateway(catalog)
    gateway.gpus.make = lambda name: GpuSampler(name, FakeNvml(97))
    gateway.gpus.sample_s = 0.01
    rows_read: list[Any] = []
    keep = gateway.gpus.on_rows

    def watch(rows: list[dict[str, Any]]) -> None:
        rows_read.append(rows)
        keep(rows)

    gateway.gpus.on_rows = watch
    await gateway.start("127.0.0.1", 0, [])
    await until(lambda: not gateway.gpus.absent, "the GPU is found")
    await asyncio.sleep(0.05)
    assert not rows_read and gateway.recorder.committed == 0
    gateway.cell_id = "cell:1"
    await until(lambda: len(rows_read) >= 2, "it is read")
    gateway.cell_id = ""
    await asyncio.sleep(0.05)
    assert views.health(gateway)["gpus_absent"] == ""
    await gateway.stop()
    rows = storage.query(
        "select cell_id, name, value, engine_id from server_metrics where value = 97", catalog.home
    )
    assert len(rows) >= 2
    assert {row["cell_id"] for row in rows} == {"cell:1"}
    assert {row["name"] for row in rows} == {'nvml:gpu_utilization{gpu="0"}'}
    assert all(row["engine_id"].startswith("host:") for row in rows)


async def test_without_gpus_health_says_why(catalog: storage.Catalog) -> None:
    gateway = Gateway(catalog)
    gateway.gpus.make = lambda name: GpuSampler(name, FakeNvml(driver=False))
    await asyncio.wait_for(gateway.gpus.watch(), 60)
    assert views.health(gateway)["gpus_absent"] == "NVML: Driver Not Loaded"
    await gateway.stop()
