"""End-to-end tests of the gateway on loopback: forwarded, held and recorded calls."""

import asyncio
import gzip
import json
from typing import Any

import aiohttp
import pytest
from aiohttp import web

from tests.serving.conftest import BOSS, Bench, MakeBench, assert_empty, until
from tests.serving.engine_double import METRICS, USAGE, completion
from tutti import storage


async def test_a_call_is_answered_and_recorded_with_exact_tokens(bench: Bench) -> None:
    """The response is unchanged; the row has the usage, the step, the cell and the price."""
    await bench.begin(cell="cell:7")
    headers = {"X-Tutti-Step": "3", "X-Call-Id": "call-1", "X-Tutti-Role": "judge"}
    answer = await bench.chat("attempt:1", headers=headers, temperature=0.5, seed=4)
    assert (answer.status, await answer.json()) == (200, completion("hi"))
    assert 0 <= float(answer.headers["X-Tutti-Held-S"]) < 5
    (row,) = await bench.calls()
    expected = {
        "call_id": "call-1",
        "attempt_id": "attempt:1",
        "cell_id": "cell:7",
        "step": 3,
        "role": "judge",
        "model": "m",
        "endpoint": "engine:1",
        "prompt_tokens": 120,
        "cached_tokens": 96,
        "completion_tokens": 30,
        "finish_reason": "stop",
        "status": "ok",
        "http_status": 200,
        "cost_usd": pytest.approx((24 * 2 + 96 * 1 + 30 * 10) / 1e6),
    }
    assert {name: row[name] for name in expected} == expected
    assert json.loads(row["params"]) == {"temperature": 0.5, "seed": 4}
    assert row["sent_at"] <= row["admitted_at"] <= row["ended_at"]
    assert 0 <= row["held_s"] <= row["latency_s"]


async def test_equal_prompts_have_equal_hashes(bench: Bench) -> None:
    for fields in ({}, {"temperature": 1.0}, {"messages": [{"role": "user", "content": "bye"}]}):
        await bench.chat("p", **fields)
    a, b, c = (row["prompt_hash"] for row in await bench.calls())
    assert a == b != c


@pytest.mark.parametrize(
    ("fields", "program"),
    [
        ({"headers": {"X-Program-Id": "h"}}, "h"),
        ({"program_id": "b"}, "b"),
        ({"job_id": "j"}, "j"),
        ({"path": "/p/path%3A1/v1/chat/completions"}, "path:1"),
        ({"path": "/p/path/v1/chat/completions", "headers": {"X-Program-Id": "h"}}, "path"),
    ],
)
async def test_a_program_is_named_by_path_header_or_body(
    bench: Bench, fields: dict[str, Any], program: str
) -> None:
    """Any client can name its program: the path works even if only a base URL can be set."""
    assert (await bench.chat(**fields)).status == 200
    (row,) = await bench.calls()
    assert row["attempt_id"] == program
    assert list(bench.programs) == [program]


@pytest.mark.parametrize("headers", [{}, {"X-Program-Id": "h"}])
async def test_program_id_is_taken_out_of_the_body_and_nothing_else(
    bench: Bench, headers: dict[str, str]
) -> None:
    """An engine refuses unknown fields; all other fields arrive unchanged."""
    extra: dict[str, Any] = {"tools": [{"type": "function"}], "top_k": 3}
    extra |= {"chat_template_kwargs": {"x": None}}
    await bench.chat(headers=headers, program_id="b", **extra)
    (_, body), messages = bench.engine.requests[0], [{"role": "user", "content": "hello"}]
    assert body == {"model": "m", "messages": messages, **extra}


async def test_the_clients_key_reaches_the_engine(bench: Bench) -> None:
    await bench.chat("p", headers={"Authorization": "Bearer secret"})
    assert bench.engine.requests[0][0]["Authorization"] == "Bearer secret"


