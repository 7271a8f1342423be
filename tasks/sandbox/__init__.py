"""Runs programs that a model wrote: a program in, its output and exit status out.

    sandbox = Sandbox(strongest_level())
    result = await sandbox.run("print(6 * 7)")  # output "42\n", status "ok"

A program runs under this Python's base interpreter, with the standard library only, no environment,
no input and an empty working folder that is deleted afterwards. `Sandbox` runs a program once;
`SandboxSession` runs it cell by cell and keeps its variables; `SandboxSessions` has one session per
program. `LEVELS` states what each level contains and what it does not.
"""

from tutti.tasks.sandbox.choice import NO_WALLS, WARNING, CodeRunner, NoSandbox, level_for_models
from tutti.tasks.sandbox.python import CODE_PYTHON, python_for_code
from tutti.tasks.sandbox.run import Sandbox
from tutti.tasks.sandbox.session import SandboxSession
from tutti.tasks.sandbox.sessions import SandboxSessions
from tutti.tasks.sandbox.talk import TalkResult
from tutti.tasks.sandbox.values import (
    SandboxLimits,
    SandboxPython,
    SandboxResult,
    SandboxUnavailable,
    Status,
)
from tutti.tasks.sandbox.walls import LEVELS, strongest_level

__all__ = [
    "CODE_PYTHON",
    "LEVELS",
    "NO_WALLS",
    "WARNING",
    "CodeRunner",
    "NoSandbox",
    "Sandbox",
    "SandboxLimits",
    "SandboxPython",
    "SandboxResult",
    "SandboxSession",
    "SandboxSessions",
    "SandboxUnavailable",
    "Status",
    "TalkResult",
    "level_for_models",
    "python_for_code",
    "strongest_level",
]
