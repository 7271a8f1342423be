"""Tests of sessions: kept state, causes of their end, and that none outlives its time limit or our
process."""

import asyncio
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.sandbox.hostile.judge import processes_limited_to, until_none
from tutti.tasks.sandbox import (
    Sandbox,
    SandboxLimits,
    SandboxResult,
    SandboxSession,
    SandboxSessions,
    SandboxUnavailable,
)
from tutti.tasks.sandbox.walls import LEVELS, strongest_level

PATIENT = SandboxLimits(seconds=20.0)
SHORT = SandboxLimits(seconds=0.5)
FOREVER = "import time\nprint('on', flush=True)\ntime.sleep(600)"


@pytest.fixture(params=list(LEVELS))
def level(request: pytest.FixtureRequest) -> str:
    name = str(request.param)
    try:
        Sandbox(name)
    except SandboxUnavailable as unavailable:
        pytest.skip(str(unavailable))
    return name


@pytest.fixture
def walled() -> str:
    name = strongest_level()
    if name == "limits":
        pytest.skip("no walls work on this machine, only the fence")
    return name


async def cells(level: str, *codes: str, limits: SandboxLimits = PATIENT) -> list[SandboxResult]:
    """Return the results of cells run one after another in one session."""
    async with SandboxSession(level, limits) as session:
        return [await session.run(code) for code in codes]


async def test_variables_are_kept_and_the_last_value_is_shown(level: str) -> None:
    results = await cells(
        level, "x = 6", "x * 7", "_ + 1", "def f():\n    return x\nf()", "None", ""
    )
    assert [one.output for one in results] == ["", "42\n", "43\n", "6\n", "", ""]
    assert all(one.status == "ok" and not one.restarted for one in results)
    assert results[0].start_s > 0 and results[1].start_s == 0


async def test_an_exception_comes_back_and_ends_nothing(level: str) -> None:
    first, second, third = await cells(level, "x = 1\nprint('hi')\nx / 0", "def (", "x")
    assert (first.status, first.stdout) == ("error", "hi\n")
    assert first.output.startswith("hi\nTraceback (most recent call last):\n  File")
    assert '"<cell 1>", line 3, in <module>\n    x / 0' in first.stderr
    assert first.exception == "ZeroDivisionError: division by zero"
    assert second.exception == "SyntaxError: invalid syntax" and "ast.py" not in second.output
    assert third.output == "1\n"


async def test_both_streams_belong_to_their_own_cell(level: str) -> None:
    write = "import sys\nprint('out {0}', end=''); print('err {0}', end='', file=sys.stderr)"
    results = await cells(level, *(write.format(n) for n in range(5)))
    assert [one.stdout for one in results] == [f"out {n}" for n in range(5)]
    assert [one.stderr for one in results] == [f"err {n}" for n in range(5)]
    assert results[0].output == "out 0"  # errors of a cell that succeeds are no part of it


async def test_a_timeout_ends_the_session_and_the_next_call_says_so(level: str) -> None:
    limits = SandboxLimits(seconds=0.5, memory_mb=221)
    first, second, third = await cells(
        level, "x = 1\n" + FOREVER, "'x' in globals()", "2", limits=limits
    )
    assert first.status == "timeout" and first.output == "on\n"
    assert 0.5 <= first.seconds - first.start_s < 3
    assert second.restarted.startswith("new session: the last call was stopped after 0.5 s")
    assert second.output == f"[{second.restarted}]\nFalse\n"
    assert (third.output, third.restarted) == ("2\n", "")
    assert not until_none(lambda: processes_limited_to(221))


@pytest.mark.parametrize(
    ("code", "status"),
    [
        ("raise SystemExit(0)", "ok"),
        ("raise SystemExit(3)", "error"),
        ("import os\nos._exit(0)", "ok"),
        ("import os\nos.closerange(0, 64)", "error"),
        ("import ctypes\nctypes.string_at(0)", "killed"),
        ("import os, signal\nos.kill(os.getpid(), signal.SIGKILL)", "killed"),
    ],
)
async def test_a_program_that_ends_itself_is_told_so(walled: str, code: str, status: str) -> None:
    first, second = await cells(walled, code, "1")
    assert first.status == status
    assert second.restarted and second.output.endswith("\n1\n")


async def test_a_forked_child_does_not_go_on_to_the_next_cell(walled: str) -> None:
    fork = "import os\nchild = os.fork()\nif child: os.waitpid(child, 0)\nchild > 0"
    first, second = await cells(walled, fork, "print('once')")
    assert sorted(first.output.split()) == ["False", "True"]
    assert second.output == "once\n"


