"""Tests of a released program's spending: over all pools, separately for judges, users and experts,
and where an endpoint reports no usage."""

import asyncio
import json
import logging
import time
from typing import Any

import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer

from tests.serving.conftest import running, until
from tests.serving.engine_double import EngineDouble, completion
from tutti import storage
from tutti.tasks.serving.gateway.calls.access import Access
from tutti.tasks.serving.gateway.endpoints.endpoint import EndpointConfig
from tutti.tasks.serving.gateway.settings import GatewaySettings
from tutti.tasks.serving.registry.models import Prices

ASKED: list[tuple[str, str | None]] = [("m", None), ("m", None), ("other", "user"), ("m", "expert")]
ASKED += [("m", "somebody")]


async def test_what_a_program_spent_by_role(catalog: storage.Catalog) -> None:
    """The agent is in one pool and its user in another: the release reports both parts. An unknown
    role counts as the agent's."""
    double = EngineDouble()
    async with TestServer(double.application()) as server:
        url = str(server.make_url("")).rstrip("/")
        prices = Prices(prompt=1, completion=10)
        pools = [
            EndpointConfig(url=url, id="one", models=("m",), prices=prices),
            EndpointConfig(url=url, id="two", models=("other",), pool="other", metrics=False),
        ]
        settings = GatewaySettings(policy="passthrough")
        async with running(catalog, settings, pools) as (_, client):
            for model, role in ASKED:
                headers = {"X-Program-Id": "p"} | ({} if role is None else {"X-Tutti-Role": role})
                body = {"model": model, "messages": [{"role": "user", "content": "hello"}]}
                async with client.post("/v1/chat/completions", json=body, headers=headers) as done:
                    assert done.status == 200, await done.text()
            async with client.post("/programs/release", json={"program_id": "p"}) as done:
                spent: dict[str, Any] = (await done.json())["spent"]
    assert (spent["calls"], spent["user.calls"], spent["expert.calls"]) == (5, 1, 1)
    assert spent["prompt_tokens"] == 5 * spent["user.prompt_tokens"]
    assert spent["cost_usd"] == 4 * spent["expert.cost_usd"] > 0
    assert (spent["unknown_costs"], spent["user.unknown_costs"]) == (1, 1)
    assert spent["partner_s"] > 0, "the user's calls"
    assert not [unit for unit in spent if unit.startswith(("somebody", "orchestrator"))]


async def test_waits_in_two_pools_at_once_count_once(catalog: storage.Catalog) -> None:
    """A program waits for both until they fail; its clock, its release and its attempt agree."""
    double, asked, go_on = EngineDouble(), list[Any](), asyncio.Event()

    async def fail_later(_: web.Request, body: dict[str, Any]) -> web.StreamResponse:
        asked.append(body["model"])
        await go_on.wait()
        return web.json_response({"error": "no"}, status=500)

    double.reply = fail_later
    async with TestServer(double.application()) as server:
        url = str(server.make_url("")).rstrip("/")
        pools = [
            EndpointConfig(url=url, id=name, models=(name,), pool=name, metrics=False)
            for name in ("one", "two")
        ]
        settings = GatewaySettings(policy="passthrough", name="mine")
        async with running(catalog, settings, pools) as (gateway, client):

            async def told(path: str) -> dict[str, Any]:
                async with client.post(f"/programs/{path}", json={"program_id": "p"}) as answer:
                    result: dict[str, Any] = await answer.json()
                    return result

            async def call(model: str) -> None:
                body = {"model": model, "messages": [{"role": "user", "content": "q"}]}
                async with client.post("/p/p/v1/chat/completions", json=body) as answer:
                    assert answer.status == 500

            began = time.monotonic()
            calls = [asyncio.create_task(call(name)) for name in ("one", "two")]
            await until(lambda: len(asked) == 2, "both wait")
            await asyncio.sleep(0.2)
            go_on.set()
            await asyncio.gather(*calls)
            clock, took = await told("clock"), time.monotonic() - began
            assert 0.2 <= clock["held_s"] <= took and clock["failing_s"] > 0.0
            spent = (await told("release"))["spent"]
            assert (spent["held_s"], spent["calls"]) == (clock["held_s"], 2)
            await until(lambda: not gateway.recording.programs._open, "it is over")
            await asyncio.to_thread(gateway.recorder.flush)
    (row,) = storage.query("select held_s, working_s from attempts", catalog.home)
    assert row["held_s"] == pytest.approx(clock["held_s"], abs=0.01)


async def silent(_: web.Request, body: dict[str, Any]) -> web.StreamResponse:
    return web.json_response(completion("hi", usage={}))


async def failing(_: web.Request, body: dict[str, Any]) -> web.StreamResponse:
    return web.json_response({"error": "no"}, status=500)


