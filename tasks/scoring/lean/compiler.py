"""Compiling a file with the user's Lean, only at a sandbox level with isolation.

``TUTTI_LEAN_PROJECT`` names a built Lake project; its ``lake env``, which runs outside the sandbox,
names Lean and the libraries. ``TUTTI_LEAN_COMMAND`` names another program; the project is then a
folder that it sees. ``TUTTI_LEAN_TIMEOUT_S`` overrides a rule's own time limit of a proof.
"""

import asyncio
import os
import secrets
import shlex
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from time import perf_counter
from typing import Any
from weakref import WeakKeyDictionary

from tutti.tasks.sandbox import CodeRunner, SandboxLimits, SandboxUnavailable
from tutti.tasks.scoring.rules.score import ScorerFailed

PROJECT = "TUTTI_LEAN_PROJECT"
COMMAND = "TUTTI_LEAN_COMMAND"
TIMEOUT = "TUTTI_LEAN_TIMEOUT_S"
MATHLIB = "https://github.com/leanprover-community/mathlib4"
LEAN_INSTALL = "\n".join(
    (
        "# with elan, Lean's installer (https://github.com/leanprover/elan), outside /tmp:",
        "lake +leanprover/lean4:v4.12.0 new proofs && cd proofs",
        f'echo \'require mathlib from git "{MATHLIB}" @ "v4.12.0"\' >> lakefile.lean',
        "lake exe cache get && lake build",
        "export TUTTI_LEAN_PROJECT=$PWD",
    )
)
"""Commands that make a project with the Lean and the Mathlib that NeMo-Skills has."""
LAKE_S = 300.0  # the first call of a project compiles its lakefile
VERSION_S = 60.0
_HIDDEN = ("/tmp", "/dev", "/proc")  # programs in the sandbox get their own above the host's


@dataclass(frozen=True)
class LeanSetUp:
    """A Lean program that can compile proofs."""

    command: tuple[str, ...]  # the program's absolute path and its first words
    environment: Mapping[str, str]
    folders: tuple[str, ...]  # that it must see, read-only
    version: str  # its own version text, such as ``Lean (version 4.9.0, …)``


def lean_set_up() -> LeanSetUp:
    """The Lean program that the variables name. Raises ScorerFailed if there is none that runs."""
    return _examined(os.environ.get(PROJECT, ""), os.environ.get(COMMAND, ""))


def time_limit(default_s: float) -> float:
    """A proof's time limit in seconds. Raises ScorerFailed unless the variable is above 0."""
    named = os.environ.get(TIMEOUT, "")
    try:
        seconds = float(named) if named else default_s
    except ValueError:
        seconds = 0.0
    if not 0 < seconds < float("inf"):
        raise ScorerFailed(f"{TIMEOUT}={named}: is no number of seconds above 0")
    return seconds


@cache
def _examined(project: str, command: str) -> LeanSetUp:
    if not (project or command):
        raise ScorerFailed(
            f"proofs are compiled by your own Lean 4, and {PROJECT} names no Lake project; make "
            f"one with Mathlib, and name it:\n{LEAN_INSTALL}"
        )
    if project and not Path(project).is_dir():
        raise ScorerFailed(f"{PROJECT}={project}: is no folder")
    if command:
        words, environment, wanted = _of_command(command)
        wanted += [os.path.abspath(project)] if project else []
    else:
        words, environment, wanted = _of_lake(os.path.abspath(project))
    folders = _outermost([*wanted, *environment.get("LEAN_PATH", "").split(":")])
    for folder in folders:
        if any(Path(folder).is_relative_to(hidden) for hidden in _HIDDEN):
            raise ScorerFailed(
                f"lean: the sandbox cannot show {folder} to programs; move it out of "
                f"{', '.join(_HIDDEN)}"
            )
    output = _output((*words, "--version"), VERSION_S, None, environment).strip()
    version = output.splitlines()[0] if output else "says no version"
    return LeanSetUp(words, environment, folders, version)


_Found = tuple[tuple[str, ...], dict[str, str], list[str]]  # words, environment, folders


def _of_command(command: str) -> _Found:
    try:
        words = shlex.split(command)
    except ValueError as error:
        raise ScorerFailed(f"{COMMAND}={command}: {error}") from error
    program = shutil.which(words[0]) if words else None
    if program is None:
        raise ScorerFailed(f"{COMMAND}={command}: no such program")
    environment = {"LEAN_PATH": os.environ["LEAN_PATH"]} if "LEAN_PATH" in os.environ else {}
    folder = Path(program).resolve().parent
    home = str(folder.parent if folder.name == "bin" else folder)
    return (os.path.abspath(program), *words[1:]), environment, [home]


