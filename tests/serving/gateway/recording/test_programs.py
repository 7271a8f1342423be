"""Tests that programs identified by base URL become attempts, once each, for any kind of end."""

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, suppress
from typing import Any

import pytest
import sqlalchemy as sa
from aiohttp import web
from aiohttp.test_utils import TestServer

from tests.serving.conftest import PRICES, Bench, MakeBench, running, until
from tests.serving.engine_double import EngineDouble, completion
from tutti import storage
from tutti.storage import catalog as cat
from tutti.storage.write import buffered
from tutti.tasks.serving.gateway.endpoints.endpoint import EndpointConfig
from tutti.tasks.serving.gateway.endpoints.journal import Journal
from tutti.tasks.serving.gateway.recording import recorder as programs_module
from tutti.tasks.serving.gateway.recording.recorder import GatewayRun, program_of
from tutti.tasks.serving.gateway.settings import GatewaySettings

ATTEMPTS = """
select attempt_id, status, stop_reason, error_type, steps, tool_calls, prompt_tokens, answer,
       source, correct, working_s >= 0 as worked, cost_usd > 0 as paid
from attempts order by attempt_id
"""


async def test_a_released_program_is_an_attempt(make_bench: MakeBench) -> None:
    """The program is identified by the path alone; its calls, messages and attempt have one id and
    one cell."""
    bench = await make_bench(name="mine")
    for text in ("a", "b"):
        messages = [{"role": "user", "content": text}]
        await bench.chat(path="/p/agent-1/v1/chat/completions", messages=messages)
    assert await bench.rows(ATTEMPTS) == []
    assert await bench.release("agent-1")
    await asyncio.sleep(0.02)
    (row,) = await bench.rows(ATTEMPTS)
    assert row == {
        "attempt_id": "agent-1", "status": "ok", "stop_reason": "released", "error_type": None,
        "steps": 2, "tool_calls": 0, "prompt_tokens": 240, "answer": "hi", "source": "gateway",
        "correct": None, "worked": True, "paid": True,
    }  # fmt: skip
    (found,) = await bench.rows("select sweep, benchmark, model, policy, n, score from results")
    shown = ("mine", "programs", "m", "passthrough", 0, None)
    assert tuple(found.values()) == shown, "it is not scored yet"
    sql = "select count(distinct (cell_id, sweep_id, attempt_id)) as n from ({})"
    parts = " union all ".join(
        f"select cell_id, sweep_id, attempt_id from {table}"
        for table in ("calls", "messages", "attempts")
    )
    assert await bench.rows(sql.format(parts)) == [{"n": 1}]
    (state,) = bench.catalog.rows(sa.select(cat.attempt_states))
    assert (state["state"], state["status"]) == ("done", "ok")


@pytest.mark.parametrize(
    ("status", "finish", "expected"),
    [
        (200, "stop", ("ok", None)),
        (200, "length", ("limit", None)),
        (400, "", ("model_error", "http_400")),
        (500, "", ("infra_error", "http_500")),
    ],
)
async def test_the_status_is_its_last_calls(
    make_bench: MakeBench, status: int, finish: str, expected: tuple[str, str | None]
) -> None:
    bench = await make_bench(name="mine")
    await bench.chat("p")

    async def reply(_: web.Request, __: Any) -> web.StreamResponse:
        body = completion("cut")
        body["choices"][0]["finish_reason"] = finish
        return web.json_response(body, status=status)

    bench.engine.reply = reply
    await bench.chat("p")
    await bench.release("p")
    await asyncio.sleep(0.02)
    (row,) = await bench.rows(ATTEMPTS)
    assert (row["status"], row["error_type"]) == expected and row["steps"] == 2


async def test_tool_calls_and_the_last_words_are_kept(make_bench: MakeBench) -> None:
    """Both come from the agent's calls; a judge with the same id only adds cost."""
    bench = await make_bench(name="mine")
    tool = {"id": "c1", "type": "function", "function": {"name": "add", "arguments": "{}"}}

    async def reply(_: web.Request, body: dict[str, Any]) -> web.StreamResponse:
        if len(body["messages"]) == 1:
            return web.json_response(completion("", tool_calls=[tool, tool]))
        return web.json_response(completion("42"))

    bench.engine.reply = reply
    await bench.chat("p")
    await bench.chat("p", messages=[{"role": "user", "content": x} for x in "ab"])
    await bench.chat("p", headers={"X-Tutti-Role": "judge"})
    await bench.release("p")
    await asyncio.sleep(0.02)
    (row,) = await bench.rows(ATTEMPTS)
    assert (row["steps"], row["tool_calls"], row["answer"]) == (2, 2, "42")


