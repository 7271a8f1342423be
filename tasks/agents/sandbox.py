"""Run a program that a model wrote: one program in, what it printed and how it ended out.

    sandbox = Sandbox(strongest_level())
    result = await sandbox.run("print(6 * 7)")  # output "42", status "ok"

The program runs under this Python's own base interpreter, with the standard library only, no
environment, no input and an empty working folder that vanishes with it. A launcher (bwrap, or
unshare and a few mounts) builds the walls; then `sandbox_child` lowers the limits from inside, for
good, and runs the program. `LEVELS` says what each level contains and what it does not.

Started by root, each run gets a user id of its own: the kernel never holds root to a limit on
processes, and an id of its own keeps one run's count out of another's.
"""

import asyncio
import inspect
import itertools
import math
import os
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any, Literal

from tasks.agents.sandbox_child import fence, run_inside, show_error

Status = Literal["ok", "error", "timeout", "killed"]

LEVELS: dict[str, str] = {
    "bubblewrap": "Walls by bwrap: no network, no other processes, no files but /usr, /lib* and the"
    " interpreter (read-only) and a small tmpfs; not contained: flaws of the kernel, and memory"
    " beyond the limit of each single process.",
    "namespaces": "The same walls by unshare and pivot_root; not contained: what bubblewrap does"
    " not contain, and namespaces that the program makes in its own.",
    "limits": "Limits on CPU, memory and file size, and an audit hook: a fence against accidents,"
    " not a wall; a program that means to get out gets out, with the rights of its user.",
}

_ENVIRONMENT = {"LANG": "C.UTF-8"}
_READY = b"\0tutti: the program starts here\0"  # all before it on stderr is the launcher's own
_CUT = "\n[... output cut here ...]\n"
_FLOOD_BYTES = 16 * 2**20  # who prints this much prints for ever; reading it all costs our loop
_REAP_S = 5.0  # a killed process is gone in milliseconds; a host in trouble gets longer
_MAX_SIGNAL = 64  # a launcher reports a program killed by signal n as 128 + n
_DROP_ALL = ["--bounding-set", "-all", "--inh-caps", "-all", "--no-new-privs"]

_runs = itertools.count()


class SandboxUnavailable(RuntimeError):
    """This machine cannot hold the asked level, or a launcher failed: never the program's fault."""


@dataclass(frozen=True)
class SandboxLimits:
    """What one run may take."""

    seconds: float = 5.0
    """Wall-clock seconds; CPU seconds a process are held to the next whole one above."""
    memory_mb: int = 256
    """Address space of each process, MiB."""
    output_chars: int = 4000
    """Longest output handed back, characters, the mark of the cut included."""
    processes: int = 16
    """Processes and threads at once (at level "limits": only where each run has its own user)."""
    file_mb: int = 8
    """Largest file, and at the walled levels all files together, MiB."""


@dataclass(frozen=True)
class SandboxResult:
    """How one run ended."""

    output: str
    """Standard output; unless "ok", then the end of standard error (the traceback)."""
    status: Status
    """"error": it raised or exited non-zero; "killed": by a signal, as past a limit."""
    seconds: float
    """Wall-clock seconds from the call to the result."""


class Sandbox:
    """Runs programs at one level; any number at once."""

    def __init__(self, level: str, limits: SandboxLimits = SandboxLimits()) -> None:
        """Probe the level (once a process). Raises SandboxUnavailable where it does not work."""
        if sys.platform != "linux":
            raise SandboxUnavailable(f"sandboxes need Linux; this is {sys.platform}")
        if level not in LEVELS:
            raise SandboxUnavailable(f"no level {level!r}; there are {', '.join(LEVELS)}")
        identity = _identity(level)
        if identity is None:
            raise SandboxUnavailable(f"level {level!r} does not work on this machine")
        self.level = level
        self.limits = limits
        self._identity = identity

    async def run(self, code: str) -> SandboxResult:
        """Run `code` to its end or its limits; nothing of it outlives the call, cancelled or not.

        Raises SandboxUnavailable when the program could not be started or not be stopped.
        """
        started = time.perf_counter()
        stdout = _Capture(4 * self.limits.output_chars + 4)  # at most 4 bytes a character
        stderr = _Capture(stdout.keep_bytes, keep_end=True)
        with _prepared(self.level, self._identity, self.limits, code) as (command, options):
            process = await _start(command, options)
            timed_out = await _finish(process, stdout, stderr, self.limits.seconds)
        if not stderr.ready:
            reason = stderr.text() or f"no start within {self.limits.seconds} s"
            raise SandboxUnavailable(f"level {self.level!r} did not start: {reason}")
        assert process.returncode is not None, f"process {process.pid} has not been waited for"
        status = "timeout" if timed_out else _status(process.returncode, self.level)
        errors = "" if status == "ok" else stderr.text()
        output = _compose(stdout.text(), errors, self.limits.output_chars)
        return SandboxResult(output, status, time.perf_counter() - started)


