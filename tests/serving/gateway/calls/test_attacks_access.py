"""Tests that no page and no process administers a gateway without its admin token.

This was an attack: without tokens every client was admin, so `POST /engines` with a key's name and
the attacker's URL sent that key there with the next call.
"""

import asyncio
import io
import stat
from pathlib import Path
from typing import Any

import pytest

from tests.serving.conftest import ADMIN, BOSS, Bench, released, until
from tests.serving.gateway.conftest import MakeRaw
from tutti.tasks.serving.gateway.calls.access import Access, Targets
from tutti.tasks.serving.gateway.command import token_file
from tutti.tasks.serving.gateway.endpoints.endpoint import EndpointConfig

ORDERS = [
    ("PUT", "/cell"), ("DELETE", "/cell"), ("POST", "/flush"), ("POST", "/engines"),
    ("DELETE", "/engines/engine:1"), ("POST", "/pulse/reset"), ("POST", "/v1/load_lora_adapter"),
]  # fmt: skip


async def test_orders_need_a_token_where_calls_need_none(raw: Bench) -> None:
    """Reading and calling need no token on this machine; administration always does."""
    for method, path in ORDERS:
        for headers in ({}, {"Authorization": "Bearer guess"}, {"x-api-key": "guess"}):
            answer = await raw.client.request(method, path, json={}, headers=headers)
            assert answer.status == 401, (method, path)
    assert (await raw.chat("p")).status == 200
    assert (await raw.client.get("/engines")).status == 200
    assert (await raw.client.post("/flush", headers=BOSS)).status == 200
    await released(raw.gateway)


