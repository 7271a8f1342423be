"""Tests of workers: they respond in time, are killed when late, and end with our process, even in C
code."""

import asyncio
import os
import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tutti.tasks.scoring.children.workers import KEPT, WorkerDied, WorkerLate, WorkerPool

CHILD = """
import os, time
from tutti.tasks.scoring.children.workers import serve
def answer(request):
    if "sleep" in request: time.sleep(request["sleep"])
    if "power" in request: (7 ** 10**8) % 3  # C code that holds the interpreter
    if "exit" in request: os._exit(3)
    if "fail" in request: raise ValueError("as asked")
    if "environment" in request: return dict(os.environ)
    print("noise")
    return {"pid": os.getpid(), "echo": request.get("echo")}
serve(answer)
"""


@pytest.fixture
def pool(tmp_path: Path) -> Iterator[WorkerPool]:
    program = tmp_path / "child.py"
    program.write_text(CHILD)
    made = WorkerPool([sys.executable, "-P", str(program)], size=2)
    yield made
    made.close()


def until(condition: Callable[[], bool], seconds: float = 20.0) -> bool:
    deadline = time.monotonic() + seconds
    while not condition() and time.monotonic() < deadline:
        time.sleep(0.02)
    return condition()


def gone(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    # A process that nobody has waited for yet runs no more.
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"


async def test_answers_and_is_used_again(pool: WorkerPool) -> None:
    answers = [await pool.ask({"echo": n}, 10) for n in range(3)]
    assert [answer["echo"] for answer in answers] == [0, 1, 2]
    assert {answer["pid"] for answer in answers} == set(pool.pids())


async def test_a_worker_gets_no_key_of_ours(
    pool: WorkerPool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A worker gets only the variables that a Python needs to start."""
    given = {"LC_NUMERIC": "C", "TMPDIR": "/tmp", "PYTHONHASHSEED": "7"}
    secret = {"OPENAI_API_KEY": "k", "HF_TOKEN": "t", "PGPASSWORD": "p", "TUTTI_KEY": "x"}
    for name, value in (given | secret).items():
        monkeypatch.setenv(name, value)
    found = await pool.ask({"environment": True}, 10)
    assert given.items() <= found.items() and found["PATH"] == os.environ["PATH"]
    assert found.keys() <= {*KEPT, "LC_NUMERIC", "LC_ALL", "LC_CTYPE"}  # Python sets the last


async def test_many_at_once(pool: WorkerPool) -> None:
    answers = await asyncio.gather(*(pool.ask({"echo": n}, 10) for n in range(50)))
    assert [answer["echo"] for answer in answers] == list(range(50))
    assert len(pool.pids()) <= 2


@pytest.mark.parametrize("work", [{"sleep": 600}, {"power": True}])
async def test_a_late_worker_is_killed(pool: WorkerPool, work: dict[str, object]) -> None:
    before = (await pool.ask({}, 10))["pid"]
    with pytest.raises(WorkerLate):
        await pool.ask(work, 0.2)
    assert gone(before) and pool.pids() == []
    assert (await pool.ask({"echo": 1}, 10))["echo"] == 1


async def test_a_worker_that_ends_is_told_and_replaced(pool: WorkerPool) -> None:
    with pytest.raises(WorkerDied, match="3"):
        await pool.ask({"exit": True}, 10)
    assert (await pool.ask({"fail": True}, 10)) == {"error": "ValueError: as asked"}
    os.kill(pool.pids()[0], signal.SIGKILL)  # while it is idle
    assert until(lambda: gone(pool.pids()[0]))
    assert (await pool.ask({"echo": 1}, 10))["echo"] == 1


def test_works_in_one_loop_after_another(pool: WorkerPool) -> None:
    assert [asyncio.run(pool.ask({"echo": n}, 10))["echo"] for n in (1, 2)] == [1, 2]


@pytest.mark.parametrize("work", ["{}", '{"sleep": 600}', '{"power": True}'])
def test_no_worker_outlives_a_killed_parent(tmp_path: Path, work: str) -> None:
    """The worker is idle, asleep or in C code when its parent is killed with SIGKILL."""
    child = tmp_path / "child.py"
    child.write_text(CHILD)
    parent = f"""
        import asyncio, sys
        from tutti.tasks.scoring.children.workers import WorkerPool
        pool = WorkerPool([sys.executable, "-P", {str(child)!r}], size=1)
        async def main():
            await pool.ask({{}}, 10)
            print(pool.pids()[0], flush=True)
            await pool.ask({work}, 1.0)
            await asyncio.sleep(600)
        asyncio.run(main())
    """
    command = [sys.executable, "-c", textwrap.dedent(parent)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        worker = int(process.stdout.readline())
        time.sleep(0.2)
        process.kill()
        process.wait()
    assert until(lambda: gone(worker))
