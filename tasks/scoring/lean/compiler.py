"""Compiles a file with the user's Lean in the sandbox.

Lean runs any program in a file while it compiles it, so that it needs walls: no network, no files
but its own folders (read-only) and a small scratch folder, limits on time, memory and processes. At
level "limits" it does not run.

Before the first proof with a header, the header alone is compiled: if that fails, the fault is the
installation's and not the model's.
"""

import asyncio
import os
import secrets
from dataclasses import dataclass, field
from time import perf_counter
from typing import Any
from weakref import WeakKeyDictionary

from tutti.tasks.sandbox import SandboxLimits, SandboxUnavailable
from tutti.tasks.scoring.lean.project import LeanSetUp, lean_set_up
from tutti.tasks.scoring.lean.verdict import Compilation
from tutti.tasks.scoring.score import CodeSandbox, ScorerFailed

HEADER_S = 600.0  # the first import of Mathlib reads gigabytes from the disk
THREADS = 4
AT_ONCE = 10  # NeMo-Skills' number of parallel proofs; fewer where there are fewer cores
OUTPUT_CHARS = 2_000_000  # what comes last tells the axioms
_CPU_S_PER_S = 2 * THREADS  # the sandbox limits CPU seconds by its wall-clock limit
_START_S = 10.0
_PROGRAM = """
import os, sys
with open("Proof.lean", "w", encoding="utf-8", errors="replace") as file:
    file.write({text!r})
home = {{"HOME": os.getcwd(), "PATH": "/usr/bin:/bin", "LANG": "C.UTF-8"}}
try:
    os.execve({program!r}, [*{words!r}, "Proof.lean"], {{**home, **{environment!r}}})
except OSError as error:
    sys.stderr.write({token!r} + str(error))
    sys.exit(1)
"""


@dataclass
class _Room:
    """What the runs of one event loop share."""

    running: asyncio.Semaphore = field(
        default_factory=lambda: asyncio.Semaphore(min(AT_ONCE, os.cpu_count() or 1))
    )
    examining: asyncio.Lock = field(default_factory=asyncio.Lock)
    headers: dict[tuple[Any, ...], str] = field(default_factory=dict)
    """Headers, each with the Lean and its options: why it does not compile, "" if it does."""


_ROOMS: WeakKeyDictionary[asyncio.AbstractEventLoop, _Room] = WeakKeyDictionary()


@dataclass(frozen=True)
class Job:
    """A file to compile."""

    header: str
    """What it begins with, which must compile alone."""
    text: str
    options: tuple[str, ...]
    """Of the command line: ``--json``."""
    seconds: float
    """Its time limit."""


async def compiled(sandbox: CodeSandbox, job: Job) -> tuple[Compilation, LeanSetUp]:
    """What Lean says of the file, and which Lean it was.

    Raises ScorerFailed without Lean or walls, or if the header alone does not compile.
    """
    set_up = await asyncio.to_thread(lean_set_up)
    room = _ROOMS.setdefault(asyncio.get_running_loop(), _Room())
    asked = (set_up.command, job.options, job.header)
    if asked not in room.headers:
        async with room.examining:
            if asked not in room.headers:
                room.headers[asked] = await _flaw(sandbox, set_up, job)
    if flaw := room.headers[asked]:
        raise ScorerFailed(flaw)
    async with room.running:
        return await _run(sandbox, set_up, job), set_up


async def _flaw(sandbox: CodeSandbox, set_up: LeanSetUp, job: Job) -> str:
    """Why the header alone does not compile; "" if it does."""
    ran = await _run(sandbox, set_up, Job("", job.header, job.options, HEADER_S))
    if ran.status == "ok":
        return ""
    said = (ran.stdout + ran.stderr).strip()[:500] or ran.status
    return f"lean: {set_up.version} does not compile the statements' header alone: {said}"


async def _run(sandbox: CodeSandbox, set_up: LeanSetUp, job: Job) -> Compilation:
    token = secrets.token_hex(16)
    environment = {"LEAN_NUM_THREADS": str(THREADS), **set_up.environment}
    program = _PROGRAM.format(
        text=job.text,
        program=set_up.command[0],
        words=[*set_up.command, *job.options],
        environment=environment,
        token=token,
    )
    began = perf_counter()
    try:
        async with asyncio.timeout(job.seconds + _START_S):
            ran = await sandbox.run(program, _limits(set_up, job.seconds))
    except TimeoutError:
        return Compilation("timeout", "", "", perf_counter() - began)
    except SandboxUnavailable as error:
        raise ScorerFailed(f"lean: {error}") from error
    seconds = ran.seconds - ran.start_s
    _, refused, why = ran.stderr.rpartition(token)
    if refused:
        raise ScorerFailed(
            f"lean: {set_up.command[0]} could not be started in the sandbox: {why.strip()[:300]} "
            "(it needs a level with walls, bubblewrap or namespaces, and folders that all users "
            "may read)"
        )
    status = "timeout" if seconds > job.seconds else ran.status
    return Compilation(status, ran.stdout, ran.stderr, seconds)


def _limits(set_up: LeanSetUp, seconds: float) -> SandboxLimits:
    return SandboxLimits(
        seconds=seconds * _CPU_S_PER_S,
        memory_mb=128 * 1024,  # of addresses: Lean maps all of Mathlib's files
        total_mb=16 * 1024,
        output_chars=OUTPUT_CHARS,
        processes=128,
        file_mb=64,
        folders=set_up.folders,
        proc=True,  # Lean finds its own folder by /proc
    )