@pytest.mark.parametrize(
    ("reply", "prices", "usd"),
    [
        (silent, Prices(prompt=1, completion=10), None),
        (silent, Prices(), 0.0),  # free, whatever it took
        (silent, None, None),
        (failing, Prices(prompt=1, completion=10), 0.0),
        (failing, None, 0.0),  # nobody is charged for no answer
    ],
)
async def test_an_unknown_cost_is_not_zero(
    catalog: storage.Catalog, reply: Any, prices: Prices | None, usd: float | None
) -> None:
    """The header, the program's spending, `calls` and `attempts` agree."""
    double = EngineDouble()
    double.reply = reply
    async with TestServer(double.application()) as server:
        url = str(server.make_url("")).rstrip("/")
        pools = [EndpointConfig(url=url, id="one", models=("m",), prices=prices)]
        async with running(catalog, GatewaySettings(policy="passthrough", name="mine"), pools) as (
            _,
            client,
        ):
            for role in ("orchestrator", "judge"):
                headers = {"X-Program-Id": "p", "X-Tutti-Role": role}
                body = {"model": "m", "messages": [{"role": "user", "content": role}]}
                async with client.post("/v1/chat/completions", json=body, headers=headers) as done:
                    told = done.headers.get("X-Tutti-Cost-Usd")
                    assert told == (None if usd is None or reply is failing else f"{usd:.9f}")
            async with client.post("/programs/release", json={"program_id": "p"}) as done:
                spent: dict[str, Any] = (await done.json())["spent"]
    assert spent["cost_usd"] == 0.0 and spent["unknown_costs"] == 2 * (usd is None)
    assert spent["judge.unknown_costs"] == (usd is None)
    assert spent["unknown_usages"] == 2 * (reply is silent)
    assert (spent["prompt_tokens"], spent["judge.unknown_usages"]) == (0, reply is silent)
    for table in ("calls", "attempts"):
        costs = storage.query(f"select distinct cost_usd from {table}", catalog.home)
        assert costs == [{"cost_usd": usd}], table


async def test_an_auxiliary_call_of_unknown_cost_makes_its_programs_unknown(
    catalog: storage.Catalog,
) -> None:
    """The agent's own calls are priced and counted; its expert's are not."""
    double = EngineDouble()
    async with TestServer(double.application()) as server:
        url = str(server.make_url("")).rstrip("/")
        pools = [
            EndpointConfig(url=url, id="one", models=("m",), prices=Prices(completion=10)),
            EndpointConfig(url=url, id="two", models=("x",), pool="other", metrics=False),
        ]
        async with running(catalog, GatewaySettings(policy="passthrough", name="mine"), pools) as (
            _,
            client,
        ):
            for program, model in (("alone", "m"), ("helped", "m"), ("helped", "x")):
                role = "orchestrator" if model == "m" else "expert"
                headers = {"X-Program-Id": program, "X-Tutti-Role": role}
                body = {"model": model, "messages": [{"role": "user", "content": "hello"}]}
                async with client.post("/v1/chat/completions", json=body, headers=headers) as done:
                    assert done.status == 200
    rows = storage.query("select task_id, cost_usd from attempts order by all", catalog.home)
    assert rows == [
        {"task_id": "alone", "cost_usd": pytest.approx(30 * 10 / 1e6)},
        {"task_id": "helped", "cost_usd": None},
    ]


async def test_a_budget_ends_where_no_usage_is_reported(
    catalog: storage.Catalog, caplog: pytest.LogCaptureFixture
) -> None:
    """The budget uses a conservative estimate; a warning is logged once, and no exact sum is
    shown."""
    double = EngineDouble()
    double.reply = silent
    answer_usd = float(len(json.dumps(completion("hi", usage={}))))
    caplog.set_level(logging.WARNING)
    async with TestServer(double.application()) as server:
        url = str(server.make_url("")).rstrip("/")
        prices = Prices(completion=1e6)
        pools = [EndpointConfig(url=url, id="one", models=("m",), prices=prices)]
        access = Access("", budget_usd=2.5 * answer_usd)
        settings = GatewaySettings(policy="passthrough")
        async with running(catalog, settings, pools, access) as (_, client):
            statuses, text = [], ""
            for _ in range(6):
                body = {"model": "m", "messages": [{"role": "user", "content": "hello"}]}
                async with client.post("/v1/chat/completions", json=body) as done:
                    statuses.append(done.status)
                    text = await done.text()
            async with client.get("/metrics") as done:
                metrics = await done.text()
    assert statuses == [200, 200, 200, 402, 402, 402]
    assert "(at least 0.00 USD and about " in text and "of 3 unknown costs) is spent" in text
    assert "tutti_gateway_spent_usd_total 0" in metrics
    assert "tutti_gateway_unknown_costs_total 3" in metrics
    said = [each.getMessage() for each in caplog.records if "unknown" in each.getMessage()]
    assert said == ["one: the cost of a call of m is unknown: its usage was not reported; "
                    "budgets count an estimate"]  # fmt: skip
    events = storage.query(
        "select reason_code from gateway_events where program_id = ''", catalog.home
    )
    assert events == [{"reason_code": "unknown_cost"}]