async def test_who_is_no_program_is_no_attempt(make_bench: MakeBench) -> None:
    """Examples are a call without a name, an attempt of a sweep, a call in a cell, an embedding,
    and a gateway without a name for its programs."""
    bench = await make_bench(name="mine")
    await bench.chat()
    await bench.chat("attempt:1", headers={"X-Tutti-Messages": "kept"})
    await bench.chat("attempt:2", headers={"X-Tutti-Messages": "auxiliary"})
    await bench.chat("embeds", path="/v1/embeddings")
    await bench.begin()
    await bench.chat("celled")
    nameless = await make_bench()
    await nameless.chat("p")
    for each, names in ((bench, "attempt:1 attempt:2 embeds celled".split()), (nameless, ["p"])):
        for name in names:
            await each.release(name)
        await each.gateway.stop(0.0)
    for each in (bench, nameless):
        assert storage.query("select * from attempts", each.catalog.home) == []
        assert each.catalog.rows(sa.select(cat.attempt_states)) == []


async def test_an_attempt_of_that_id_is_not_doubled(make_bench: MakeBench) -> None:
    bench = await make_bench(name="mine")
    row: dict[str, Any] = {
        "attempt_id": "attempt:1",
        "cell_id": "cell:1",
        "sample_id": "s",
        "task_id": "t",
    }
    row |= {"trial": 0, "attempt": 1, "run_id": "r", "state": "done", "status": "ok"}
    with bench.catalog.transaction() as connection:
        connection.execute(sa.insert(cat.attempt_states).values(**row))
    await bench.chat("attempt:1")
    await bench.release("attempt:1")
    await asyncio.sleep(0.02)
    assert await bench.rows("select * from attempts") == []
    (state,) = bench.catalog.rows(sa.select(cat.attempt_states))
    assert state["cell_id"] == "cell:1"


async def test_a_program_that_comes_again_is_another_attempt(make_bench: MakeBench) -> None:
    """Both attempts have the same program id, and each has its own messages from the first on."""
    bench = await make_bench(name="mine")
    for _ in range(3):
        await bench.chat("p")
        await bench.release("p")
        await asyncio.sleep(0.02)
    rows = await bench.rows(ATTEMPTS)
    assert [row["attempt_id"] for row in rows] == ["p", "p#2", "p#3"]
    said = await bench.rows("select attempt_id, max(position) as last from messages group by all")
    assert {row["last"] for row in said} == {1} and len(said) == 3
    assert [program_of(row["attempt_id"]) for row in rows] == [("p", 1), ("p", 2), ("p", 3)]


async def test_idle_and_stopped_programs_are_attempts(make_bench: MakeBench, quick: None) -> None:
    bench = await make_bench(name="mine", idle_lease_s=0.1)
    await bench.chat("silent")
    await until(lambda: not bench.programs, "the lease has ended")
    await bench.chat("late")
    await bench.gateway.stop(0.0)
    rows = storage.query(ATTEMPTS, bench.catalog.home)
    assert [(row["attempt_id"], row["status"], row["stop_reason"]) for row in rows] == [
        ("late", "ok", "gateway_stopped"),
        ("silent", "ok", "idle"),
    ]