async def test_calls_without_a_name_are_programs_of_their_own(bench: Bench) -> None:
    await bench.begin("cap", 1)
    for _ in range(3):
        answer = await asyncio.wait_for(bench.chat(), 60)
        assert answer.status == 200
    names = {row["attempt_id"] for row in await bench.calls()}
    assert len(names) == 3
    assert all(name.startswith("anonymous-") for name in names)


async def test_cap_holds_the_second_program_until_the_first_is_released(bench: Bench) -> None:
    """The first keeps its slot between its calls; the wait of the second is recorded."""
    await bench.begin("cap", 1)
    assert (await bench.chat("first")).status == 200
    waiting = asyncio.create_task(bench.chat("second"))
    await bench.until_held("second")
    assert (await bench.chat("first")).status == 200
    await asyncio.sleep(0.1)
    assert not waiting.done()
    assert await bench.release("first")
    answer = await asyncio.wait_for(waiting, 60)
    assert float(answer.headers["X-Tutti-Held-S"]) >= 0.1
    *early, last = await bench.calls()
    by_name = {row["attempt_id"]: row for row in [*early, last]}
    assert by_name["second"]["held_s"] >= 0.1 > by_name["first"]["held_s"]
    waited = by_name["second"]["admitted_at"] - by_name["second"]["sent_at"]
    assert waited.total_seconds() == pytest.approx(by_name["second"]["held_s"], abs=0.05)
    events = await bench.rows("select program_id, event from gateway_events order by all desc")
    assert [tuple(row.values()) for row in events] == [("second", "hold"), ("first", "release")]


async def test_cap_admits_in_order_of_arrival(bench: Bench) -> None:
    """The number in flight is never above the limit; the call that has waited longest goes
    first."""
    await bench.begin("cap", 2)
    waiting = []
    for name in "abcde":
        waiting.append(asyncio.create_task(bench.chat(name)))

        def arrived(name: str = name) -> bool:
            return name in bench.programs

        await until(arrived, f"{name} arrives")
    assert bench.held == ["c", "d", "e"]
    for name, following in zip("ab", "cd", strict=True):
        await bench.release(name)
        assert following not in bench.held
    assert bench.held == ["e"]
    await bench.release("c")
    answers = await asyncio.gather(*waiting)
    assert [answer.status for answer in answers] == [200] * 5


async def test_a_new_cell_frees_what_the_last_one_held(bench: Bench) -> None:
    """A held call of an abandoned cell gets a response that requests a retry instead of waiting
    forever."""
    await bench.begin("cap", 1)
    await bench.chat("first")
    waiting = asyncio.create_task(bench.chat("second"))
    await bench.until_held("second")
    await bench.begin("passthrough", cell="cell:2")
    answer = await asyncio.wait_for(waiting, 60)
    assert (answer.status, answer.headers["Retry-After"]) == (503, "1")
    assert (await bench.chat("second")).status == 200
    assert_empty(bench.gateway)


async def test_a_hold_has_an_end(make_bench: MakeBench, quick: None) -> None:
    """Beyond the limit the response is 503 with Retry-After, recorded as an infrastructure
    error."""
    bench = await make_bench(hold_s=0.1)
    await bench.begin("cap", 1)
    await bench.chat("first")
    answer = await bench.chat("second")
    assert (answer.status, answer.headers["Retry-After"]) == (503, "5")
    row = (await bench.calls())[-1]
    assert (row["status"], row["http_status"], row["admitted_at"]) == ("infra_error", 503, None)
    assert await bench.release("first")
    assert (await bench.chat("third")).status == 200, "the expired program took no place"


async def disconnect_while_held(bench: Bench) -> None:
    await bench.begin("cap", 1)
    await bench.chat("first")
    async with aiohttp.ClientSession() as another:
        url = f"http://127.0.0.1:{bench.gateway.server.port}/v1/chat/completions"
        body = {"model": "m", "messages": [], "program_id": "second"}
        waiting = asyncio.create_task(another.post(url, json=body))
        await bench.until_held("second")
        waiting.cancel()
        await asyncio.gather(waiting, return_exceptions=True)


