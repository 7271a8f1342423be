"""Run programs that a model wrote: a program in, what it printed and how it ended out.

    sandbox = Sandbox(strongest_level())
    result = await sandbox.run("print(6 * 7)")  # output "42\\n", status "ok"

A program runs under this Python's own base interpreter, with the standard library only, no
environment, no input and an empty working folder that vanishes with it: once and for all by
`Sandbox`, cell by cell with its variables kept by `SandboxSession` and, one session a program, by
`SandboxSessions`. `LEVELS` says what each level contains and what it does not.
"""

from tutti.tasks.sandbox.choice import NO_WALLS, WARNING, NoSandbox, Runs, level_for_models
from tutti.tasks.sandbox.run import Sandbox
from tutti.tasks.sandbox.session import SandboxSession
from tutti.tasks.sandbox.sessions import SandboxSessions
from tutti.tasks.sandbox.talk import Talk
from tutti.tasks.sandbox.values import SandboxLimits, SandboxResult, SandboxUnavailable, Status
from tutti.tasks.sandbox.walls import LEVELS, strongest_level

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