def _of_lake(project: str) -> _Found:
    if shutil.which("lake") is None:
        raise ScorerFailed(
            f"{PROJECT}={project}: no program `lake` on the PATH; install Lean:\n{LEAN_INSTALL}"
        )
    output = _output(("lake", "env", "printenv"), LAKE_S, project, {})
    values = dict(line.split("=", 1) for line in output.splitlines() if "=" in line)
    home = values.get("LEAN_SYSROOT", "")
    program = Path(home, "bin", "lean")
    if not home or not program.is_file():
        raise ScorerFailed(f"{PROJECT}={project}: `lake env` names no Lean (LEAN_SYSROOT={home})")
    environment = {"LEAN_SYSROOT": home, "LEAN_PATH": values.get("LEAN_PATH", "")}
    return (str(program),), environment, [home, project]


def _outermost(folders: Sequence[str]) -> tuple[str, ...]:
    """Absolute folders, without those below another one and those that every program sees."""
    paths = dict.fromkeys(Path(os.path.abspath(each)) for each in folders if each)
    real = [path for path in paths if path.is_dir() and path != Path("/")]
    above = [Path("/usr"), *sorted(real, key=lambda path: len(path.parts))]
    kept: list[Path] = []
    for path in above:
        if not any(path.is_relative_to(other) for other in kept):
            kept.append(path)
    return tuple(str(path) for path in kept[1:])


def _output(
    command: tuple[str, ...], bound_s: float, folder: str | None, environment: Mapping[str, str]
) -> str:
    try:
        done = subprocess.run(
            command,
            cwd=folder,
            env={**os.environ, **environment},
            capture_output=True,
            stdin=subprocess.DEVNULL,
            text=True,
            errors="replace",
            timeout=bound_s,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise ScorerFailed(f"`{shlex.join(command)}` did not run: {error}") from error
    if done.returncode:
        last = (done.stderr or done.stdout).strip()[-500:]
        raise ScorerFailed(f"`{shlex.join(command)}` in {folder or '.'} failed: {last}")
    return done.stdout


HEADER_S = 600.0  # the first import of Mathlib reads gigabytes from the disk
THREADS = 4
AT_ONCE = 10  # NeMo-Skills' number of parallel proofs; fewer where there are fewer cores
OUTPUT_CHARS = 2_000_000  # the last lines name the axioms
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
    """The shared state of one event loop's runs."""

    running: asyncio.Semaphore = field(
        default_factory=lambda: asyncio.Semaphore(min(AT_ONCE, os.cpu_count() or 1))
    )
    examining: asyncio.Lock = field(default_factory=asyncio.Lock)
    headers: dict[tuple[Any, ...], str] = field(default_factory=dict)
    """Headers, each with the Lean and its options: why it does not compile, "" if it does."""


_ROOMS: WeakKeyDictionary[asyncio.AbstractEventLoop, _Room] = WeakKeyDictionary()


@dataclass(frozen=True)
class Compilation:
    """One run of Lean."""

    status: str  # "ok": exit code 0; "timeout"; else it failed
    stdout: str
    stderr: str
    seconds: float


async def compiled(
    sandbox: CodeRunner, header: str, text: str, options: tuple[str, ...], limit_s: float
) -> tuple[Compilation, LeanSetUp]:
    """Compile a file that begins with `header`; returns the output, and which Lean it was.

    Raises ScorerFailed without Lean or walls, or if the header alone does not compile.
    """
    set_up = await asyncio.to_thread(lean_set_up)
    room = _ROOMS.setdefault(asyncio.get_running_loop(), _Room())
    key = (set_up.command, options, header)
    if key not in room.headers:
        async with room.examining:
            if key not in room.headers:
                ran = await _run(sandbox, set_up, header, options, HEADER_S)
                output = (ran.stdout + ran.stderr).strip()[:500] or ran.status
                room.headers[key] = "" if ran.status == "ok" else output
    if fault := room.headers[key]:
        raise ScorerFailed(
            f"lean: {set_up.version} does not compile the statements' header alone: {fault}"
        )
    async with room.running:
        return await _run(sandbox, set_up, text, options, limit_s), set_up


async def _run(
    sandbox: CodeRunner, set_up: LeanSetUp, text: str, options: tuple[str, ...], limit_s: float
) -> Compilation:
    token = secrets.token_hex(16)
    program = _PROGRAM.format(
        text=text,
        program=set_up.command[0],
        words=[*set_up.command, *options],
        environment={"LEAN_NUM_THREADS": str(THREADS), **set_up.environment},
        token=token,
    )
    limits = SandboxLimits(
        seconds=limit_s * _CPU_S_PER_S,
        memory_mb=128 * 1024,  # of addresses: Lean maps all of Mathlib's files
        total_mb=16 * 1024,
        output_chars=OUTPUT_CHARS,
        processes=128,
        file_mb=64,
        folders=set_up.folders,
        proc=True,  # Lean finds its own folder by /proc
    )
    began = perf_counter()
    try:
        async with asyncio.timeout(limit_s + _START_S):
            ran = await sandbox.run(program, limits)
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
    status = "timeout" if seconds > limit_s else ran.status
    return Compilation(status, ran.stdout, ran.stderr, seconds)
