"""Tests that children never outlive their owner, whichever process is killed and how."""

import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
import sqlalchemy as sa

from tests.ports import free_ports
from tutti import storage
from tutti.storage import catalog as cat
from tutti.storage.catalog.leasing import start_ticks
from tutti.tasks.platform.project import PROJECT
from tutti.tasks.serving.errors import PortTaken, ServingError
from tutti.tasks.serving.processes.process import TOKEN, Child, claim_port, reap_stale

# A shell with a grandchild that ignores SIGTERM; both write their pid first.
FAMILY = """
sh -c 'trap "" TERM; echo $$ > "$0.child"; exec sleep 1000' "$0" &
while [ ! -s "$0.child" ]; do sleep 0.01; done
echo $$ > "$0.parent"
wait
"""
OWNER = """
import sys, time
from pathlib import Path
from tutti import storage
from tutti.tasks.serving.processes.process import Child
with storage.open_catalog(storage.Home(Path(sys.argv[1]))) as catalog:
    child = Child("family", ["sh", "-c", sys.argv[2], sys.argv[3]], {}, catalog)
    time.sleep(1000)
"""


def until(condition: Callable[[], bool], what: str, timeout_s: float = 60.0) -> None:
    deadline = time.monotonic() + timeout_s
    while not condition():
        assert time.monotonic() < deadline, f"never happened: {what}"
        time.sleep(0.02)


def alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


class Family:
    """The processes of FAMILY, by their output."""

    def __init__(self, mark: Path) -> None:
        self.command = ["sh", "-c", FAMILY, str(mark)]
        self._files = [Path(f"{mark}.{who}") for who in ("parent", "child")]

    def pids(self) -> list[int]:
        until(lambda: all(f.exists() and f.read_text().strip() for f in self._files), "they run")
        return [int(f.read_text()) for f in self._files]


@pytest.fixture
def family(tmp_path: Path) -> Family:
    return Family(tmp_path / "mark")


def test_stop_ends_the_whole_tree(catalog: storage.Catalog, family: Family) -> None:
    """When stop() returns, no process is left and the catalog lists none."""
    with Child("family", family.command, {}, catalog) as child:
        pids = family.pids()
        assert all(map(alive, pids))
        assert [row["role"] for row in catalog.rows(sa.select(cat.processes))] == ["family"]
    assert not any(map(alive, pids))
    assert child.poll() is not None
    assert catalog.rows(sa.select(cat.processes)) == []
    child.stop()  # a second time does no harm


def test_a_child_that_ends_by_itself_takes_its_tree_along(
    catalog: storage.Catalog, family: Family
) -> None:
    """If the kernel kills it, for example, its grandchildren are ended, too."""
    with Child("family", family.command, {}, catalog) as child:
        parent, grandchild = family.pids()
        os.kill(parent, signal.SIGKILL)
        until(lambda: child.poll() is not None, "the supervisor notices")
        assert not alive(grandchild)


def test_a_killed_owner_takes_the_whole_tree_along(tmp_path: Path, family: Family) -> None:
    """After kill -9 of the starting program its pipe closes, and the supervisor ends the tree."""
    root = tmp_path / "owned"
    command = [sys.executable, "-c", OWNER, str(root), FAMILY, family.command[-1]]
    owner = subprocess.Popen(command, env={**os.environ, "PYTHONPATH": str(PROJECT)})
    try:
        pids = family.pids()
    finally:
        owner.kill()
        owner.wait()
    until(lambda: not any(map(alive, pids)), "child and grandchild end")
    with storage.open_catalog(storage.Home(root)) as catalog:
        (row,) = catalog.rows(sa.select(cat.processes))
        until(lambda: not alive(row["pid"]), "the supervisor ends")
        assert reap_stale(catalog) == [], "nothing was left to end"