async def test_programs_that_the_gateway_forgot_are_counted_by_the_store(
    make_bench: MakeBench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The gateway's memory is bounded; a program that returns later is nevertheless another
    attempt."""
    monkeypatch.setattr(programs_module, "MAX_LIVES", 2)
    bench = await make_bench(name="mine")
    for name in ("p", "p", "q", "r", "p", "s", "p"):
        await bench.chat(name)
        await bench.chat(name)
        await bench.release(name)
        await asyncio.sleep(0.02)
        bench.gateway.recorder.flush()
    assert len(bench.gateway.recording.programs._lives) == 2
    rows = await bench.rows(ATTEMPTS)
    assert [row["attempt_id"] for row in rows] == ["p", "p#2", "p#3", "p#4", "q", "r", "s"]
    assert {row["steps"] for row in rows} == {2}
    per_attempt = "select attempt_id, count(*) as n from calls group by all order by all"
    found = await bench.rows(per_attempt)
    assert [row["attempt_id"] for row in found] == [row["attempt_id"] for row in rows]
    assert bench.gateway.recorder.dropped == 0


async def test_a_catalog_that_is_locked_for_a_moment_costs_no_attempt(
    make_bench: MakeBench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The end of a program is retried and does not block those of other programs for good."""
    bench = await make_bench(name="mine")
    errors = [storage.StoreBusy("locked"), storage.StoreBusy("locked")]
    real = storage.may_end

    def may_end(*given: Any) -> bool:
        if errors:
            raise errors.pop()
        return real(*given)

    monkeypatch.setattr(programs_module, "may_end", may_end)
    for name in ("p", "q"):
        await bench.chat(name)
        await bench.release(name)
    await asyncio.sleep(0.02)
    recorder = bench.gateway.recorder
    while errors:
        with suppress(storage.StoreBusy):
            await asyncio.to_thread(recorder.flush)
    await asyncio.to_thread(recorder.flush)
    assert [row["attempt_id"] for row in await bench.rows(ATTEMPTS)] == ["p", "q"]
    assert recorder.dropped == 0 and recorder.last_error == ""


Start = Callable[..., Awaitable[Bench]]


@pytest.fixture
async def start(catalog: storage.Catalog) -> AsyncIterator[Start]:
    async with AsyncExitStack() as stack:
        engine = EngineDouble()
        engine.server = TestServer(engine.application())
        await stack.enter_async_context(engine.server)
        url = str(engine.server.make_url("")).rstrip("/")

        async def made(**more: Any) -> Bench:
            config = EndpointConfig(url=url, id="engine:1", prices=PRICES)
            settings = GatewaySettings(policy="passthrough", name="mine")
            opened = running(catalog, settings, [config], **more)
            gateway, client = await stack.enter_async_context(opened)
            return Bench(gateway, client, engine, catalog)

        yield made


def kill(bench: Bench) -> None:
    """Leave the state of a kill: committed rows, a lease of a dead process, no end."""
    programs = bench.gateway.recording.programs
    bench.gateway.recording.catch_up()
    bench.gateway.recorder.flush()
    programs.close()
    programs._open.clear()


async def test_what_a_killed_gateway_left_is_recorded_by_the_next(start: Start) -> None:
    """Programs of the killed gateway are void with the usage of the stored calls; a released
    program keeps its attempt."""
    first = await start()
    await first.chat("done")
    await first.release("done")
    for _ in range(2):
        await first.chat("open")
    await asyncio.sleep(0.02)
    kill(first)
    second = await start()
    rows = await second.rows(ATTEMPTS)
    lost = {"status": "cancelled", "stop_reason": "worker_lost", "error_type": "worker_lost"}
    assert [row["attempt_id"] for row in rows] == ["done", "open"]
    assert rows[1] == rows[0] | lost | {"attempt_id": "open", "steps": 2, "prompt_tokens": 240}
    await second.chat("open")
    await second.release("open")
    await asyncio.sleep(0.02)
    assert [r["attempt_id"] for r in await second.rows(ATTEMPTS)] == ["done", "open", "open#2"]


async def test_a_program_of_the_journal_goes_on(start: Start, tmp_path: Any) -> None:
    journal = tmp_path / "programs.jsonl"
    first = await start(journal=journal)
    await first.chat("open")
    await asyncio.sleep(0.02)
    first.gateway.journal.write(first.gateway.journal.take())  # type: ignore[union-attr]
    kill(first)
    second = await start(journal=journal)
    assert await second.rows(ATTEMPTS) == []
    await second.chat("open")
    await second.release("open")
    await asyncio.sleep(0.02)
    (row,) = await second.rows(ATTEMPTS)
    assert (row["attempt_id"], row["steps"], row["stop_reason"]) == ("open", 2, "released")


@pytest.mark.parametrize("step", ["note", "write", "forget", "shorten"])
async def test_a_journal_that_breaks_stops_neither_recording_nor_rounds(
    start: Start, tmp_path: Any, monkeypatch: pytest.MonkeyPatch, quick: None, step: str
) -> None:
    """For any exception, calls and attempts are stored, and leases end."""

    def broken(*_: Any) -> None:
        raise ValueError("odd")

    monkeypatch.setattr(Journal, step, broken)
    bench = await start(journal=tmp_path / "programs.jsonl")
    faults: list[Any] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: faults.append(context))
    for nth in range(20):
        await bench.chat(f"p{nth}")
    trend = len(bench.gateway.trend)
    await until(lambda: len(bench.gateway.trend) > trend + 2, "rounds go on")
    if step != "forget":
        assert await bench.release("p1")
    await bench.gateway.stop(0.0)
    names = sorted(f"p{nth}" for nth in range(20))
    rows = storage.query(ATTEMPTS, bench.catalog.home)
    assert [row["attempt_id"] for row in rows] == names
    calls = storage.query("select attempt_id from calls order by all", bench.catalog.home)
    assert [row["attempt_id"] for row in calls] == names
    assert faults or step == "forget"


