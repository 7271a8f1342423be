"""Tests of access control: tokens, scopes, budgets, and secrets that appear nowhere.

Reference bug 23: nothing requires a token, any client can release or impersonate a program, and the
engine's own key cannot be used.
"""

import asyncio
import json
import logging
from pathlib import Path
from typing import Any

import pytest

from tests.serving.conftest import Bench, released, until
from tests.serving.gateway.conftest import MakeRaw
from tests.serving.gateway.raw_engine import ReceivedRequest, Wire, answering, whole
from tutti import storage
from tutti.tasks.serving.gateway.app import Gateway
from tutti.tasks.serving.gateway.calls.access import Access, AccessError
from tutti.tasks.serving.gateway.settings import GatewaySettings
from tutti.tasks.serving.scheduling import Program
from tutti.tasks.serving.wire.screen import AccessDenied

TOKENS = (
    "caller:call:c-secret other:call:o-secret viewer:read:v-secret boss:call+read+admin:b-secret"
)
SECRETS = ("c-secret", "o-secret", "v-secret", "b-secret", "engine-secret")
CALL_USD = (24 * 2 + 96 * 1 + 30 * 10) / 1e6  # of the double's answer, by PRICES


def bearer(token: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {token}"}


ROUTES = [
    ("POST", "/v1/chat/completions", "call"),
    ("GET", "/v1/models", "call"),
    ("POST", "/v1/tokenize", "call"),
    ("POST", "/programs/release", "call"),
    ("GET", "/programs", "read"),
    ("GET", "/profiles", "read"),
    ("GET", "/engines", "read"),
    ("GET", "/state", "read"),
    ("GET", "/metrics", "read"),
    ("PUT", "/cell", "admin"),
    ("DELETE", "/cell", "admin"),
    ("POST", "/flush", "admin"),
    ("POST", "/engines", "admin"),
    ("DELETE", "/engines/engine:9", "admin"),
]


async def test_every_route_asks_for_its_scope(make_raw: MakeRaw) -> None:
    """A missing or wrong token gives 401, one without the scope 403; /health is open to all."""
    bench = await make_raw(access=Access(TOKENS))
    bodies: dict[str, Any] = {
        "/programs/release": {"program_id": "p"},
        "/cell": {"cell_id": "c", "policy": "passthrough"},
    }
    for method, path, scope in ROUTES:
        body = bodies.get(path, {"model": "m"}) if method in ("POST", "PUT") else None
        for token, scopes in (
            (None, None), ("wrong", None), ("c-secret", "call"), ("v-secret", "read"),
            ("b-secret", "call+read+admin"),
        ):  # fmt: skip
            headers = bearer(token) if token else {}
            answer = await bench.client.request(method, path, json=body, headers=headers)
            if scopes is None:
                assert answer.status == 401, (method, path, token)
            elif scope not in scopes:
                assert answer.status == 403, (method, path, token)
            else:
                assert answer.status not in (401, 403), (method, path, token)
    assert (await bench.client.get("/health")).status == 200
    assert (await bench.client.get("/ui")).status == 200
    await released(bench.gateway)


def test_a_program_is_of_the_key_that_began_it() -> None:
    """No other key may use or end a program with any name; one with `admin` may."""
    keys = {key.name: key for key in Access(TOKENS)._keys.values()}
    allowed = set()
    for owner in keys:
        for name, key in keys.items():
            key.check_owner(None)
            try:
                key.check_owner(Program("p", 0.0, key=owner))
            except AccessDenied as denied:
                assert denied.status == 403
            else:
                allowed.add((owner, name))
    assert allowed == {(name, name) for name in keys} | {(name, "boss") for name in keys}


async def test_a_token_may_come_as_anthropics_clients_send_it(make_raw: MakeRaw) -> None:
    bench = await make_raw(access=Access(TOKENS))
    answer = await bench.chat(path="/v1/messages", headers={"x-api-key": "c-secret"})
    assert answer.status == 200
    assert "x-api-key" not in bench.engine.asked[0].headers


async def test_a_program_belongs_to_who_began_it(make_raw: MakeRaw) -> None:
    """Reference bug 23: other clients can neither release nor impersonate it; an admin can."""
    bench = await make_raw(access=Access(TOKENS))
    assert (await bench.chat("p", headers=bearer("c-secret"))).status == 200
    assert (await bench.chat("p", headers=bearer("o-secret"))).status == 403
    order = {"program_id": "p"}
    for token, status in (("o-secret", 403), ("v-secret", 403), ("b-secret", 200)):
        path = "/programs/release"
        answer = await bench.client.post(path, json=order, headers=bearer(token))
        assert answer.status == status
    assert bench.programs == {}
    assert (await bench.chat("p", headers=bearer("o-secret"))).status == 200
    await released(bench.gateway)


async def test_the_runs_money_has_an_end(make_raw: MakeRaw) -> None:
    """When it is spent, every client gets 402; running calls may finish."""
    bench = await make_raw(access=Access("", budget_usd=1.5 * CALL_USD))
    assert [(await bench.chat("p")).status for _ in range(3)] == [200, 200, 402]
    assert bench.gateway.access.budget.cost.usd == pytest.approx(2 * CALL_USD)
    answer = await bench.chat("p")
    assert "budget" in (await answer.json())["error"]["message"]
    assert len(bench.engine.asked) == 2
    await released(bench.gateway)


async def test_a_tokens_money_is_its_own(make_raw: MakeRaw) -> None:
    tokens = f"poor:call:one:{0.5 * CALL_USD:.9f} rich:call:two"
    bench = await make_raw(access=Access(tokens))
    found = [(await bench.chat(headers=bearer(token))).status for token in ("one", "one", "two")]
    assert found == [200, 402, 200]
    await released(bench.gateway)


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.0.2.1", "example.org"])
async def test_a_gateway_without_tokens_stays_at_home(catalog: storage.Catalog, host: str) -> None:
    """Reference bug 23: it does not listen on an address that others can reach."""
    gateway = Gateway(catalog, GatewaySettings(policy="passthrough"))
    with pytest.raises(AccessError, match="TUTTI_GATEWAY_TOKENS"):
        await gateway.start(host, 0, [])
    await gateway.stop()
    Access(TOKENS).check_host(host)


@pytest.mark.parametrize(
    "tokens",
    ["sesame", "name:call:", ":call:sesame", "name::sesame", "name:fly:sesame",
     "name:call:sesame:much", "a:call:sesame a:read:sesame", "name:call:sesame:"],
)  # fmt: skip
def test_tokens_without_sense_are_refused_without_showing_them(tokens: str) -> None:
    if tokens.endswith(":") and "sesame" in tokens:
        assert next(iter(Access(tokens)._keys.values())).budget.limit_usd is None
        return
    with pytest.raises(AccessError) as caught:
        Access(tokens)
    assert "sesame" not in str(caught.value)


def test_a_token_is_found_whatever_stands_beside_it() -> None:
    access = Access(TOKENS)
    for scheme in (b"Bearer", b"bearer", b"BEARER"):
        assert access.admit({b"authorization": scheme + b" v-secret"}, "read").name == "viewer"
    for given in (b"Bearer ", b"Basic v-secret", b"v-secret", b""):
        with pytest.raises(AccessDenied):
            access.admit({b"authorization": given}, "read")
    assert not any(secret in repr(vars(access)) for secret in SECRETS)


@pytest.mark.parametrize("own", [False, True])
@pytest.mark.parametrize("tokens", ["", TOKENS])
async def test_whose_key_the_engine_sees(
    make_raw: MakeRaw, monkeypatch: pytest.MonkeyPatch, tokens: str, own: bool
) -> None:
    """The engine's own key is used if there is one; a client's key only if it is not a token of the
    gateway."""
    monkeypatch.setenv("ENGINE_KEY", "engine-secret")
    endpoint = {"api_key_env": "ENGINE_KEY"} if own else {}
    bench = await make_raw(access=Access(tokens), endpoint=endpoint)
    await bench.chat("p", headers=bearer("c-secret"))
    await bench.client.get("/v1/models", headers=bearer("c-secret"))
    await bench.client.post("/v1/tokenize", json={}, headers=bearer("c-secret"))
    expected = "Bearer engine-secret" if own else None if tokens else "Bearer c-secret"
    assert len(bench.engine.asked) == 2
    assert {each.headers.get("authorization") for each in bench.engine.asked} == {expected}


async def test_an_engines_key_goes_where_the_protocol_has_it(
    make_raw: MakeRaw, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ENGINE_KEY", "engine-secret")
    bench = await make_raw(endpoint={"api_key_env": "ENGINE_KEY"})
    await bench.client.post("/v1/messages", json={"model": "m", "messages": []})
    headers = bench.engine.asked[-1].headers
    assert (headers.get("x-api-key"), headers.get("authorization")) == ("engine-secret", None)


async def test_a_key_that_is_not_there_is_said_at_the_start(make_raw: MakeRaw) -> None:
    with pytest.raises(ValueError, match="NO_SUCH_KEY"):
        await make_raw(endpoint={"api_key_env": "NO_SUCH_KEY"})


async def test_secrets_are_seen_nowhere(
    make_raw: MakeRaw,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    tmp_path: Path,
) -> None:
    """Secrets are in no row of the store, no view, no error message, no log and no journal."""
    caplog.set_level(logging.DEBUG)
    monkeypatch.setenv("ENGINE_KEY", "engine-secret")
    journal = tmp_path / "journal.jsonl"
    endpoint = {"api_key_env": "ENGINE_KEY"}
    bench = await make_raw(
        access=Access(TOKENS), endpoint=endpoint, journal=journal, all_events=True
    )
    boss, said = bearer("b-secret"), []
    order = {"cell_id": "c", "policy": "cap", "limit": 1}
    await bench.client.put("/cell", json=order, headers=boss)
    for status in (200, 500, 400):
        bench.engine.reply = answering(whole({"error": "no"}, status))
        said.append(await (await bench.chat("p", headers=bearer("c-secret"))).text())

    async def reset(_: ReceivedRequest, wire: Wire) -> None:
        wire.reset()

    bench.engine.reply = reset
    said.append(await (await bench.chat("p", headers=bearer("c-secret"))).text())
    said.append(await (await bench.chat("p", headers=bearer("wrong-c-secret"))).text())
    for path in ("/state", "/engines", "/programs", "/profiles", "/metrics", "/health", "/ui"):
        said.append(await (await bench.client.get(path, headers=boss)).text())
    assert (await bench.client.delete("/cell", headers=boss)).status == 200
    for table in ("calls", "messages", "gateway_events", "server_metrics"):
        rows = storage.query(f"select * from {table}", bench.catalog.home)
        assert rows or table == "messages"
        said.append(json.dumps(rows, default=str))
    assert bench.gateway.journal is not None
    bench.gateway.journal.write(bench.gateway.journal.take())
    said += [caplog.text, journal.read_text()]
    assert journal.read_text()
    for secret in SECRETS:
        assert not any(secret in text for text in said), secret
    for file in bench.catalog.home.root.rglob("*"):
        if file.is_file():
            content = file.read_bytes()
            assert not any(secret.encode() in content for secret in SECRETS), file


async def test_budgets_count_what_streams_cost(make_raw: MakeRaw) -> None:
    from tests.serving.gateway.raw_engine import DONE, USAGE, delta, event, streaming

    bench: Bench = await make_raw(access=Access("", budget_usd=1.0))
    bench.engine.reply = answering(whole({"error": "no"}, 500))
    await bench.chat("p")
    assert bench.gateway.access.budget.cost.usd == 0.0
    usage = event({"choices": [], "usage": USAGE})
    bench.engine.reply = streaming(delta("x", "stop"), usage, DONE)
    await (await bench.chat("p", stream=True)).read()
    await until(lambda: not bench.gateway.in_flight, "it is over")
    assert bench.gateway.access.budget.cost.usd == pytest.approx(CALL_USD)
    await asyncio.sleep(0)
    await released(bench.gateway)


async def test_a_stream_that_the_client_leaves_costs_what_it_took(make_raw: MakeRaw) -> None:
    """A client cannot avoid the cost by disconnecting before the usage arrives."""
    from tests.serving.gateway.raw_engine import delta, streaming

    bench: Bench = await make_raw(access=Access("", budget_usd=1.0))
    bench.engine.reply = streaming(*[delta("x")] * 200, pause_s=0.01)
    answer = await bench.chat("p", stream=True)
    await answer.content.readany()
    answer.close()
    await until(lambda: not bench.gateway.in_flight, "it is over")
    budget = bench.gateway.access.budget
    assert (budget.cost.usd, budget.cost.unknown) == (None, 1)
    assert 0 < budget.estimated_usd < CALL_USD * 10