@pytest.mark.parametrize("waited_for", [True, False])
def test_what_a_killed_supervisor_left_is_ended_by_the_next_run(
    catalog: storage.Catalog, family: Family, waited_for: bool
) -> None:
    """The child dies with it, and the grandchild is identified by its token. The supervisor may
    stay a zombie forever in a container whose first process does not reap."""
    child = Child("family", family.command, {}, catalog)
    try:
        parent, grandchild = family.pids()
        os.kill(child.pid, signal.SIGKILL)
        until(lambda: not alive(parent), "the kernel ends the child")
        if waited_for:
            until(lambda: child.poll() is not None, "the supervisor is gone")
        assert alive(grandchild)
        assert set(reap_stale(catalog)) == {"family"}
        until(lambda: not alive(grandchild), "the orphan ends")
        assert catalog.rows(sa.select(cat.processes)) == []
        assert reap_stale(catalog) == []
    finally:
        os.kill(grandchild, signal.SIGKILL) if alive(grandchild) else None
        child.stop()


def test_running_children_are_not_reaped(catalog: storage.Catalog, family: Family) -> None:
    with Child("family", family.command, {}, catalog):
        pids = family.pids()
        assert reap_stale(catalog) == []
        assert all(map(alive, pids))
        os.kill(pids[1], signal.SIGKILL)


def test_a_reused_pid_is_not_taken_for_the_supervisor(catalog: storage.Catalog) -> None:
    """Pid and start time together identify a process; no process without the token is killed."""
    ticks = start_ticks(os.getpid())
    assert ticks is not None
    row = {"pid": os.getpid(), "start_ticks": ticks - 1, "role": "old"}
    detail = json.dumps({"token": "no-process-has-this", "log": ""})
    catalog.upsert(cat.processes, row | {"detail": detail, "started_at": cat.now()})
    assert reap_stale(catalog) == []
    assert catalog.rows(sa.select(cat.processes)) == []


def test_a_child_gets_its_environment_and_no_input(catalog: storage.Catalog) -> None:
    script = f'echo "$GREETING ${{{TOKEN}:+token}}"; cat; echo end >&2'
    with Child("echo", ["sh", "-c", script], {"GREETING": "hello"}, catalog) as child:
        until(lambda: child.poll() is not None, "it ends")
        assert child.poll() == 0
        assert child.log_tail() == "hello token\nend"
        assert child.log_tail(1) == "end"
    assert child.log.parent == catalog.home.logs


def test_an_early_exit_is_an_error_with_the_end_of_the_log(catalog: storage.Catalog) -> None:
    """The error has the reason and the path of the whole log."""
    script = "for i in $(seq 40); do echo line $i; done; exit 7"
    with Child("engine", ["sh", "-c", script], {}, catalog) as child:
        with pytest.raises(ServingError) as failure:
            child.wait_ready(lambda: False, 10)
    message = str(failure.value)
    assert "engine exited with code 7" in message
    assert "line 40" in message
    assert "line 1\n" not in message, "the tail is enough"
    assert str(child.log) in message


def test_a_command_that_is_not_there_is_named(catalog: storage.Catalog) -> None:
    with Child("engine", ["/no/such/program"], {}, catalog) as child:
        with pytest.raises(ServingError, match="/no/such/program"):
            child.wait_ready(lambda: False, 10)


def test_a_slow_start_has_an_end(catalog: storage.Catalog) -> None:
    with Child("engine", ["sh", "-c", "echo warming up; sleep 1000"], {}, catalog) as child:
        until(lambda: child.log_tail() != "", "it prints")
        with pytest.raises(ServingError, match=r"not ready after 0 s(.|\n)*warming up"):
            child.wait_ready(lambda: False, 0.1)


def test_a_taken_port_is_an_error_that_says_what_to_do() -> None:
    """A requested port is refused while another process listens there; without a request, any free
    port is used."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", free_ports()))
        listener.listen()
        port = listener.getsockname()[1]
        with pytest.raises(PortTaken, match=f"port {port} is taken.*leave the port out"):
            claim_port(port)
        with pytest.raises(PortTaken, match=r"choose another port \(`--port 0`\)"):
            claim_port(port, "`--port 0`")
        assert claim_port(None) not in (0, port)
    assert claim_port(port) == port