async def test_a_client_that_leaves_while_held_gives_up_its_turn(bench: Bench) -> None:
    """The client's call is recorded as cancelled and never sent; the next in the queue gets the
    slot."""
    await disconnect_while_held(bench)
    await until(lambda: not bench.held, "the wait is given up")
    waiting = asyncio.create_task(bench.chat("third"))
    await bench.until_held("third")
    await bench.release("first")
    assert (await asyncio.wait_for(waiting, 60)).status == 200
    rows = {row["attempt_id"]: row for row in await bench.calls()}
    assert (rows["second"]["status"], rows["second"]["http_status"]) == ("cancelled", None)
    assert len(bench.engine.requests) == 2
    events = await bench.rows("select event from gateway_events where program_id = 'second'")
    assert {"hold", "disconnect"} <= {row["event"] for row in events}


async def test_one_of_two_held_calls_that_leaves_does_not_let_the_other_jump_the_queue(
    bench: Bench,
) -> None:
    """The program still waits for its slot; the cap is not exceeded."""
    await disconnect_while_held_twice(bench)
    await asyncio.sleep(0.1)
    assert len(bench.engine.requests) == 1, "a held call went to the engine without a place"
    await bench.release("first")


async def disconnect_while_held_twice(bench: Bench) -> None:
    """Hold two calls of `second` behind `first`, then disconnect the client of one of them."""
    await bench.begin("cap", 1)
    await bench.chat("first")
    staying = asyncio.create_task(bench.chat("second"))
    await bench.until_held("second")
    async with aiohttp.ClientSession() as another:
        url = f"http://127.0.0.1:{bench.gateway.server.port}/v1/chat/completions"
        leaving = asyncio.create_task(another.post(url, json={"program_id": "second"}))
        await bench.until_held("second", "second")
        leaving.cancel()
        await asyncio.gather(leaving, return_exceptions=True)
        await bench.until_held("second")
    staying.add_done_callback(lambda task: task.cancelled() or task.exception())


async def test_an_engines_error_passes_and_is_an_infra_error(bench: Bench) -> None:
    """500 is the server's fault, 400 the caller's (429: see gateway/test_faults.py)."""
    for status in (500, 400):

        async def refuse(_: Any, body: Any, status: int = status) -> web.StreamResponse:
            return web.json_response({"error": f"no {status}"}, status=status)

        bench.engine.reply = refuse
        answer = await bench.chat("p")
        assert (answer.status, await answer.json()) == (status, {"error": f"no {status}"})
    rows = [(row["status"], row["http_status"]) for row in await bench.calls()]
    assert rows == [("infra_error", 500), ("model_error", 400)]


async def test_an_engine_that_is_gone_is_502_and_an_infra_error(bench: Bench) -> None:
    """The connection is refused; the client gets JSON with the cause."""
    await bench.engine.server.close()
    answer = await bench.chat("p")
    assert answer.status == 502
    assert "the engine did not answer" in (await answer.json())["error"]["message"]
    (row,) = await bench.calls()
    assert (row["status"], row["http_status"]) == ("infra_error", 502)
    assert (await bench.client.get("/v1/models")).status in (502, 503)


async def test_an_engine_that_takes_too_long_is_an_error_with_a_reason(
    make_bench: MakeBench, quick: None
) -> None:
    """The client's response and the call's row name the timeout."""
    bench = await make_bench(upstream_s=0.1)
    bench.engine.gate.clear()
    answer = await bench.chat("p")
    bench.engine.gate.set()
    assert answer.status == 504
    (row,) = await bench.calls()
    assert (row["status"], row["http_status"]) == ("infra_error", answer.status)


async def test_other_paths_pass_through_unrecorded(bench: Bench) -> None:
    answer = await bench.client.get("/v1/models")
    assert await answer.json() == {"data": [{"id": "m"}]}
    assert await bench.calls() == []


