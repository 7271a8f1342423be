"""Tests that processes that are launched together end together, with the code of the first that
failed."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tutti.tasks.training import launch_many

MODULE = """
import os, sys, time
rank, size, meeting = os.environ["TUTTI_WORLD"].split(" ", 2)
assert not os.path.exists(meeting) and os.path.isdir(os.path.dirname(meeting))
sys.stdout.write(f"{os.getpid()} {rank} {size} {sys.argv[1:]}\\n")
sys.stdout.flush()
if rank == sys.argv[1]:
    sys.exit(int(sys.argv[2]))
time.sleep(60 if sys.argv[3] == "stay" else 0.3)
"""


def start(folder: Path, *arguments: str) -> "subprocess.Popen[str]":
    (folder / "sleeper.py").write_text(MODULE)
    command = [sys.executable, "-P", launch_many.__file__, "3", "sleeper", *arguments]
    environment = {**os.environ, "PYTHONPATH": str(folder), "TMPDIR": str(folder)}
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment)


def test_each_knows_its_place_and_the_first_failure_decides(tmp_path: Path) -> None:
    """Code 5 requests that the job is run again, so it must be passed on."""
    for code in (0, 5):
        with start(tmp_path, "1", str(code), "go") as child:
            assert child.stdout is not None
            told = sorted(line.split(" ", 1)[1] for line in child.stdout)
        assert child.returncode == code
        assert told == [f"{rank} 3 ['1', '{code}', 'go']\n" for rank in range(3)]
    assert not [*tmp_path.glob("tutti-world-*")]


def test_what_aborts_the_end_of_python_does_not_undo_what_was_done(tmp_path: Path) -> None:
    """gloo's threads may abort; after the module has finished, no part of it runs again."""
    (tmp_path / "done.py").write_text(
        "import atexit, os\natexit.register(os.abort)\nprint('done')\n"
    )
    command = [sys.executable, "-P", launch_many.__file__, "2", "done"]
    environment = {**os.environ, "PYTHONPATH": str(tmp_path)}
    ran = subprocess.run(command, capture_output=True, text=True, env=environment)
    assert (ran.returncode, ran.stdout.count("done")) == (0, 2), ran.stderr


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGTERM])
def test_none_outlives_the_launcher(tmp_path: Path, how: signal.Signals) -> None:
    with start(tmp_path, "none", "0", "stay") as child:
        assert child.stdout is not None
        pids = [int(child.stdout.readline().split()[0]) for _ in range(3)]
        child.send_signal(how)
        assert child.wait(60) == (-9 if how is signal.SIGKILL else 143)
        deadline = time.monotonic() + 60
        while any(_runs(pid) for pid in pids):
            assert time.monotonic() < deadline
            time.sleep(0.02)


def test_those_that_stay_are_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    """The other processes are ended after the time in which they may report their own failure."""
    monkeypatch.setattr(launch_many, "END_S", 0.3)
    words = [sys.executable, "-c", "import sys, time; time.sleep(600 * int(sys.argv[1])); exit(9)"]
    children = [subprocess.Popen([*words, stays]) for stays in "101"]
    assert launch_many.wait(children) == 9
    launch_many.end(children)
    assert [child.returncode for child in children] == [-9, 9, -9]


def _runs(pid: int) -> bool:
    stat = Path(f"/proc/{pid}/stat")
    return stat.exists() and stat.read_text().rpartition(")")[2].split()[0] != "Z"
