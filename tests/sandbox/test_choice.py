"""Tests that programs written by models run behind walls or not at all, unless the operator allows
it.

This was an attack: where no walls worked they ran at level limits without a message, which is no
limit under root. One read /etc/shadow and the keys in its parent's environment.
"""

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import nullcontext
from pathlib import Path

import pytest

from tests.conftest import NewCatalog
from tests.synthesis.example import EXAMPLE
from tutti.storage import Home
from tutti.tasks.sandbox import (
    NO_WALLS,
    NoSandbox,
    SandboxUnavailable,
    choice,
    level_for_models,
    unsafe_sandbox,
)
from tutti.tasks.sandbox.choice import AS_ROOT, _hide_environment
from tutti.tasks.synthesis import StdlibSource
from tutti.tasks.synthesis.domains import Toolkit
from tutti.tasks.synthesis.generate import TaskRequest
from tutti.tasks.task_sets import make_set


@pytest.fixture
def no_walls(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Simulate a machine on which neither bubblewrap nor namespaces work, and a user who is not
    root."""
    monkeypatch.delenv("TUTTI_SANDBOX", raising=False)
    monkeypatch.setattr(choice, "strongest_level", lambda: "limits")
    monkeypatch.setattr(choice, "checked_identity", lambda level: "same")
    monkeypatch.setattr(choice, "_hide_environment", lambda: None)
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    yield


@pytest.mark.usefixtures("no_walls")
def test_without_walls_it_is_an_error_that_says_what_to_do() -> None:
    """The level is not lowered silently."""
    with pytest.raises(SandboxUnavailable, match="--unsafe-sandbox") as caught:
        level_for_models()
    assert str(caught.value) == NO_WALLS and "bubblewrap" in NO_WALLS


@pytest.mark.usefixtures("no_walls")
def test_the_operator_may_say_otherwise(monkeypatch: pytest.MonkeyPatch) -> None:
    """The operator allows it by a flag, a suite or the environment."""
    with unsafe_sandbox(True):
        assert level_for_models() == "limits"
        with unsafe_sandbox(False), pytest.raises(SandboxUnavailable):
            level_for_models()
    with pytest.raises(SandboxUnavailable):
        level_for_models()
    monkeypatch.setenv("TUTTI_SANDBOX", "limits")
    assert level_for_models() == "limits"


@pytest.mark.usefixtures("no_walls")
@pytest.mark.parametrize("user", [0, 1000])
async def test_a_teachers_toolkit_is_no_exception(
    monkeypatch: pytest.MonkeyPatch, user: int, new_catalog: NewCatalog, tmp_path: Path
) -> None:
    """The programs of a task set's gates are none either. This was an attack: they used the
    strongest working level, which was limits, even as root."""
    monkeypatch.setattr(os, "geteuid", lambda: user)
    with pytest.raises(SandboxUnavailable, match="bubblewrap"):
        Toolkit(EXAMPLE)
    with new_catalog(Home(tmp_path)) as catalog, pytest.raises(SandboxUnavailable, match="bubbl"):
        await make_set(StdlibSource([], TaskRequest(), "index:1", ""), catalog)
    monkeypatch.setenv("TUTTI_SANDBOX", "limits")
    with pytest.raises(SandboxUnavailable, match="as root") if not user else nullcontext():
        Toolkit(EXAMPLE)


@pytest.mark.usefixtures("no_walls")
def test_root_may_not(monkeypatch: pytest.MonkeyPatch) -> None:
    """As root without a separate user, such a program would have no restriction."""
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    for unsafe in (False, True):
        with unsafe_sandbox(unsafe), pytest.raises(SandboxUnavailable):
            level_for_models()
    monkeypatch.setenv("TUTTI_SANDBOX", "limits")
    with pytest.raises(SandboxUnavailable, match="as root"):
        level_for_models()
    monkeypatch.setattr(choice, "checked_identity", lambda level: "uid")
    assert level_for_models() == "limits" and "as root" in AS_ROOT


def test_a_flag_takes_no_walls_away(monkeypatch: pytest.MonkeyPatch) -> None:
    """If walls work they are used; an unknown level is named in the error."""
    monkeypatch.delenv("TUTTI_SANDBOX", raising=False)
    monkeypatch.setattr(choice, "strongest_level", lambda: "namespaces")
    monkeypatch.setattr(choice, "checked_identity", lambda level: "uid")
    with unsafe_sandbox(True):
        assert level_for_models() == "namespaces"
    monkeypatch.setenv("TUTTI_SANDBOX", "none")
    with pytest.raises(SandboxUnavailable, match="TUTTI_SANDBOX=none"):
        level_for_models()


async def test_what_stands_where_none_may_be_runs_nothing() -> None:
    """A scorer or a tool that calls it gets the reason."""
    for work in (NoSandbox("no walls").run("1"), NoSandbox("no walls").talk("1", "2")):
        with pytest.raises(SandboxUnavailable, match="no walls"):
            await work


@pytest.mark.skipif(os.geteuid() != 0, reason="to become another user one must be root")
def test_a_fenced_program_cannot_read_its_parents_environment() -> None:
    """Both have the same user; the parent protects its environment before the first program
    runs."""
    program = (
        "import ctypes, os, sys\n"
        "if 'hide' in sys.argv: ctypes.CDLL(None).prctl(4, 0, 0, 0, 0)\n"
        "pid = os.fork()\n"
        "if pid == 0:\n"
        "    try: text = open(f'/proc/{os.getppid()}/environ').read()\n"
        "    except OSError as error: text = type(error).__name__\n"
        "    os.write(1, text.encode()); os._exit(0)\n"
        "os.waitpid(pid, 0)"
    )
    base = [_others_python(), "-S", "-c", program]
    as_other = {"user": 65534, "group": 65534, "env": {"A_KEY": "sk-1"}, "capture_output": True}
    seen, hidden = (
        subprocess.run([*base, *more], text=True, check=True, **as_other).stdout  # type: ignore[call-overload]
        for more in ([], ["hide"])
    )
    assert "sk-1" in seen and hidden == "PermissionError"
    source = _hide_environment.__wrapped__.__code__.co_names
    assert "prctl" in source, "what the program above does is what the parent does"


def _others_python() -> str:
    """Return a Python that other users can start."""
    for path in ("/usr/bin/python3", sys.executable):
        found = subprocess.run([path, "-S", "-c", ""], user=65534, capture_output=True, check=False)
        if found.returncode == 0:
            return path
    pytest.skip("no Python here that another user could start")