async def test_a_key_of_the_environment_cannot_be_sent_anywhere(
    raw: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The attack fails without the token, and with it only keys that the operator listed can be
    used."""
    monkeypatch.setenv("OPENAI_API_KEY", "sk-secret")
    theft = {"url": raw.engine.url, "id": "thief", "api_key_env": "OPENAI_API_KEY", "models": ["m"]}
    assert (await raw.client.post("/engines", json=theft)).status == 401
    refused = await raw.client.post("/engines", json=theft, headers=BOSS)
    assert (refused.status, "--engine-key" in await refused.text()) == (400, True)
    await raw.chat("p")
    assert not any("sk-secret" in str(asked.headers) for asked in raw.engine.asked)
    await released(raw.gateway)


async def test_a_listed_key_goes_to_an_engine_that_the_admin_adds(
    make_raw: MakeRaw, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("A_KEY", "k1")
    bench = await make_raw(engine_key=("A_KEY",))
    order = bench.engine.endpoint("late", api_key_env="A_KEY", pool="late", models=("late",))
    added = await bench.client.post("/engines", json=order.model_dump(), headers=BOSS)
    assert added.status == 201, await added.text()
    await until(
        lambda: all(e.reachable for e in bench.gateway.pools.all_endpoints()), "it is there"
    )
    await bench.chat("p", model="late")
    assert bench.engine.asked[-1].headers["authorization"] == "Bearer k1"
    await released(bench.gateway)


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"Origin": "https://evil.example"}, 403),
        ({"Origin": "null"}, 403),
        ({"Origin": "http://127.0.0.1:1"}, 403),
        ({"Host": "evil.example"}, 403),
        ({"Host": "evil.example:8300", "Origin": "http://evil.example:8300"}, 403),
        ({"Host": "127.0.0.1.evil.example"}, 403),
        ({"Host": "[::1]:99"}, 200),
        ({"Host": "localhost:8300"}, 200),
        ({"Host": "LOCALHOST"}, 200),
        ({"Host": "gateway.box", "Origin": "https://gateway.box"}, 200),
        ({"Content-Type": "text/plain"}, 415),
        ({"Content-Type": "application/x-www-form-urlencoded"}, 415),
        ({"Content-Type": "multipart/form-data; boundary=x"}, 415),
        ({"Content-Type": "application/json; charset=utf-8"}, 200),
    ],
)
async def test_what_pages_of_other_sites_make_a_browser_send(
    make_raw: MakeRaw, headers: dict[str, str], status: int
) -> None:
    """A page's Origin, a name that an attacker's DNS resolves to this machine, and bodies that need
    no preflight request are refused, for calls and for administration."""
    bench = await make_raw(access=Access("", admin_token=ADMIN, hosts=("gateway.box",)))
    data = b'{"model": "m", "messages": []}'
    kind = {"Content-Type": "application/json"}
    answer = await bench.client.post("/v1/chat/completions", data=data, headers=kind | headers)
    assert answer.status == status, await answer.text()
    assert len(bench.engine.asked) == (status == 200)
    if status == 403:
        assert (await bench.client.get("/state", headers=headers)).status == 403
    await released(bench.gateway)


async def test_the_pages_own_script_is_let_in(raw: Bench) -> None:
    port = raw.gateway.server.port
    for host in (f"127.0.0.1:{port}", f"localhost:{port}"):
        headers = {"Host": host, "Origin": f"http://{host}"}
        assert (await raw.client.get("/state", headers=headers)).status == 200


async def test_the_admins_token_is_not_shown_to_engines(raw: Bench) -> None:
    """A gateway without tokens passes a client's own key to the engine, but never the admin's."""
    await raw.chat("p", headers=BOSS)
    assert "authorization" not in raw.engine.asked[-1].headers
    await raw.chat("q", headers={"Authorization": "Bearer clients"})
    assert raw.engine.asked[-1].headers["authorization"] == "Bearer clients"
    await released(raw.gateway)


@pytest.mark.parametrize(
    ("host", "allowed"),
    [
        ("127.0.0.1", False), ("169.254.169.254", False), ("10.1.2.3", False), ("0.0.0.0", False),
        ("100.64.0.1", False), ("[::1]", False), ("[fe80::1]", False), ("[fd00::1]", False),
        ("[::ffff:169.254.169.254]", False), ("[64:ff9b::a9fe:a9fe]", False),
        ("[2002:7f00:1::]", False), ("[fec0::1]", False), ("[::127.0.0.1]", False),
        ("[64:ff9b:1::7f00:1]", False), ("[::ffff:0:127.0.0.1]", False), ("[2001:0:1::]", False),
        ("[ff0e::1]", False), ("0.1.2.3", False), ("192.0.0.192", False), ("192.88.99.1", False),
        ("168.63.129.16", False), ("[64:ff9b::a83f:8110]", False), ("[64:ff9b::808:808]", True),
        ("224.0.0.1", False), ("93.184.216.34", True),
        ("[2606:2800:220:1::1]", True), ("192.168.7.9", True), ("box.lan", True),
    ],
)  # fmt: skip
def test_which_addresses_an_added_engine_may_have(host: str, allowed: bool) -> None:
    targets = Targets(("192.168.7.0/24", "box.lan"))
    config = EndpointConfig(url=f"http://{host}:80", metrics=False)
    if allowed:
        targets.check(config)
        return
    with pytest.raises(ValueError, match="--allow-engine"):
        targets.check(config)


@pytest.mark.parametrize("name", ["localhost", "127.1", "0177.0.0.1", "0x7f000001", "2130706433"])
async def test_a_name_that_leads_to_this_machine_is_not_connected_to(
    make_raw: MakeRaw, name: str
) -> None:
    """The address at the time of connecting counts, not that of the name when it was added."""
    bench = await make_raw()
    bench.gateway.targets = Targets()
    port = bench.engine.url.rsplit(":", 1)[1]
    order = {"url": f"http://{name}:{port}", "id": "sly", "pool": "sly"}
    assert (await bench.client.post("/engines", json=order, headers=BOSS)).status == 201
    _, sly = bench.gateway.pools.find("sly")
    await until(lambda: sly.failures, "it was tried")
    assert not sly.reachable and "--allow-engine" in sly.pause_reason


def test_the_made_token_is_its_users_alone(tmp_path: Path) -> None:
    """The token is in a file of mode 0600 while the gateway runs, also if a dead gateway left its
    own."""
    access = Access("alice:call:x")
    assert access.token_to_show and len(access.token_to_show) > 30
    left = tmp_path / "admin-8300.token"
    left.touch(0o644)
    with token_file(tmp_path, 8300, access.token_to_show) as path:
        assert path == left and path.read_text().strip() == access.token_to_show
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
        key = access.admit({b"authorization": b"Bearer " + path.read_bytes().strip()}, "admin")
        assert key.is_admin
    assert not left.exists()
    assert Access("boss:admin:x").token_to_show is None
    assert Access("", admin_token="given").token_to_show is None


async def test_rows_cannot_be_written_into_anothers_cell(make_raw: MakeRaw) -> None:
    """With tokens, X-Tutti-Cell must be the running cell, unless an admin sends it."""
    bench = await make_raw(access=Access("caller:call:c boss:call+admin:b"))
    boss, caller = {"Authorization": "Bearer b"}, {"Authorization": "Bearer c"}
    for headers, cell, status in ((caller, "cell:other", 403), (boss, "cell:other", 200)):
        answer = await bench.chat("p" + cell, headers=headers | {"X-Tutti-Cell": cell})
        assert answer.status == status
    order = {"cell_id": "cell:now", "policy": "passthrough"}
    assert (await bench.client.put("/cell", json=order, headers=boss)).status == 200
    for cell in ("cell:now", "cell:then"):
        answer = await bench.chat("q", headers=caller | {"X-Tutti-Cell": cell})
        assert answer.status == (200 if cell == "cell:now" else 403)
    await released(bench.gateway)


async def test_a_refused_request_costs_no_memory(make_raw: MakeRaw) -> None:
    """This was an attack: bodies were read before the token was checked, and aborted ones were kept
    alive by a reference cycle while garbage collection was disabled."""
    bench = await make_raw(access=Access("caller:call:c"))
    server = bench.gateway.server
    head = b"POST /v1/chat/completions HTTP/1.1\r\nHost: h\r\nContent-Length: 15000000\r\n\r\n"
    streams = []
    for _ in range(20):
        reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
        writer.write(head + b"x" * 100_000)
        streams.append((reader, writer))
    for reader, _ in streams:
        assert (await reader.readuntil(b"\r\n")).startswith(b"HTTP/1.1 401 ")
        assert server.buffered == 0
    for _, writer in streams:
        writer.close()


async def test_a_small_refused_request_keeps_its_connection(make_raw: MakeRaw) -> None:
    """A client without its token gets an error, and its connection is kept."""
    bench = await make_raw(access=Access("caller:call:c"))
    reader, writer = await asyncio.open_connection("127.0.0.1", bench.gateway.server.port)
    body = b'{"model": "m", "messages": []}'
    for token, status in ((b"wrong", 401), (b"c", 200)):
        writer.write(
            b"POST /v1/chat/completions HTTP/1.1\r\nHost: h\r\nAuthorization: bearer %b\r\n"
            b"Content-Length: %d\r\n\r\n%b" % (token, len(body), body)
        )
        answer = await reader.readuntil(b"\r\n\r\n")
        assert answer.startswith(b"HTTP/1.1 %d " % status)
        length = next(x for x in answer.lower().split(b"\r\n") if x.startswith(b"content-length"))
        await reader.readexactly(int(length.split(b":")[1]))
    writer.close()
    await released(bench.gateway)


async def test_json_that_cannot_be_written_back_is_refused_when_it_comes(raw: Bench) -> None:
    """This was an attack: 400 levels can be parsed but not serialised, and the error affected other
    clients' calls."""
    for depth, status in ((240, 200), (251, 400), (400, 400), (1000, 400), (5000, 400)):
        deep: Any = b'{"model": "m", "messages": [], "x": ' + b"[" * depth + b"]" * depth + b"}"
        kind = {"Content-Type": "application/json"}
        answer = await raw.client.post("/v1/chat/completions", data=deep, headers=kind)
        assert answer.status == status, depth
    order = b'{"cell_id": "c", "policy": "cap", "options": ' + b"[" * 400 + b"]" * 400 + b"}"
    answer = await raw.client.put("/cell", data=order, headers=BOSS | kind)
    assert answer.status == 400
    await released(raw.gateway)


async def test_an_id_that_no_catalog_holds_is_refused_when_it_comes(raw: Bench) -> None:
    """PostgreSQL accepts no NUL character: one such program stopped the recording of all."""
    message = [{"role": "user", "content": "a"}]
    bodies: list[tuple[str, dict[str, Any]]] = [
        ("/p/a%00b/v1/chat/completions", {"model": "m"}),
        ("/v1/chat/completions", {"model": "m", "program_id": "a\0b"}),
        ("/v1/chat/completions", {"model": "m", "job_id": "a\0b"}),
        ("/v1/chat/completions", {"model": "m\0"}),
    ]
    for path, body in bodies:
        answer = await raw.client.post(path, json={**body, "messages": message})
        assert answer.status == 400 and "NUL character" in await answer.text(), body
    cell = {"cell_id": "a\0b", "policy": "passthrough"}
    answer = await raw.client.put("/cell", json=cell, headers=BOSS)
    assert answer.status == 400 and "NUL character" in await answer.text()
    assert (await raw.chat("ab", messages=[{"role": "user", "content": "a\0b"}])).status == 200
    await released(raw.gateway)


async def test_a_body_of_a_million_objects_is_refused_unparsed(raw: Bench) -> None:
    """An object takes three bytes in the body and sixty-four in memory, and the parsing would block
    all other clients for half a second."""
    data = b'{"model": "m", "messages": [' + b",".join([b"{}"] * 1_100_000) + b"]}"
    answer = await raw.client.post(
        "/v1/chat/completions",
        data=io.BytesIO(data),
        headers={"Content-Type": "application/json"},
    )
    assert answer.status == 400 and "values" in await answer.text()


async def test_a_limit_beyond_all_columns_loses_no_row(make_raw: MakeRaw) -> None:
    """Fuzzing discovered a request for 2^64 tokens, for which the event of the hold was dropped."""
    bench = await make_raw(policy="cap", limit=1)
    await bench.chat("first")
    waiting = asyncio.create_task(bench.chat("second", max_tokens=2**64 - 1))
    await bench.until_held("second")
    await bench.release("first")
    assert (await waiting).status == 200
    (row,) = await bench.rows("select tokens from gateway_events where event = 'hold'")
    assert row["tokens"] > 2**31 and bench.gateway.recorder.dropped == 0
    await released(bench.gateway)
