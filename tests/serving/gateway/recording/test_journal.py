"""Tests that programs survive a restart of their gateway, and of the losses of a kill.

Reference bug 20: the state is in memory only, and a restart loses all programs.
"""

import asyncio
import json
import os
import signal
import sys
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from tests.serving.conftest import HANG_S, released, until
from tests.serving.gateway.conftest import MakeRaw
from tests.serving.gateway.raw_engine import COMPLETION, ReceivedRequest, Wire, raw_engine, whole
from tutti import storage
from tutti.tasks.platform.project import PROJECT
from tutti.tasks.serving.gateway import journal_path
from tutti.tasks.serving.gateway.endpoints import journal as journals
from tutti.tasks.serving.gateway.endpoints.journal import (
    Journal,
    LivingPrograms,
    ProgramState,
    read_journal,
    restore,
)
from tutti.tasks.serving.processes.process import claim_port
from tutti.tasks.serving.scheduling import EngineState, Ledger, Program


def program(name: str, context: int = 150, calls: int = 1, key: str = "") -> Program:
    return Program(name, 0.0, EngineState("e"), context, calls, key=key)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "gateway" / "programs.jsonl"


def test_what_was_noted_is_read_again(path: Path) -> None:
    journal = Journal(path)
    journal.note("", program("a", 100))
    journal.note("", program("b", key="mine"))
    journal.note("other", program("a", 7))
    journal.write(journal.take())
    journal.note("", program("a", 200, 2))
    journal.forget("other", "a")
    journal.close()
    assert read_journal(path) == {
        ("", "a"): ProgramState("e", 200, 2),
        ("", "b"): ProgramState("e", 150, 1, "mine"),
    }
    assert path.stat().st_mode & 0o077 == 0, "who runs what is nobody else's business"


@pytest.mark.parametrize("torn", [b'["", "b", "e", 1', b'["", "b"', b"\x00\x00", b"[1]\n", b"3\n"])
def test_a_torn_line_costs_itself_only(path: Path, torn: bytes) -> None:
    """The causes are a kill during a write and a full disk; the next gateway continues the file
    after the line."""
    for name in ("a", "c"):
        journal = Journal(path)
        journal.note("", program(name))
        journal.close()
        with path.open("ab") as file:
            file.write(torn)
    assert sorted(name for _, name in read_journal(path)) == ["a", "c"]


