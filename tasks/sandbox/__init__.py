"""Runs programs that a model wrote: a program in, its output and exit status out.

    sandbox = Sandbox(level_for_models())
    result = await sandbox.run("print(6 * 7)")  # output "42\n", status "ok"

A program runs under this Python's base interpreter, with the standard library only, no environment,
no input and an empty working folder that is deleted afterwards. `Sandbox` runs a program once;
`SandboxSession` runs it cell by cell and keeps its variables; `SandboxSessions` has one session per
program. `level_for_models` decides how well all of them are isolated.
"""

from tutti.tasks.sandbox.choice import (
    CODE_PYTHON,
    NO_WALLS,
    WARNING,
    CodeRunner,
    NoSandbox,
    level_for_models,
    missing_modules,
    python_for_code,
    unsafe_sandbox,
)
from tutti.tasks.sandbox.run import Sandbox, TalkResult
from tutti.tasks.sandbox.session import SandboxSession, SandboxSessions
from tutti.tasks.sandbox.values import (
    SandboxLimits,
    SandboxPython,
    SandboxResult,
    SandboxUnavailable,
    Status,
)

__all__ = [
    "CODE_PYTHON",
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
    "missing_modules",
    "python_for_code",
    "unsafe_sandbox",
]
