"""Servers of the gateway's bench: supervised, pinned to cores, gone when the bench is.

In: a command. Out: a server that is ready, and the process whose descendants are to be measured
(bench/gateway/cost.py).
"""

import os
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType

from bench.gateway.cost import pinned
from tutti.tasks.serving.processes.process import SUPERVISOR, answers, claim_port, end_supervised

READY_TIMEOUT_S = 60.0
READY_POLL_S = 0.05


class CannotStart(RuntimeError):
    """A server ended before it was ready, or took too long; its log's tail says why."""


class Server:
    """A supervised process that listens; a context manager."""

    def __init__(
        self,
        command: Sequence[str],
        log: Path,
        where: Sequence[int],
        environment: Mapping[str, str] | None = None,
    ) -> None:
        self.log = log
        log.unlink(missing_ok=True)
        self._process = subprocess.Popen(
            [sys.executable, "-I", "-S", str(SUPERVISOR), str(log), *pinned(command, where)],
            stdin=subprocess.PIPE,  # its supervisor ends it when this closes, however that comes
            env={**os.environ, **(environment or {})},
            start_new_session=True,
        )
        self.owner = self._process.pid
        """The supervisor: all processes below it are measured."""

    def wait_ready(self, url: str) -> None:
        """Return when `url` answers 200. Raises CannotStart."""
        deadline = time.monotonic() + READY_TIMEOUT_S
        while not answers(url):
            code = self._process.poll()
            if code is not None or time.monotonic() > deadline:
                tail = self.log.read_text(errors="replace")[-600:] if self.log.is_file() else ""
                state = "was not ready in time" if code is None else f"exited with code {code}"
                raise CannotStart(f"{state}: {tail}")
            time.sleep(READY_POLL_S)

    def stop(self) -> None:
        """End it and all its descendants."""
        end_supervised(self._process)

    def __enter__(self) -> "Server":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.stop()


def free_port() -> int:
    """A free loopback port."""
    return claim_port(None)