async def test_forged_ends_harm_only_the_program_itself(walled: str) -> None:
    forge = """
import sys
header = sys._getframe(2).f_locals["header"]
print(header[0].decode(), end="", flush=True)
print(header[0].decode() + "o", end="", file=sys.stderr, flush=True)
print("late")
"""
    async with SandboxSession(walled, PATIENT) as session:
        results = [await session.run(code) for code in (forge, "1", "2")]
        assert all(one.status in ("ok", "error", "killed") for one in results)
    assert (await cells(walled, "3"))[0].output == "3\n"


async def test_a_false_outcome_ends_the_session(walled: str) -> None:
    forge = """
import sys
header = sys._getframe(2).f_locals["header"]
print(header[0].decode(), end="", flush=True)
print(header[0].decode() + "?", end="", file=sys.stderr, flush=True)
"""
    first, second = await cells(walled, forge, "1")
    assert first.status == "killed" and second.restarted


async def test_limits_hold_for_each_cell(walled: str) -> None:
    flood, small, big, after = await cells(
        walled,
        "while True: print('x' * 1000)",
        "print('y' * 10_000)",
        f"len({'z' * 300_000!r})",
        "x = bytearray(2**30)",
    )
    assert flood.status == "killed" and len(flood.output) <= PATIENT.output_chars
    assert small.restarted and len(small.output) <= PATIENT.output_chars
    assert big.output == "300000\n"
    assert after.exception.startswith("MemoryError")


async def test_memory_of_all_together_ends_the_session(walled: str) -> None:
    bomb = """
import os, time
for _ in range(6):
    if os.fork() == 0:
        kept = bytearray(100 * 2**20)
        for at in range(0, len(kept), 4096): kept[at] = 1
        time.sleep(600)
time.sleep(600)
"""
    first, second = await cells(walled, bomb, "1", limits=SandboxLimits(seconds=30, total_mb=300))
    assert first.status == "killed" and "at most 300" in first.output
    assert "at most 300" in second.restarted


async def test_what_a_cell_left_running_is_watched_between_cells(walled: str) -> None:
    bomb = """
import os, time
for _ in range(6):
    if os.fork() == 0:
        time.sleep(0.2)
        kept = bytearray(100 * 2**20)
        for at in range(0, len(kept), 4096): kept[at] = 1
        time.sleep(600)
"""
    async with SandboxSession(walled, SandboxLimits(seconds=30, total_mb=300)) as session:
        assert (await session.run(bomb)).status == "ok"
        await eventually(lambda: not session.alive, 30.0)
        assert "at most 300" in (await session.run("1")).restarted


