"""Child processes that are ended by id and never outlive their owner.

Each child runs under `supervise.py`, which ends it when the owner's pipe closes. Each has a token
in its environment that is recorded in the catalog before it starts, so that the next run finds and
ends even the children of a killed supervisor (`reap_stale`).
"""

import contextlib
import json
import os
import re
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
import uuid
from collections.abc import Callable, Mapping, Sequence
from http import HTTPStatus
from pathlib import Path

import sqlalchemy as sa

from tutti.storage import Catalog, start_ticks, this_host
from tutti.storage import catalog as cat
from tutti.tasks.platform.gpus import GpuLease
from tutti.tasks.serving.errors import PortTaken, ServingError
from tutti.tasks.serving.processes.supervise import GRACE_S, SILENCE, descendants

SUPERVISOR = Path(__file__).with_name("supervise.py")
TOKEN = "TUTTI_CHILD"
LOG_TAIL_LINES = 12
ERROR_LINES = 3
ERROR_LINE = re.compile(r"\b[A-Z]\w*(Error|Exception|Interrupt)\b: ")
READY_POLL_S = 0.2
PROBE_TIMEOUT_S = 2.0
LISTENING = "0A"


class Child:
    """One supervised process. Use it as a context manager, or call `stop`."""

    def __init__(
        self,
        role: str,
        command: Sequence[str],
        environment: Mapping[str, str],
        catalog: Catalog,
        gpus: GpuLease | None = None,
    ) -> None:
        """Start `command` with `environment` added to this process's. Raises StoreError. With
        `gpus` it sees these GPUs only, inherits their locks, and is ended when a lease on one of
        them is lost or not renewed."""
        self.role = role
        self._gpus = gpus
        self.catalog = catalog
        logs = catalog.home.logs
        with cat.store_boundary(catalog.home):
            logs.mkdir(parents=True, exist_ok=True)
        token, of_gpus = uuid.uuid4().hex, {} if gpus is None else dict(gpus.environment)
        if gpus is not None and gpus.leases:
            of_gpus[SILENCE] = str(gpus.silence_s)
        self.log = logs / f"{role}-{token[:8]}.log"
        supervisor = [sys.executable, "-I", "-S", str(SUPERVISOR), str(self.log)]
        self._process = subprocess.Popen(
            [*supervisor, *command],
            stdin=subprocess.PIPE,
            env={**os.environ, **environment, **of_gpus, TOKEN: token},
            start_new_session=True,  # Ctrl-C in the terminal is handled by the owner
            pass_fds=gpus.locks if gpus else (),
        )
        self.pid = self._process.pid
        ticks = start_ticks(self.pid) or 0
        self._key = {"pid": self.pid, "start_ticks": ticks}
        row = {**self._key, "role": role, "started_at": cat.now(), "host": this_host()}
        row["detail"] = json.dumps({"token": token, "log": str(self.log)})
        try:
            catalog.upsert(cat.processes, row)
        except BaseException:
            self._end()
            raise
        if gpus is not None:
            gpus.watch(renewed=self._beat, lost=self._end)

    @property
    def key(self) -> dict[str, int]:
        """The key of its row in `processes`."""
        return dict(self._key)

    def poll(self) -> int | None:
        """The exit code, or None while it runs. Raises GpuLost if it was ended for that."""
        code = self._process.poll()
        if code and self._gpus is not None:
            self._gpus.check()
        return code

    def last_words(self) -> str:
        """Return why it failed, from its log: the first lines that name an error, the last lines,
        and the log's path."""
        whole = self.log_text().splitlines()
        errors = [line for line in whole[:-LOG_TAIL_LINES] if ERROR_LINE.search(line)]
        told = [*list(dict.fromkeys(errors))[:ERROR_LINES], self.log_tail()]
        return "its log says:\n" + "\n".join(told) + f"\n(whole log: {self.log})"

    def log_tail(self, lines: int = LOG_TAIL_LINES) -> str:
        return "\n".join(self.log_text().splitlines()[-lines:])

    def log_text(self) -> str:
        return self.log.read_text(errors="replace") if self.log.is_file() else ""

    def check(self) -> None:
        """Return if it is running. Raises ServingError with the end of the log if it has ended."""
        code = self.poll()
        if code is not None:
            raise ServingError(f"{self.role} exited with code {code}; {self.last_words()}")

    def wait_ready(self, probe: Callable[[], bool], timeout_s: float) -> None:
        """Block until `probe` is true. Raises ServingError with the end of the log if it exits
        first or takes longer than `timeout_s`."""
        deadline = time.monotonic() + timeout_s
        while not probe():
            self.check()
            if time.monotonic() > deadline:
                raise ServingError(
                    f"{self.role} was not ready after {timeout_s:.0f} s; {self.last_words()}"
                )
            time.sleep(READY_POLL_S)

    def stop(self) -> None:
        """Stop the process and all its descendants; returns when they have ended."""
        self._end()
        table = cat.processes
        with self.catalog.transaction() as connection:
            connection.execute(
                sa.delete(table).where(
                    table.c.pid == self._key["pid"], table.c.start_ticks == self._key["start_ticks"]
                )
            )

    def _beat(self) -> None:
        assert self._process.stdin is not None, "it is a pipe"
        with contextlib.suppress(BrokenPipeError, ValueError):  # it has ended, or is being ended
            self._process.stdin.write(b".")
            self._process.stdin.flush()

    def _end(self) -> None:
        end_supervised(self._process)

    def __enter__(self) -> "Child":
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()


