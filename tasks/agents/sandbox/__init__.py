"""Run programs that a model wrote: a program in, what it printed and how it ended out.

    sandbox = Sandbox(strongest_level())
    result = await sandbox.run("print(6 * 7)")  # output "42\\n", status "ok"

A program runs under this Python's own base interpreter, with the standard library only, no
environment, no input and an empty working folder that vanishes with it: once and for all by
`Sandbox`, cell by cell with its variables kept by `SandboxSession` and, one session a program, by
`SandboxSessions`. `LEVELS` says what each level contains and what it does not.
"""

from tasks.agents.sandbox.choice import NO_WALLS, WARNING, NoSandbox, Runs, level_for_models
from tasks.agents.sandbox.run import Sandbox
from tasks.agents.sandbox.session import SandboxSession
from tasks.agents.sandbox.sessions import SandboxSessions
from tasks.agents.sandbox.talk import Talk
from tasks.agents.sandbox.values import SandboxLimits, SandboxResult, SandboxUnavailable, Status
from tasks.agents.sandbox.walls import LEVELS, strongest_level

__all__ = [
    "LEVELS",
    "NO_WALLS",
    "WARNING",
    "NoSandbox",
    "Runs",
    "Sandbox",
    "SandboxLimits",
    "SandboxResult",
    "SandboxSession",
    "SandboxSessions",
    "SandboxUnavailable",
    "Status",
    "Talk",
    "level_for_models",
    "strongest_level",
]