@pytest.mark.parametrize("body", [b"{not json", b"[1, 2]", b"3"])
async def test_a_body_that_is_no_object_is_refused(bench: Bench, body: bytes) -> None:
    answer = await bench.client.post("/v1/chat/completions", data=body)
    assert answer.status == 400
    assert "JSON" in (await answer.json())["error"]["message"]
    assert bench.engine.requests == []


async def test_headers_without_sense_are_refused_not_a_crash(bench: Bench) -> None:
    """A step that is no number is the client's error: 400 without a traceback."""
    answer = await bench.chat("p", headers={"X-Tutti-Step": "third"})
    assert answer.status == 400


@pytest.mark.parametrize("order", [{}, {"policy": "fastest", "limit": 1, "cell_id": "c"}, ["x"]])
async def test_an_order_without_sense_is_refused_and_changes_nothing(
    bench: Bench, order: Any
) -> None:
    await bench.begin("cap", 1)
    assert (await bench.client.put("/cell", json=order, headers=BOSS)).status == 400
    health = await (await bench.client.get("/health")).json()
    assert (health["policy"], health["cell_id"]) == ("cap", "cell:1")


async def test_an_order_without_a_cell_is_refused_whole(bench: Bench) -> None:
    await bench.begin("cap", 1)
    order = {"policy": "passthrough", "limit": 1}
    assert (await bench.client.put("/cell", json=order, headers=BOSS)).status == 400
    assert (await (await bench.client.get("/health")).json())["policy"] == "cap"


async def test_a_compressed_answer_arrives_readable(bench: Bench) -> None:
    """The gateway decodes it, so the content-encoding header must be removed."""

    async def compressed(_: Any, body: Any) -> web.StreamResponse:
        data = gzip.compress(json.dumps(completion("hi")).encode())
        headers = {"content-encoding": "gzip", "content-type": "application/json"}
        return web.Response(body=data, headers=headers)

    bench.engine.reply = compressed
    answer = await bench.chat("p")
    assert await answer.json() == completion("hi")
    assert (await bench.calls())[0]["prompt_tokens"] == USAGE["prompt_tokens"]


async def test_a_cell_is_sampled_at_its_start_and_its_end(bench: Bench) -> None:
    """Counters of even the shortest cell have a first and a last value."""
    await bench.begin(cell="cell:9")
    bench.engine.metrics = METRICS.replace("128.0", "256.0")
    answer = await bench.client.delete("/cell", headers=BOSS)
    assert answer.status == 200
    assert (await answer.json())["committed"] >= 8
    sql = "select cell_id, engine_id, value from server_metrics "
    sql += "where name = 'vllm:prefix_cache_hits_total' order by value"
    rows = [tuple(row.values()) for row in storage.query(sql, bench.catalog.home)]
    assert rows == [("cell:9", "engine:1", 128.0), ("cell:9", "engine:1", 256.0)]
    assert (await (await bench.client.get("/health")).json())["cell_id"] == ""


async def test_sampling_survives_what_the_engine_says(make_bench: MakeBench) -> None:
    """An invalid or missing page is one sample less and does not end sampling."""
    bench = await make_bench(sample_s=60.0)
    await bench.begin()
    bench.engine.metrics = "vllm:kv_cache_usage_perc full\n"
    await bench.gateway.pools.sample_now()
    bench.engine.metrics = METRICS.replace("128.0", "999.0")
    for _ in range(2):
        await bench.gateway.pools.sample_now()
    sql = "select count(*) as n from server_metrics where value = 999"
    assert (await bench.rows(sql))[0]["n"] == 2


async def test_an_idle_program_loses_its_place(make_bench: MakeBench, quick: None) -> None:
    """A client that died without a release does not block the others."""
    bench = await make_bench(idle_lease_s=0.1)
    await bench.begin("cap", 1)
    await bench.chat("silent")
    assert (await asyncio.wait_for(bench.chat("next"), 60)).status == 200
    columns = "reason_code, reason"
    events = await bench.rows(f"select {columns} from gateway_events where program_id = 'silent'")
    assert events == [{"reason_code": "lease_ended", "reason": "idle lease ended"}]
