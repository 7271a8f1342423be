"""Tests that a run is stopped for the total of its processes, and for nothing less."""

import asyncio
import os
import signal
import subprocess
import sys

import pytest

from tutti.tasks.sandbox import Sandbox, SandboxLimits, SandboxResult
from tutti.tasks.sandbox.walls import strongest_level
from tutti.tasks.sandbox.watch import ProcessWatch

LIMITS = SandboxLimits(seconds=20.0, total_mb=256)


def run(code: str, limits: SandboxLimits = LIMITS) -> SandboxResult:
    level = strongest_level()
    if level == "limits":
        pytest.skip("no walls work on this machine, only the fence")
    return asyncio.run(Sandbox(level, limits).run(code))


def test_memory_that_processes_share_counts_once() -> None:
    """Regression: by resident memory alone, 120 MiB before five forks would count as 720."""
    code = """
import os, time
kept = bytearray(120 * 2**20)
for at in range(0, len(kept), 4096): kept[at] = 1
children = []
for _ in range(5):
    child = os.fork()
    if child == 0:
        time.sleep(0.6)
        os._exit(0)
    children.append(child)
for child in children: os.waitpid(child, 0)
print("done")
"""
    result = run(code)
    assert (result.output, result.status) == ("done\n", "ok")


def test_memory_of_its_own_in_each_process_adds_up() -> None:
    code = """
import os, time
for _ in range(5):
    if os.fork() == 0:
        kept = bytearray(90 * 2**20)
        for at in range(0, len(kept), 4096): kept[at] = 1
        time.sleep(600)
time.sleep(600)
"""
    result = run(code)
    assert result.status == "killed" and result.seconds < LIMITS.seconds
    assert result.output.endswith("MiB in all, at most 256\n")


def test_files_are_counted() -> None:
    code = "import time\nfor n in range({}): open(str(n), 'w').close()\ntime.sleep({})\nprint('ok')"
    limits = SandboxLimits(seconds=20.0, files=300)
    assert run(code.format(200, 0.5), limits).output == "ok\n"
    many = run(code.format(5000, 600), limits)
    assert many.status in ("killed", "error") and "ok" not in many.output.split()


def test_a_look_finds_all_descendants_and_only_those() -> None:
    code = """
import os, time
for _ in range(2): os.fork()
os.write(1, b"%d\\n" % os.getpid())
time.sleep(60)
"""
    command = [sys.executable, "-c", code]
    with subprocess.Popen(command, stdout=subprocess.PIPE, start_new_session=True) as tree:
        try:
            assert tree.stdout is not None
            found = {int(tree.stdout.readline()) for _ in range(4)}
            below = ProcessWatch()._below(tree.pid)
        finally:
            os.killpg(tree.pid, signal.SIGKILL)
    assert {tree.pid, *below} == found and os.getpid() not in below


def test_a_run_that_is_gone_is_no_trouble() -> None:
    assert ProcessWatch().look(2**22 + 1, LIMITS) == ""