def strongest_level() -> str:
    """The first of LEVELS that really works here; probed once a process, by running a program."""
    return next((level for level in ("bubblewrap", "namespaces") if _identity(level)), "limits")


@dataclass
class _Capture:
    """What is kept of one stream: its first bytes, or its last."""

    keep_bytes: int
    keep_end: bool = False
    data: bytearray = field(default_factory=bytearray)
    seen_bytes: int = 0
    ready: bool = False

    async def drain(self, stream: asyncio.StreamReader, on_flood: Callable[[], None]) -> None:
        while chunk := await stream.read(2**16):
            self.data += chunk
            if not self.ready and self.data.startswith(_READY):
                self.ready = True
                del self.data[: len(_READY)]
            excess = max(0, len(self.data) - self.keep_bytes)
            del self.data[slice(excess) if self.keep_end else slice(self.keep_bytes, None)]
            self.seen_bytes += len(chunk)
            if self.seen_bytes > _FLOOD_BYTES:
                on_flood()

    def text(self) -> str:
        return self.data.decode("utf-8", "replace")


async def _start(command: list[str], options: dict[str, Any]) -> asyncio.subprocess.Process:
    pipe = asyncio.subprocess.PIPE
    starting = asyncio.ensure_future(
        asyncio.create_subprocess_exec(
            *command, stdout=pipe, stderr=pipe, start_new_session=True, **options
        )
    )
    try:
        return await asyncio.shield(starting)
    except asyncio.CancelledError:
        # Cancelled itself, asyncio would kill the launcher alone: this early, that orphans the
        # child which waits for it, and asyncio then waits for that child's pipes.
        with suppress(OSError):
            await _finish(await starting, _Capture(0), _Capture(0), seconds=0)
        raise
    except OSError as error:
        raise SandboxUnavailable(f"{command[0]} could not be started: {error}") from error


async def _finish(
    process: asyncio.subprocess.Process, stdout: _Capture, stderr: _Capture, seconds: float
) -> bool:
    """Read until the process ends, kill what is left of it; true if the time ran out."""

    def kill() -> None:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)

    assert process.stdout is not None and process.stderr is not None, "both were piped"
    reading = asyncio.gather(
        stdout.drain(process.stdout, kill), stderr.drain(process.stderr, kill), process.wait()
    )
    try:
        await asyncio.wait({reading}, timeout=seconds)
        timed_out = not reading.done()
    finally:
        # Also after a good end: the program may have left others in its group. A launcher's
        # death takes its whole process namespace along.
        kill()
        await asyncio.wait({reading}, timeout=_REAP_S)
        stopped = reading.done()
        reading.cancel()
    if not stopped:
        raise SandboxUnavailable(f"process {process.pid} would not end within {_REAP_S} s")
    reading.result()
    return timed_out


def _status(returncode: int, level: str) -> Status:
    if returncode == 0:
        return "ok"
    launched = level != "limits"
    killed = returncode < 0 or (launched and 128 < returncode <= 128 + _MAX_SIGNAL)
    return "killed" if killed else "error"