def end_supervised(process: "subprocess.Popen[bytes]") -> None:
    """Close a supervisor's pipe, so that it ends its child and itself, and wait for it."""
    if process.stdin is not None:
        with contextlib.suppress(BrokenPipeError):
            process.stdin.close()
    try:
        process.wait(timeout=GRACE_S + 5)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def reap_stale(catalog: Catalog) -> list[str]:
    """End children of earlier runs whose supervisor is gone. Returns their roles."""
    ended = []
    here = cat.processes.c.host.is_(None) | (cat.processes.c.host == this_host())
    for row in catalog.rows(sa.select(cat.processes).where(here)):
        if start_ticks(row["pid"]) == row["start_ticks"]:
            continue  # its supervisor is alive, so its owner is too
        token = json.loads(row["detail"])["token"]
        ended += [row["role"]] * end_marked(token)
        table = cat.processes
        with catalog.transaction() as connection:
            key = (table.c.pid == row["pid"]) & (table.c.start_ticks == row["start_ticks"])
            connection.execute(sa.delete(table).where(key))
    return ended


def end_marked(token: str) -> int:
    """Kill the processes that were started with `TOKEN` = `token` in their environment, including
    those that left their session; return their number. A process without it is not detected."""
    wanted, ended = f"{TOKEN}={token}".encode(), set[int]()
    while found := {pid for pid in _pids() - ended if wanted in _environment(pid)}:
        for pid in found:  # one may have started another meanwhile
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        ended |= found
    return len(ended)


def _pids() -> set[int]:
    return {int(entry) for entry in os.listdir("/proc") if entry.isdecimal()}


def _environment(pid: int) -> list[bytes]:
    try:
        return Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
    except OSError:
        return []


def answers(url: str) -> bool:
    """Whether a GET of `url` returns 200 within two seconds."""
    return status_of(url) == HTTPStatus.OK


def status_of(url: str) -> int | None:
    """The status that a GET of `url` returns within two seconds; None without an answer."""
    try:
        with urllib.request.urlopen(url, timeout=PROBE_TIMEOUT_S) as response:
            return int(response.status)
    except urllib.error.HTTPError as error:
        return error.code
    except (urllib.error.URLError, OSError):
        return None


def stranger_at(port: int, root: int) -> int | None:
    """Return the pid of a process that listens at a port of this machine and is neither `root` nor
    below it; None if there is none, or it belongs to another user and cannot be inspected.

    A port is free when it is claimed, but another process may take it before a server binds it.
    Servers share a port without an error if both set SO_REUSEPORT, as vLLM does.
    """
    inodes = _listeners(port)
    ours = {root, *descendants(root)}
    return next((pid for pid in _pids() - ours if inodes & _sockets(pid)), None)


def _listeners(port: int) -> set[str]:
    lines: list[str] = []
    for table in ("/proc/net/tcp", "/proc/net/tcp6"):
        with contextlib.suppress(OSError):
            lines += Path(table).read_text().splitlines()[1:]
    rows = [line.split() for line in lines]
    at_port = [row for row in rows if int(row[1].rpartition(":")[2], 16) == port]
    return {f"socket:[{row[9]}]" for row in at_port if row[3] == LISTENING}


def _sockets(pid: int) -> set[str]:
    found = set()
    with contextlib.suppress(OSError):
        for entry in os.scandir(f"/proc/{pid}/fd"):
            with contextlib.suppress(OSError):
                found.add(os.readlink(entry.path))
    return found


def claim_port(asked: int | None, otherwise: str = "leave the port out to get a free one") -> int:
    """Return a free loopback port: the requested one, or any. Raises PortTaken, with the remedy
    `otherwise`."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", asked or 0))
        except OSError as error:
            raise PortTaken(
                f"port {asked} is taken by another process; stop it, or choose another port "
                f"({otherwise})"
            ) from error
        return int(probe.getsockname()[1])