async def test_what_is_shortened_keeps_the_living(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The journal is compacted when it has grown far beyond the running programs; later lines are
    appended."""
    monkeypatch.setattr(journals, "REWRITE_LINES", 100)
    ledger = Ledger()
    ledger.programs = {name: program(name) for name in "abc"}
    journal = Journal(path)
    for name in "abc" * 33:
        journal.note("", program(name))
    journal.write(journal.take())
    await journal.shorten({"": ledger})
    assert len(path.read_bytes().splitlines()) == 99, "not yet"
    journal.note("", program("over"))
    journal.write(journal.take())
    journal.note("", program("a"))  # comes while the file is written
    await journal.shorten({"": ledger})
    journal.note("", program("d"))
    journal.close()
    assert sorted(name for _, name in read_journal(path)) == ["a", "b", "c", "d"]
    assert len(path.read_bytes().splitlines()) == 5
    assert path.stat().st_mode & 0o077 == 0


async def test_a_journal_that_grew_before_is_shortened_too(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Lines of earlier gateways count; a closed journal is not changed."""
    monkeypatch.setattr(journals, "REWRITE_LINES", 100)
    for _ in range(2):
        journal = Journal(path)
        for _ in range(60):
            journal.note("", program("over"))
        journal.write(journal.take())
        await journal.shorten({"": Ledger()})
        journal.close()
    assert path.read_bytes() == b""
    journal._written = 100  # its thread was late
    await journal.shorten({"": Ledger()})


@pytest.mark.usefixtures("uncollected")
async def test_tens_of_thousands_of_programs_do_not_hold_the_loop(path: Path) -> None:
    """Regression: the event loop wrote a line for each of them, which took a third of a second."""
    ledger = Ledger()
    ledger.programs = {str(number): program(str(number)) for number in range(20_000)}
    journal = Journal(path)
    for each in [*ledger.programs.values()] * 5:
        journal.note("", each)
    journal.write(journal.take())
    began = time.thread_time()
    await journal.shorten({"": ledger})
    assert time.thread_time() - began < 0.05
    assert len(path.read_bytes().splitlines()) == 20_000
    journal.close()


def test_a_disk_that_is_full_fails_no_call(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    journal = Journal(path)

    def full(*_: Any) -> int:
        raise OSError(28, "No space left on device")

    journal.note("", program("a"))
    with monkeypatch.context() as patch:
        patch.setattr(os, "write", full)
        journal.write(journal.take())
    assert journal.failures == 1
    journal.close()


def test_a_line_that_a_full_disk_cut_off_costs_itself_only(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    journal, write = Journal(path), os.write
    monkeypatch.setattr(os, "write", lambda file, data: write(file, data[:20]))
    journal.note("m", Program("lost", 0.0))
    journal.write(journal.take())
    monkeypatch.setattr(os, "write", write)
    assert journal.failures == 1
    journal.note("m", Program("kept", 0.0))
    journal.close()
    assert set(read_journal(path)) == {("m", "kept")}


def test_a_program_is_restored_once() -> None:
    """A program is restored with its engine; one that was released since is not restored with the
    next engine."""
    living: LivingPrograms = {
        ("", "a"): ProgramState("e", 150, 3, "mine"),
        ("", "b"): ProgramState("gone", 1, 1),
    }
    engine, ledger = EngineState("e"), Ledger()
    restore(living, "", ledger, {"e": engine}, 5.0)
    found = ledger.programs["a"]
    assert (found.engine, found.context_tokens, found.calls_done) == (engine, 150, 3)
    assert (found.key, found.idle_since) == ("mine", 5.0)
    assert ledger.programs["b"].engine is None
    ledger.programs.clear()
    restore(living, "", ledger, {"e": engine}, 6.0)
    assert ledger.programs == {}


async def test_programs_of_two_engines_find_theirs_again(make_raw: MakeRaw, path: Path) -> None:
    """A program returns to the engine with its prefix; nothing is booked for a program that does
    not return."""
    journal = Journal(path)
    for number in (1, 2):
        known = program(f"p{number}")
        known.engine = EngineState(f"engine:{number}")
        journal.note("", known)
    journal.close()
    async with raw_engine() as one, raw_engine() as other:
        bench = await make_raw(one, other, journal=path, policy="adaptive", idle_lease_s=0.2)
        found = {name: each.engine.engine_id for name, each in bench.programs.items()}
        assert found == {"p1": "engine:1", "p2": "engine:2"}
        assert (await bench.chat("p2")).status == 200
        assert len(other.asked) == 1
        await until(lambda: not bench.programs, "their leases have ended")
        await released(bench.gateway)
        await until(lambda: read_journal(path) == {}, "they are off the record too")


@asynccontextmanager
async def gateway_process(home: Path, engine: str, port: int) -> AsyncIterator[Any]:
    command = [
        sys.executable,
        "-m",
        "tutti.tasks.serving.gateway",
        "--engine",
        f"engine:1={engine}",
    ]
    command += ["--policy", "cap", "--limit", "1", "--port", str(port)]
    process = await asyncio.create_subprocess_exec(
        *command,
        env={**os.environ, "TUTTI_HOME": str(home), "PYTHONPATH": str(PROJECT)},
        stdout=asyncio.subprocess.PIPE,
        cwd=PROJECT,
    )
    assert process.stdout is not None
    try:
        line = await asyncio.wait_for(process.stdout.readline(), 60)
        assert line == f"gateway on http://127.0.0.1:{port}\n".encode()
        yield process
    finally:
        if process.returncode is None:
            process.send_signal(signal.SIGTERM)
        await asyncio.wait_for(process.wait(), 60)
        await process.communicate()


def test_lines_taken_before_the_close_come_before_its_own_and_once(tmp_path: Path) -> None:
    """The writing thread may be late: an older line would then undo a release at the next start, or
    the file could belong to another gateway by then."""
    journal = Journal(tmp_path / "programs.jsonl")
    journal.note("", Program("first", 0.0))
    taken = journal.take()
    journal.forget("", "first")
    journal.close()
    journal.write(taken)  # the late thread
    lines = [json.loads(line) for line in (tmp_path / "programs.jsonl").read_text().splitlines()]
    assert [line[:2] for line in lines] == [["", "first"]] * 2 and len(lines[1]) == 2
    assert read_journal(tmp_path / "programs.jsonl") == {} and journal.failures == 0


async def health(client: aiohttp.ClientSession) -> Any:
    return await (await client.get("/health")).json()


async def eventually(client: aiohttp.ClientSession, **expected: Any) -> None:
    found: Any = {}
    try:
        async with asyncio.timeout(HANG_S):
            while {name: found.get(name) for name in expected} != expected:
                await asyncio.sleep(0.01)
                found = await health(client)
    except TimeoutError:
        raise AssertionError(f"never {expected}, but {found}") from None


@pytest.mark.slow
async def test_a_gateway_that_is_killed_knows_its_programs_again(tmp_path: Path) -> None:
    """kill -9 with one call held and one running: their clients get a broken connection and may
    retry, the programs and their held tokens are known, and nothing stays booked forever."""
    port, gate = claim_port(None), asyncio.Event()

    async def reply(asked: ReceivedRequest, wire: Wire) -> None:
        if asked.json().get("slow") and not gate.is_set():
            await wire.gone()
            wire.close()
        else:
            await wire.write(whole(COMPLETION))

    async with raw_engine(reply=reply) as engine:
        async with aiohttp.ClientSession(f"http://127.0.0.1:{port}") as client:

            async def chat(name: str, **fields: Any) -> int:
                path = f"/p/{name}/v1/chat/completions"
                answer = await client.post(path, json={"model": "m"} | fields)
                return answer.status

            async with gateway_process(tmp_path, engine.url, port) as process:
                await eventually(client, engines_accepting=1)
                assert await chat("first") == 200
                running = asyncio.create_task(chat("first", slow=True))
                waiting = asyncio.create_task(chat("second"))
                await eventually(client, held=1, running=1)
                written = journal_path(storage.Home(tmp_path), port)
                await until(lambda: b"first" in written.read_bytes(), "its call is in the journal")
                process.kill()
                found = await asyncio.gather(running, waiting, return_exceptions=True)
            assert all(isinstance(each, aiohttp.ClientConnectionError) for each in found), found
            gate.set()
            async with gateway_process(tmp_path, engine.url, port):
                await eventually(client, engines_accepting=1)
                programs = await (await client.get("/programs")).json()
                assert list(programs) == ["first"]
                assert programs["first"]["total_tokens"] == 150
                assert programs["first"]["step_count"] == 1
                again = await asyncio.wait_for(chat("second"), 60)
                assert again == 200, "who was there before takes no place before its next call"
                await client.post("/programs/release", json={"program_id": "second"})
                assert await asyncio.wait_for(chat("first", slow=True), 60) == 200
                await client.post("/programs/release", json={"program_id": "first"})
                await eventually(client, programs=0, held=0, running=0)
                (listed,) = await (await client.get("/engines")).json()
                assert listed["booked_tokens"] == 0
            lines = (tmp_path / "gateway" / f"programs-{port}.jsonl").read_text().splitlines()
    assert json.loads(lines[-1]) == ["", "first"]
