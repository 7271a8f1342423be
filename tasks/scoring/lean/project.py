"""The user's Lean 4: which program compiles a proof, and which folders it needs.

``TUTTI_LEAN_PROJECT`` names a Lake project that has been built, such as one with Mathlib; its
``lake env`` says where Lean and the libraries are. It runs outside the sandbox, once a process: the
project is the user's own. ``TUTTI_LEAN_COMMAND`` names another program in its place, which is
called with its own words, ours (``--json``) and the file; the project, if named too, is a folder
that it sees. ``TUTTI_LEAN_TIMEOUT_S`` is the time limit of a proof in place of a rule's own.
"""

import os
import shlex
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from tutti.tasks.scoring.score import ScorerFailed

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
    """A Lean program that proofs can be compiled with."""

    command: tuple[str, ...]
    """The program's absolute path and its first words."""
    environment: Mapping[str, str]
    folders: tuple[str, ...]
    """What it must see, read-only: its own folder, the project's, the libraries'."""
    version: str
    """What it says of itself, such as ``Lean (version 4.9.0, …)``."""


def lean_set_up() -> LeanSetUp:
    """The Lean that the variables name.

    Raises ScorerFailed if none is named, or it does not run; the message has the commands that make
    a project.
    """
    return _examined(os.environ.get(PROJECT, ""), os.environ.get(COMMAND, ""))


def time_limit(default_s: float) -> float:
    """Seconds that a proof may take. Raises ScorerFailed if the variable is no number above 0."""
    named = os.environ.get(TIMEOUT, "")
    if not named:
        return default_s
    try:
        seconds = float(named)
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
    found = _own(command, project) if command else _of_lake(os.path.abspath(project))
    for folder in found.folders:
        if any(Path(folder).is_relative_to(hidden) for hidden in _HIDDEN):
            raise ScorerFailed(
                f"lean: the sandbox cannot show {folder} to programs; move it out of "
                f"{', '.join(_HIDDEN)}"
            )
    return found


def _own(command: str, project: str) -> LeanSetUp:
    try:
        words = shlex.split(command)
    except ValueError as error:
        raise ScorerFailed(f"{COMMAND}={command}: {error}") from error
    program = shutil.which(words[0]) if words else None
    if program is None:
        raise ScorerFailed(f"{COMMAND}={command}: no such program")
    command_words = (os.path.abspath(program), *words[1:])
    environment = {"LEAN_PATH": os.environ["LEAN_PATH"]} if "LEAN_PATH" in os.environ else {}
    wanted = [_home_of(program), *([os.path.abspath(project)] if project else [])]
    wanted += environment.get("LEAN_PATH", "").split(":")
    folders = _outermost(wanted)
    return LeanSetUp(command_words, environment, folders, _version(command_words, environment))


def _of_lake(project: str) -> LeanSetUp:
    if shutil.which("lake") is None:
        raise ScorerFailed(
            f"{PROJECT}={project}: no program `lake` on the PATH; install Lean:\n{LEAN_INSTALL}"
        )
    said = _asked(("lake", "env", "printenv"), LAKE_S, project)
    values = dict(line.split("=", 1) for line in said.splitlines() if "=" in line)
    home = values.get("LEAN_SYSROOT", "")
    program = Path(home, "bin", "lean")
    if not home or not program.is_file():
        raise ScorerFailed(f"{PROJECT}={project}: `lake env` names no Lean (LEAN_SYSROOT={home})")
    libraries = values.get("LEAN_PATH", "")
    environment = {"LEAN_SYSROOT": home, "LEAN_PATH": libraries}
    folders = _outermost([home, project, *libraries.split(":")])
    command = (str(program),)
    return LeanSetUp(command, environment, folders, _version(command, environment))


def _home_of(program: str) -> str:
    """The folder that a program is installed in: the one above ``bin``."""
    folder = Path(program).resolve().parent
    return str(folder.parent if folder.name == "bin" else folder)


def _outermost(folders: Sequence[str]) -> tuple[str, ...]:
    """Absolute folders without those below another one, and without what every program sees."""
    paths = dict.fromkeys(Path(os.path.abspath(each)) for each in folders if each)
    real = [path for path in paths if path.is_dir() and path != Path("/")]
    above = [Path("/usr"), *sorted(real, key=lambda path: len(path.parts))]
    kept: list[Path] = []
    for path in above:
        if not any(path.is_relative_to(other) for other in kept):
            kept.append(path)
    return tuple(str(path) for path in kept[1:])


def _version(command: tuple[str, ...], environment: Mapping[str, str]) -> str:
    said = _asked((*command, "--version"), VERSION_S, None, environment).strip()
    return said.splitlines()[0] if said else "says no version"


def _asked(
    command: tuple[str, ...],
    bound_s: float,
    folder: str | None,
    environment: Mapping[str, str] | None = None,
) -> str:
    """The standard output of a command. Raises ScorerFailed if it fails."""
    try:
        done = subprocess.run(
            command,
            cwd=folder,
            env={**os.environ, **(environment or {})},
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
