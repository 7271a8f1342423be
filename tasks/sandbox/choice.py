"""Chooses the sandbox level of all code that a model wrote: isolated, or as the operator allows.

`level_for_models` is the only choice: for attempts, scorers, tools and synthesized toolkits alike.
`python -m tests.house` checks that no other module picks a level.

Without isolation (level "limits") such a program can read and write whatever its user can: files,
and keys in the environment of that user's other processes. It runs at this level only where the
operator allows it: by ``--unsafe-sandbox``, by a suite's `harness.unsafe_sandbox`, or by
``TUTTI_SANDBOX=limits``.
"""

import ctypes
import os
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import cache
from typing import NoReturn, Protocol

from tutti.tasks.sandbox.talk import TalkResult
from tutti.tasks.sandbox.values import SandboxLimits, SandboxResult, SandboxUnavailable
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
    """For the block, the operator allows (or not) running programs without isolation."""
    token = _unsafe.set(allowed)
    try:
        yield
    finally:
        _unsafe.reset(token)


def level_for_models() -> str:
    """The level for programs that models write.

    Raises SandboxUnavailable if no permitted level works, or if `TUTTI_SANDBOX` names one that does
    not work here.
    """
    asked = os.environ.get(VARIABLE, "")
    if asked and asked not in LEVELS:
        raise SandboxUnavailable(f"{VARIABLE}={asked}: there are {', '.join(LEVELS)}")
    level = asked or strongest_level()
    if level == UNWALLED:
        if not (_unsafe.get() or asked):
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
    """A substitute for a sandbox where no program may run; every use raises."""

    def __init__(self, reason: str) -> None:
        self._reason = reason

    async def run(self, code: str, limits: SandboxLimits | None = None) -> NoReturn:
        """Raises SandboxUnavailable."""
        raise SandboxUnavailable(self._reason)

    async def talk(
        self, asker: str, answerer: str, limits: SandboxLimits | None = None
    ) -> NoReturn:
        """Raises SandboxUnavailable."""
        raise SandboxUnavailable(self._reason)