def _compose(stdout: str, errors: str, limit_chars: int) -> str:
    """The start of what was printed and the end of the errors, cut in between."""
    if len(stdout) + len(errors) <= limit_chars:
        return stdout + errors
    room = max(0, limit_chars - len(_CUT))
    tail = min(len(errors), max(room // 2, room - len(stdout)))
    return (stdout[: room - tail] + _CUT + errors[len(errors) - tail :])[:limit_chars]


@contextmanager
def _prepared(
    level: str, identity: str, limits: SandboxLimits, code: str
) -> Iterator[tuple[list[str], dict[str, Any]]]:
    """The command of one run and how to start it; its folder and its program's file go after."""
    # Nobody's user id, nor another run's: by process (at most 2**22), then by run.
    uid = 2**30 + os.getpid() % 2**22 * 2**8 + next(_runs) % 2**8
    with tempfile.TemporaryDirectory(prefix="tutti-sandbox-") as scratch:
        if identity == "uid" and level == "limits":
            os.chown(scratch, uid, uid)
        program = os.memfd_create("program")  # a file of no folder: no limit on length, no trace
        try:
            os.write(program, code.encode("utf-8", "replace"))
            os.lseek(program, 0, os.SEEK_SET)
            command = _LAUNCHERS[level](_user(level, identity, uid), identity, scratch, limits)
            child = _child_command(level, identity, limits)
            yield [*command, *child], {"stdin": program, "cwd": scratch, "env": _ENVIRONMENT}
        finally:
            os.close(program)


@cache
def _identity(level: str) -> str | None:
    """As whom programs run at `level`: the first that works here, None if none does.

    "uid": a user id of its own (root only); "userns": the caller, alone in a user namespace, where
    the limit on processes counts from nought; "same": the caller.
    """
    candidates = ["same" if level == "limits" else "userns"]
    if os.geteuid() == 0:
        candidates.insert(0, "uid")
    return next((identity for identity in candidates if _works(level, identity)), None)


def _works(level: str, identity: str) -> bool:
    # An interpreter that may not read its own library can quietly take another's.
    program = "import os; print(os.__file__, end='')"
    try:
        with _prepared(level, identity, SandboxLimits(), program) as (command, options):
            ran = subprocess.run(command, capture_output=True, timeout=_REAP_S, **options)
    except (SandboxUnavailable, FileNotFoundError, PermissionError, subprocess.TimeoutExpired):
        return False  # no launcher or interpreter, one not for us, or one that hangs
    return ran.returncode == 0 and ran.stdout.decode() == os.__file__ and ran.stderr == _READY


def _tool(name: str) -> str:
    """The path of a launcher's tool, which the empty environment could not find by name."""
    path = shutil.which(name)
    if path is None:
        raise SandboxUnavailable(f"{name} is not on PATH")
    return path


def _user(level: str, identity: str, uid: int) -> list[str]:
    """The command in front of the interpreter that gives up the caller's rights, for good."""
    if identity == "uid":
        ids = ["--reuid", str(uid), "--regid", str(uid), "--clear-groups"]
        return [_tool("setpriv"), *ids, *_DROP_ALL]
    return [_tool("setpriv"), *_DROP_ALL] if level == "namespaces" else []


def _visible() -> list[str]:
    """The host's folders that a walled program sees, read-only."""
    libraries = sorted(str(path) for path in Path("/").glob("lib*"))
    prefix = [] if Path(sys.base_prefix).is_relative_to("/usr") else [sys.base_prefix]
    return ["/usr", *libraries, *prefix]


def _bubblewrap(user: list[str], identity: str, scratch: str, limits: SandboxLimits) -> list[str]:
    size = str(limits.file_mb * 2**20)
    rights = ["--cap-drop", "ALL"]
    if identity == "uid":  # setpriv, which comes next, needs these to give up the rest
        for capability in ("CAP_SETUID", "CAP_SETGID", "CAP_SETPCAP"):
            rights += ["--cap-add", capability]
    else:
        rights += ["--unshare-user", "--disable-userns"]
    return [
        # No --new-session: we start one, and a launcher half-way has no other tie than its group.
        *(_tool("bwrap"), "--die-with-parent", *rights),
        *("--unshare-ipc", "--unshare-pid", "--unshare-net", "--unshare-uts"),
        *(word for path in _visible() for word in _bind(path)),
        *("--dev", "/dev", "--perms", "1777", "--size", size, "--tmpfs", "/tmp"),
        *("--perms", "0777", "--dir", "/tmp/scratch", "--chdir", "/tmp/scratch"),
        *("--remount-ro", "/dev", "--remount-ro", "/", "--", *user),
    ]


def _bind(path: str) -> list[str]:
    above = [str(folder) for folder in reversed(Path(path).parents)][1:]
    opened = [word for folder in above for word in ("--perms", "0755", "--dir", folder)]
    return [*opened, "--ro-bind", path, path]


def _namespaces(user: list[str], identity: str, scratch: str, limits: SandboxLimits) -> list[str]:
    own = ["--user", "--map-root-user"] if identity == "userns" else []
    return [
        # If we die, so does unshare, then the first process of the namespace, then all in it.
        *(_tool("setpriv"), "--pdeathsig", "KILL", _tool("unshare"), *own, "--net", "--pid"),
        *("--fork", "--ipc", "--uts", "--mount", "--kill-child", _tool("sh"), "-c"),
        *(_pivot_script(limits), "sh", scratch, *user),
    ]


def _pivot_script(limits: SandboxLimits) -> str:
    """Shell: make $1 a root folder that holds only what is visible, enter it, run the rest.

    The shell stays as the namespace's first process, out of the program's reach: the program could
    undo the death signal that ties its own process to ours, but not the shell's.
    """
    # A user namespace may not lift nosuid and nodev where the host has set them; we want both.
    bind = "mount --rbind -o ro,nosuid,nodev"
    quoted = [(shlex.quote(path), shlex.quote(path.lstrip("/"))) for path in _visible()]
    lines = [
        "set -e; umask 0; PATH=/usr/sbin:/usr/bin:/sbin:/bin",
        f'mount -t tmpfs -o size={limits.file_mb}m,mode=755,nosuid,nodev tmpfs "$1"',
        'cd "$1"; shift',
        " ".join(["mkdir -p old proc dev tmp/scratch", *(inside for _, inside in quoted)]),
        ": > dev/null; mount --bind /dev/null dev/null",
        *(f"{bind} {path} {inside}" for path, inside in quoted),
        "mount --rbind /proc proc",  # umount looks into it, last of all when it goes itself
        "pivot_root . old; umount -n -l /old /proc; cd /tmp/scratch; umask 022",
        '"$@" || exit $?',
        "exit 0",
    ]
    return "\n".join(lines)


def _limits(user: list[str], identity: str, scratch: str, limits: SandboxLimits) -> list[str]:
    return user


_LAUNCHERS: dict[str, Callable[[list[str], str, str, SandboxLimits], list[str]]] = {
    "bubblewrap": _bubblewrap,
    "namespaces": _namespaces,
    "limits": _limits,
}


def _child_command(level: str, identity: str, limits: SandboxLimits) -> list[str]:
    """The interpreter and, as text, the functions below: the module itself is out of its sight."""
    mebibytes = 2**20
    resources = {
        "RLIMIT_CPU": math.floor(limits.seconds) + 1,  # so that the wall clock strikes first
        "RLIMIT_AS": limits.memory_mb * mebibytes,
        "RLIMIT_FSIZE": limits.file_mb * mebibytes,
        "RLIMIT_NOFILE": 64,  # plenty for a program of one file
        "RLIMIT_CORE": 0,
    }
    if identity != "same":  # elsewhere it would count all that the caller runs
        resources["RLIMIT_NPROC"] = limits.processes
    source = "".join(inspect.getsource(function) for function in (run_inside, fence, show_error))
    call = f"run_inside({resources!r}, {_READY!r}, {_ENVIRONMENT!r}, {level == 'limits'})"
    version = f"python{sys.version_info.major}.{sys.version_info.minor}"
    interpreter = os.path.join(sys.base_prefix, "bin", version)
    return [interpreter, "-I", "-S", "-B", "-X", "utf8", "-c", f"{source}\n{call}"]