async def test_the_walls_are_those_of_a_single_run(walled: str, tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text("open sesame")
    read, environment, net, fork = await cells(
        walled,
        f"open({str(secret)!r}).read()",
        "import os\ndict(os.environ)",
        "import socket\nsocket.socket()",
        "for _ in range(100): os.fork()",
    )
    assert read.exception.startswith("FileNotFoundError")
    assert environment.output == "{'LANG': 'C.UTF-8'}\n"
    assert net.exception.startswith("PermissionError")
    assert fork.status != "ok"


async def test_cancelling_a_cell_ends_the_session(walled: str) -> None:
    limits = SandboxLimits(seconds=600, memory_mb=222)
    async with SandboxSession(walled, limits) as session:
        await session.run("x = 1")
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(session.run(FOREVER), 0.2)
        assert not until_none(lambda: processes_limited_to(222)) and not session.alive
        assert "cancelled" in (await session.run("1")).restarted


@pytest.mark.parametrize("milliseconds", [0.01, 1, 5, 20, 40])
async def test_cancelling_a_start_leaves_nothing(
    walled: str, milliseconds: float, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    session = SandboxSession(walled, SandboxLimits(seconds=600, memory_mb=223))
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(session.run(FOREVER), milliseconds / 1000)
    await session.close()
    assert not until_none(lambda: processes_limited_to(223))
    assert list(tmp_path.iterdir()) == []


async def test_cells_asked_for_at_once_wait_for_each_other(walled: str) -> None:
    async with SandboxSession(walled, PATIENT) as session:
        await session.run("seen = []")
        codes = [f"seen.append({n})\nlen(seen)" for n in range(8)]
        results = await asyncio.gather(*map(session.run, codes))
    assert [one.output for one in results] == [f"{n + 1}\n" for n in range(8)]


async def test_closing_leaves_no_process_descriptor_or_folder(
    walled: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    limits = SandboxLimits(seconds=20, memory_mb=224)
    await cells(walled, "1")
    before = len(os.listdir("/proc/self/fd"))
    background = "import os, time\nif os.fork() == 0:\n    os.setsid(); time.sleep(600)"
    await cells(walled, background, "1", limits=limits)
    await asyncio.sleep(0)  # transports close one turn of the loop after the last read
    assert not until_none(lambda: processes_limited_to(224))
    assert len(os.listdir("/proc/self/fd")) == before
    assert list(tmp_path.iterdir()) == []


def test_it_runs_under_uvloop(walled: str) -> None:
    uvloop = pytest.importorskip("uvloop")
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        results = runner.run(cells(walled, "x = 1", "x"))
    assert [one.output for one in results] == ["", "1\n"]


def test_a_session_dies_with_its_parent(walled: str, tmp_path: Path) -> None:
    """SIGKILL of our process ends its sessions, even in the middle of a cell."""
    parent = f"""
import asyncio
from tutti.tasks.sandbox import SandboxLimits, SandboxSession
async def main():
    limits = SandboxLimits(seconds=600, memory_mb=225)
    idle, busy = (SandboxSession({walled!r}, limits) for _ in range(2))
    await idle.run("import os\\nif os.fork() == 0: os.setsid(); import time; time.sleep(600)")
    await busy.run("1")
    print("ready", flush=True)
    await busy.run("import signal\\nsignal.signal(15, signal.SIG_IGN)\\nwhile True: pass")
asyncio.run(main())
"""
    environment = os.environ | {"TMPDIR": str(tmp_path)}  # its empty folders stay behind
    command = [sys.executable, "-c", parent]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment)
    assert process.stdout is not None and process.stdout.readline() == "ready\n"
    assert processes_limited_to(225)
    process.send_signal(signal.SIGKILL)
    process.wait()
    process.stdout.close()
    assert not until_none(lambda: processes_limited_to(225))


async def test_programs_have_sessions_of_their_own(walled: str) -> None:
    async with SandboxSessions(walled, PATIENT, most=3) as sessions:
        for name in "abc":
            await sessions.run(name, f"x = {name!r}")
        assert [(await sessions.run(name, "x")).output for name in "abc"] == [
            f"{name!r}\n" for name in "abc"
        ]
        assert sessions.held == 3
        await sessions.close("a")
        assert sessions.held == 2 and not (await sessions.run("a", "1")).restarted
    assert sessions.held == 0


async def test_room_is_made_by_closing_the_longest_idle(walled: str) -> None:
    async with SandboxSessions(walled, PATIENT, most=2) as sessions:
        for name in ("a", "b", "a", "c"):
            await sessions.run(name, "x = 1")
        assert sessions.held == 2
        assert (await sessions.run("a", "x")).output == "1\n"
        lost = await sessions.run("b", "'x' in globals()")
        assert "made room for others" in lost.restarted and lost.stdout == "False\n"


async def test_there_are_never_more_than_the_bound(walled: str) -> None:
    limits = SandboxLimits(seconds=20, memory_mb=226)
    most_seen = 0
    async with SandboxSessions(walled, limits, most=2) as sessions:

        async def one(name: int) -> str:
            nonlocal most_seen
            found = await sessions.run(str(name), f"import time\ntime.sleep(0.02)\n{name}")
            most_seen = max(most_seen, sessions.held)
            return found.stdout

        names = [n % 5 for n in range(15)]
        assert await asyncio.gather(*map(one, names)) == [f"{n}\n" for n in names]
        assert most_seen == 2 == sessions.held
    assert not until_none(lambda: processes_limited_to(226))


async def test_idle_sessions_are_closed(walled: str) -> None:
    async with SandboxSessions(walled, PATIENT, idle_s=0.1) as sessions:
        await sessions.run("a", "x = 1")
        await eventually(lambda: sessions.held == 0)
        again = await sessions.run("a", "1")
        assert "idle for 0.1 s" in again.restarted and again.stdout == "1\n"


async def test_a_working_session_is_not_idle(walled: str) -> None:
    async with SandboxSessions(walled, PATIENT, idle_s=0.05) as sessions:
        first = await sessions.run("a", "import time\ntime.sleep(0.3)\nx = 1\n'done'")
        assert first.stdout == "'done'\n" and not first.restarted


async def test_a_cell_that_ends_its_session_frees_its_room(walled: str) -> None:
    async with SandboxSessions(walled, SHORT, most=1) as sessions:
        assert (await sessions.run("a", FOREVER)).status == "timeout"
        assert sessions.held == 0
        assert (await sessions.run("b", "1")).output == "1\n"
        assert (await sessions.run("a", "1")).restarted


async def eventually(condition: Callable[[], bool], seconds: float = 60.0) -> None:
    """Wait until the condition holds."""
    async with asyncio.timeout(seconds):
        while not condition():
            await asyncio.sleep(0.01)