async def test_a_name_is_one_gateways(start: Start) -> None:
    await start()
    with pytest.raises(storage.StoreBusy, match="sweep:"):
        await start()


async def test_a_gateway_whose_store_is_full_at_its_end_gives_its_name_back(
    start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The gateway raises, but does not keep its name for the lifetime of its process."""
    first = await start()
    await first.chat("p")

    def no_room(*_: Any, **__: Any) -> None:
        raise storage.StoreFull("no room")

    monkeypatch.setattr(first.gateway.recorder, "_commit_s", 0.01)
    with monkeypatch.context() as patch:
        patch.setattr(buffered, "commit_tables", no_room)
        with pytest.raises(storage.StoreFull):
            await first.gateway.stop()
    assert first.gateway.recorder.dropped > 0
    await start()


async def test_a_row_that_was_committed_before_the_kill_is_not_made_again(start: Start) -> None:
    first = await start()
    await first.chat("p")
    await asyncio.sleep(0.02)
    first.gateway.recorder.flush()
    tally = first.gateway.recording.programs._open["p"]
    row = tally.row("released", "run")
    storage.commit(first.catalog, {"attempts": [row]})
    kill(first)
    second = await start()
    (found,) = await second.rows(ATTEMPTS)
    assert found["status"] == "ok"
    (state,) = second.catalog.rows(sa.select(cat.attempt_states))
    assert (state["state"], state["status"]) == ("done", "ok")
    (sweep,) = second.catalog.rows(sa.select(cat.sweeps))
    assert json.loads(sweep["spec"]) == {"gateway": "mine"}


RUNS = """
select a.attempt_id, r.flow, r.status, r.params, r.ended_at is not null as has_ended
from attempts a left join runs r using (run_id) order by attempt_id
"""


async def test_a_gateways_process_is_the_run_of_its_attempts(make_bench: MakeBench) -> None:
    """Each process is one run, recorded at its start; every attempt has one."""
    bench = await make_bench(name="mine")
    for name in ("a", "b"):
        await bench.chat(name)
        await bench.release(name)
    await asyncio.sleep(0.02)
    rows = await bench.rows(RUNS)
    assert [(row["attempt_id"], row["flow"], row["status"]) for row in rows] == [
        ("a", "gateway", "running"),
        ("b", "gateway", "running"),
    ]
    assert json.loads(rows[0]["params"]) == {"name": "mine", "policy": "passthrough"}
    (run,) = bench.catalog.rows(sa.select(cat.runs))
    assert run["code_version"] and json.loads(run["machine"])["cores"]
    await bench.gateway.stop()
    (run,) = bench.catalog.rows(sa.select(cat.runs))
    assert run["status"] == "completed" and run["ended_at"] >= run["started_at"]


async def test_the_run_of_a_killed_gateway_is_ended_by_the_next_of_its_name(
    make_bench: MakeBench,
) -> None:
    bench = await make_bench()
    for name in ("mine", "other"):
        GatewayRun(bench.catalog, name, "passthrough").enter()
    again = GatewayRun(bench.catalog, "mine", "passthrough")
    again.enter()
    again.end()
    rows = bench.catalog.rows(sa.select(cat.runs).order_by(cat.runs.c.started_at))
    assert [row["status"] for row in rows] == ["failed", "running", "completed"]
    assert "was killed" in rows[0]["error"] and rows[0]["ended_at"] is not None


async def test_a_gateway_without_a_name_is_no_run(make_bench: MakeBench) -> None:
    bench = await make_bench()
    await bench.gateway.stop()
    assert bench.catalog.rows(sa.select(cat.runs)) == []
