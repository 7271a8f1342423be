"""Chooses the sandbox level of all code that a model wrote: isolated, or as the operator allows.

`python -m tests.house` checks that no other module picks a level. Without isolation (level
"limits") such a program can read and write whatever its user can. It runs at this level only where
the operator allows it: by ``--unsafe-sandbox``, by a suite's `harness.unsafe_sandbox`, or by
``TUTTI_SANDBOX=limits``.
"""

import ctypes
import json
import os
import subprocess
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import cache
from pathlib import Path
from typing import Any, NoReturn, Protocol

from tutti.tasks.sandbox.run import TalkResult
from tutti.tasks.sandbox.values import (
    SandboxLimits,
    SandboxPython,
    SandboxResult,
    SandboxUnavailable,
)
from tutti.tasks.sandbox.walls import LEVELS, checked_identity, strongest_level

VARIABLE = "TUTTI_SANDBOX"
UNWALLED = "limits"
NO_WALLS = (
    "no walls (bubblewrap, namespaces) work on this machine for programs that a model writes; "
    "install bubblewrap (apt-get install bubblewrap) or allow user namespaces. --unsafe-sandbox "
    f"(or {VARIABLE}={UNWALLED}) runs them without: they can then read your files and keys"
)
AS_ROOT = (
    "as root, programs that a model writes do not run without walls: limits would be none; run "
    "tutti as another user, or make the Python that runs it readable for others"
)
WARNING = (
    "programs that models write run without walls (sandbox level limits): they can read and "
    "change what this user may, and forge scores of code"
)
_PR_SET_DUMPABLE = 4
_unsafe: ContextVar[bool] = ContextVar("unsafe_sandbox", default=False)


@contextmanager
def unsafe_sandbox(allowed: bool) -> Iterator[None]:
    """Set for the block whether the operator allows running programs without isolation."""
    token = _unsafe.set(allowed)
    try:
        yield
    finally:
        _unsafe.reset(token)


def level_for_models() -> str:
    """Return the level for programs that models write. Raises SandboxUnavailable without one."""
    named = os.environ.get(VARIABLE, "")
    if named and named not in LEVELS:
        raise SandboxUnavailable(f"{VARIABLE}={named}: there are {', '.join(LEVELS)}")
    level = named or strongest_level()
    if level == UNWALLED:
        if not (_unsafe.get() or named):
            raise SandboxUnavailable(NO_WALLS)
        if os.geteuid() == 0 and checked_identity(level) == "same":
            raise SandboxUnavailable(AS_ROOT)
        _hide_environment()
    checked_identity(level)
    return level


@cache
def _hide_environment() -> None:
    """Close /proc/self/environ and /proc/self/mem to other processes of this user."""
    ctypes.CDLL(None).prctl(_PR_SET_DUMPABLE, 0, 0, 0, 0)


class CodeRunner(Protocol):
    """The interface for running programs: a `Sandbox`, or a substitute if none is permitted."""

    async def run(self, code: str, limits: SandboxLimits | None = None) -> SandboxResult:
        """Run a program."""

    async def talk(
        self, asker: str, answerer: str, limits: SandboxLimits | None = None
    ) -> TalkResult:
        """Connect two programs in a dialogue."""


class NoSandbox:
    """A substitute for a sandbox that must not run programs; every use raises."""

    def __init__(self, reason: str) -> None:
        self._reason = reason

    async def run(self, code: str, limits: SandboxLimits | None = None) -> NoReturn:
        raise SandboxUnavailable(self._reason)

    async def talk(self, asker: str, answerer: str, limits: Any = None) -> NoReturn:
        raise SandboxUnavailable(self._reason)


CODE_PYTHON = "TUTTI_CODE_PYTHON"
_HIDDEN = ("/tmp", "/dev", "/proc")  # programs get their own, above the host's
_FIRST = (3, 9)  # the oldest that `child` supports
_ASK_S = 30.0
_ASK = (
    "import json, sys; print(json.dumps([sys.prefix, sys.base_prefix, list(sys.version_info[:2])]))"
)
_ASK_FOR = (
    "import json, sys; from importlib.util import find_spec; "
    "print(json.dumps([each for each in sys.argv[1:] if find_spec(each) is None]))"
)


def python_for_code() -> SandboxPython | None:
    """The interpreter that TUTTI_CODE_PYTHON names, or None. Raises SandboxUnavailable."""
    named = os.environ.get(CODE_PYTHON, "")
    return _examined(os.path.abspath(named)) if named else None


def missing_modules(names: Iterable[str], python: SandboxPython | None) -> list[str]:
    """Those of the top-level modules `names` that `python`, or the standard library, lacks."""
    wanted = sorted({*names} - sys.stdlib_module_names)
    return wanted if python is None else list(_answer(python.executable, _ASK_FOR, *wanted))


def _answer(executable: str, program: str, *arguments: str) -> Any:
    try:
        command = [executable, "-I", "-c", program, *arguments]
        done = subprocess.run(command, capture_output=True, timeout=_ASK_S, check=True)
        return json.loads(done.stdout)
    except (OSError, subprocess.SubprocessError, ValueError) as error:
        raise SandboxUnavailable(f"{CODE_PYTHON}={executable}: is no Python: {error}") from error


@cache
def _examined(executable: str) -> SandboxPython:
    prefix, base, version = _answer(executable, _ASK)
    if tuple(version) < _FIRST:
        raise SandboxUnavailable(
            f"{CODE_PYTHON}={executable}: is Python {version[0]}.{version[1]}; name 3.9 or later"
        )
    folders = tuple(each for each in (prefix, base) if not Path(each).is_relative_to("/usr"))
    for folder in folders:
        is_hidden = any(Path(folder).is_relative_to(hidden) for hidden in _HIDDEN)
        if is_hidden or Path.home().is_relative_to(folder):  # "/", too
            fault = "cannot see" if is_hidden else "would see all of"
            raise SandboxUnavailable(
                f"{CODE_PYTHON}={executable}: programs in the sandbox {fault} {folder}; make an "
                "environment in a folder of its own"
            )
    return SandboxPython(executable, folders)
