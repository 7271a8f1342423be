"""The inputs and results of a sandbox."""

from dataclasses import dataclass
from typing import Literal

from tutti.errors import TuttiError

Status = Literal["ok", "error", "timeout", "killed"]

_CUT = "\n[... output cut here ...]\n"


class SandboxUnavailable(TuttiError, RuntimeError):
    """The level does not work here, or a launcher failed; never the program's fault."""


@dataclass(frozen=True)
class SandboxPython:
    """Another interpreter than tutti's, with the libraries of its environment."""

    executable: str  # its absolute path
    folders: tuple[str, ...]  # those that programs must see to run it, read-only


@dataclass(frozen=True)
class SandboxLimits:
    """Limits of one run, or of one cell of a session."""

    seconds: float = 5.0
    """Wall-clock seconds from the first statement on; CPU seconds per process too."""
    memory_mb: int = 256  # address space of each process, MiB
    total_mb: int = 512  # memory of all processes together, MiB, at walled levels
    output_chars: int = 4000  # longest output returned, with the truncation mark
    processes: int = 16
    """Processes and threads at once (at level "limits": only where each run has its own user)."""
    file_mb: int = 8  # size of the largest file and, at walled levels, of all files together, MiB
    files: int = 2000  # number of files and folders, at walled levels
    folders: tuple[str, ...] = ()  # further folders that programs see, at walled levels
    proc: bool = False  # whether programs see /proc, with their own processes, at walled levels
    python: SandboxPython | None = None  # None: tutti's own, with the standard library only


DEFAULT_LIMITS = SandboxLimits()


@dataclass(frozen=True)
class SandboxResult:
    """The result of one run, or of one cell of a session."""

    output: str  # standard output; unless "ok", followed by the end of standard error
    status: Status  # "error": raised or exited non-zero; "killed": by a signal
    seconds: float  # wall-clock seconds from the call to the result
    stdout: str = ""  # standard output alone, its start, cut at `output_chars`
    stderr: str = ""  # standard error alone, its end, cut at `output_chars`
    start_s: float = 0.0  # the part of `seconds` before the first statement
    restarted: str = ""  # why this cell began in a new session, without earlier variables; else ""

    @property
    def exception(self) -> str:
        """The line that names the program's exception, like "ValueError: no"; else ""."""
        _, found, last = self.stderr.rpartition("Traceback (most recent call last):\n")
        if self.status != "error" or not (found or last.startswith('  File "')):
            return ""  # it exited by itself
        named = [line for line in last.splitlines() if line and not line[0].isspace()]
        return named[0] if named else ""


def compose(stdout: str, errors: str, limit_chars: int) -> str:
    """The start of the output and the end of the errors, shortened in between."""
    if len(stdout) + len(errors) <= limit_chars:
        return stdout + errors
    room = max(0, limit_chars - len(_CUT))
    tail = min(len(errors), max(room // 2, room - len(stdout)))
    return (stdout[: room - tail] + _CUT + errors[len(errors) - tail :])[:limit_chars]


@dataclass(frozen=True)
class ProgramOutput:
    """A program's output and how it ended."""

    stdout: str
    stderr: str
    status: Status


def make_result(
    printed: ProgramOutput,
    seconds: float,
    limit_chars: int,
    *,
    start_s: float = 0.0,
    restarted: str = "",
) -> SandboxResult:
    """A result whose `output` is the model's text: a restart is reported first."""
    stdout, stderr, status = printed.stdout, printed.stderr, printed.status
    notice = f"[{restarted}]\n" if restarted else ""
    output = compose(notice + stdout, "" if status == "ok" else stderr, limit_chars)
    tail = stderr[max(0, len(stderr) - limit_chars) :]
    return SandboxResult(output, status, seconds, stdout[:limit_chars], tail, start_s, restarted)
