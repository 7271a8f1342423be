"""Worker processes for computations that may not terminate, with a time limit per request.

A worker reads a JSON object per line and writes one back. A late worker is killed, and the next
request gets a new one. Workers do not outlive the parent: when it ends, their input closes, which
ends an idle worker, and `serve` sets the kernel's alarm, which ends a busy one. Requests can be
made from any event loop or thread. Workers get only the variables `KEPT` of our environment: they
parse texts of models, so they get no API keys.
"""

import atexit
import json
import os
import select
import signal
import subprocess
import sys
import threading
import time
from asyncio import wrap_future
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import cache
from typing import Any

START_S = 60.0  # import time of a worker on a busy machine; not counted in a request's time
ALARM_S = 1.0  # added to a request's time, for the case that no parent is left to kill the worker
KEPT = ("PATH", "HOME", "LANG", "PYTHONPATH", "PYTHONHASHSEED", "VIRTUAL_ENV", "TMPDIR")
"""The environment variables of a worker, besides ``LC_*``."""
_READ_BYTES = 2**16
_READY: dict[str, Any] = {"ready": True}


class WorkerLate(RuntimeError):
    """No answer within the time limit; the worker was killed."""


class WorkerDied(RuntimeError):
    """The worker ended before it answered."""


class WorkerPool:
    """Up to `size` workers of one command."""

    def __init__(self, command: Sequence[str], size: int) -> None:
        self._command = list(command)
        self._threads = ThreadPoolExecutor(size, "worker")
        self._lock = threading.Lock()
        self._idle: list[_Worker] = []
        self._all: set[_Worker] = set()
        atexit.register(self.close)

    async def ask(self, request: Mapping[str, Any], timeout_s: float) -> dict[str, Any]:
        """Send a request; the time starts at a free worker. Raises WorkerLate and WorkerDied."""
        return await wrap_future(self._threads.submit(self._ask, dict(request), timeout_s))

    def close(self) -> None:
        """Kill all workers, including busy ones; a later request starts new ones."""
        with self._lock:
            workers, self._all, self._idle = self._all, set(), []
        for worker in workers:
            worker.kill()

    def pids(self) -> list[int]:
        with self._lock:
            return [worker.process.pid for worker in self._all]

    def _ask(self, request: dict[str, Any], timeout_s: float) -> dict[str, Any]:
        worker = self._take()
        try:
            answer = worker.ask(request | {"timeout_s": timeout_s}, timeout_s)
        except BaseException:
            worker.kill()
            with self._lock:
                self._all.discard(worker)
            raise
        with self._lock:
            if worker in self._all:
                self._idle.append(worker)
        return answer

    def _take(self) -> "_Worker":
        with self._lock:
            while self._idle:
                worker = self._idle.pop()
                if worker.process.poll() is None:
                    return worker
                self._all.discard(worker)
                worker.kill()  # closes its pipes
            worker = _Worker(self._command)
            self._all.add(worker)
        return worker


def pool_of(command: tuple[str, ...], size: int) -> WorkerPool:
    """Return this process's pool for a command, with at most `size` workers."""
    return _pool_of(os.getpid(), command, min(size, os.cpu_count() or 1))


def child_pool(module: str, size: int) -> WorkerPool:
    """Return the pool of a module of this folder, as `pool_of`."""
    return pool_of((sys.executable, "-P", "-m", f"{__package__}.{module}"), size)


@cache
def _pool_of(_process: int, command: tuple[str, ...], size: int) -> WorkerPool:
    return WorkerPool(command, size)


class _Worker:
    def __init__(self, command: list[str]) -> None:
        self.process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env={k: v for k, v in os.environ.items() if k in KEPT or k.startswith("LC_")},
        )
        self._unread = b""
        self._started = False

    def ask(self, request: dict[str, Any], timeout_s: float) -> dict[str, Any]:
        if not self._started:
            greeting = self._read_line(START_S)
            assert greeting == _READY, f"a worker began with {greeting}"
            self._started = True
        assert self.process.stdin is not None, "it was piped"
        try:
            self.process.stdin.write(json.dumps(request).encode() + b"\n")
            self.process.stdin.flush()
        except BrokenPipeError as error:
            raise WorkerDied(f"worker ended with {self.process.poll()}") from error
        return self._read_line(timeout_s)

    def _read_line(self, timeout_s: float) -> dict[str, Any]:
        assert self.process.stdout is not None, "it was piped"
        descriptor = self.process.stdout.fileno()
        poller = select.poll()
        poller.register(descriptor, select.POLLIN)
        deadline = time.monotonic() + timeout_s
        while b"\n" not in self._unread:
            left_s = deadline - time.monotonic()
            if left_s <= 0 or not poller.poll(1000 * left_s):
                raise WorkerLate(f"no answer within {timeout_s} s")
            chunk = os.read(descriptor, _READ_BYTES)
            if not chunk:
                raise WorkerDied(f"worker ended with {self.process.wait()}")
            self._unread += chunk
        line, _, self._unread = self._unread.partition(b"\n")
        answer: dict[str, Any] = json.loads(line)
        return answer

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()
        for pipe in (self.process.stdin, self.process.stdout):
            if pipe is not None:
                with suppress(BrokenPipeError):  # bytes that it did not read
                    pipe.close()


def serve(answer: Callable[[dict[str, Any]], dict[str, Any]]) -> None:
    """Answer requests on standard input until it closes; an exception becomes ``{"error":
    text}``."""
    replies = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    _reply(replies, _READY)
    for line in sys.stdin:
        request = json.loads(line)
        # By default the alarm kills, even in C code that no signal handler could interrupt.
        signal.signal(signal.SIGALRM, signal.SIG_DFL)
        signal.setitimer(signal.ITIMER_REAL, request["timeout_s"] + ALARM_S)
        try:
            reply = answer(request)
        except Exception as error:
            reply = {"error": f"{type(error).__name__}: {error}"}
        signal.setitimer(signal.ITIMER_REAL, 0)
        _reply(replies, reply)


def _reply(replies: Any, reply: Mapping[str, Any]) -> None:
    replies.write(json.dumps(reply) + "\n")
    replies.flush()
