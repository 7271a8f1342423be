"""Fixtures that run the real chain once by a user's command: vLLM, gateway, FAISS, sandbox and
Prefect."""

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tutti.storage import Home, query
from tutti.tasks.platform.project import PROJECT

TUTTI = [sys.executable, "-m", "tutti.cli.main"]
DEMO_TIMEOUT_S = 600.0
GONE_TIMEOUT_S = 120.0
PATIENCE_S = 600.0  # for what must happen: it only ends a hang, and a busy machine may be slow


@dataclass(frozen=True)
class Store:
    """A separate store, and commands run against it."""

    root: Path

    def environment(self, **more: str) -> dict[str, str]:
        """Return the environment of a user who has only set TUTTI_HOME."""
        kept = {k: v for k, v in os.environ.items() if not k.startswith("PREFECT")}
        return kept | {"TUTTI_HOME": str(self.root)} | more

    def run(self, *arguments: str, **more: str) -> "subprocess.CompletedProcess[str]":
        """Run ``tutti ARGUMENTS`` to its end."""
        return subprocess.run(
            [*TUTTI, *arguments],
            cwd=PROJECT,
            env=self.environment(**more),
            capture_output=True,
            text=True,
            timeout=DEMO_TIMEOUT_S,
        )

    def start(self, *arguments: str, output: Path) -> "subprocess.Popen[bytes]":
        """Start ``tutti ARGUMENTS`` and append its output to the file `output`."""
        with output.open("ab") as out:
            return subprocess.Popen(
                [*TUTTI, *arguments], cwd=PROJECT, env=self.environment(), stdout=out, stderr=out
            )

    def sql(self, statement: str) -> list[dict[str, Any]]:
        return query(statement, Home(self.root))

    def processes(self) -> dict[int, str]:
        """Return live processes that tutti started for this store, identified by their
        environment."""
        wanted = f"TUTTI_HOME={self.root}".encode()
        found = {}
        for entry in Path("/proc").iterdir():
            if not entry.name.isdecimal():
                continue
            try:
                environment = (entry / "environ").read_bytes().split(b"\0")
                command = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode()
            except OSError:
                continue
            if wanted in environment and any(e.startswith(b"TUTTI_CHILD=") for e in environment):
                found[int(entry.name)] = command
        return found

    def wait_until_gone(self) -> dict[int, str]:
        """Wait for every child process to end and return those that did not end in time."""
        deadline = time.monotonic() + GONE_TIMEOUT_S
        while (left := self.processes()) and time.monotonic() < deadline:
            time.sleep(0.2)
        return left


@dataclass(frozen=True)
class Demo:
    store: Store
    done: "subprocess.CompletedProcess[str]"


@pytest.fixture(scope="session")
def demo(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Demo]:
    """Yield the small demo, run once for all tests."""
    store = Store(tmp_path_factory.mktemp("demo") / "home")
    done = store.run("demo", "--small")
    assert done.returncode == 0, done.stderr[-3000:]
    yield Demo(store, done)
    assert not store.wait_until_gone()


@pytest.fixture()
def store(tmp_path: Path) -> Iterator[Store]:
    """Yield an empty store; no process that it started may outlive the test."""
    made = Store(tmp_path / "home")
    yield made
    assert not made.wait_until_gone()
