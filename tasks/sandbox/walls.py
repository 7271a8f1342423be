"""Building the command that starts a program at an isolation level with limits.

A launcher (bwrap, or unshare and a few mounts) builds the isolation. Then `child` lowers the limits
permanently from inside and runs the program. When started by root, each run gets its own user id:
the kernel does not apply process limits to root, and separate ids keep the counts of runs apart.
"""

import inspect
import itertools
import math
import os
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any

from tutti.tasks.sandbox import child
from tutti.tasks.sandbox.filter import system_call_filter
from tutti.tasks.sandbox.values import SandboxLimits, SandboxUnavailable

LEVELS = ("bubblewrap", "namespaces", "limits")  # the strongest first; see docs/security.md

Enter = Callable[[bytes, dict[str, Any]], None]
"""The first function called on the other side (`child`)."""

READY = b"\0tutti: the program starts here\0"  # stderr before it comes from the launcher

_ENVIRONMENT = {"LANG": "C.UTF-8"}
_PROBE_S = 5.0  # a start takes a twentieth of a second; a busy host gets longer
# a session's CPU limit, in multiples of a cell's: the kernel does not count per cell
_SESSION_CPU = 100
_DROP_ALL = ["--bounding-set", "-all", "--inh-caps", "-all", "--no-new-privs"]

_runs = itertools.count()


def strongest_level() -> str:
    """The first of LEVELS that works here; probed once per process by running a program."""
    return next((level for level in ("bubblewrap", "namespaces") if identity_at(level)), "limits")


def checked_identity(level: str) -> str:
    """The identity of programs at `level`. Raises SandboxUnavailable if it does not work."""
    if sys.platform != "linux":
        raise SandboxUnavailable(f"sandboxes need Linux; this is {sys.platform}")
    if level not in LEVELS:
        raise SandboxUnavailable(f"no level {level!r}; there are {', '.join(LEVELS)}")
    identity = identity_at(level)
    if identity is None:
        raise SandboxUnavailable(f"level {level!r} does not work on this machine")
    return identity


@cache
def identity_at(level: str) -> str | None:
    """The identity of programs at `level`: the first that works here, None if none does.

    "uid": a separate user id (root only); "userns": the caller, alone in a user namespace, where
    the process limit counts from zero; "same": the caller.
    """
    candidates = ["same" if level == "limits" else "userns"]
    if os.geteuid() == 0:
        candidates.insert(0, "uid")
    return next((identity for identity in candidates if _works(level, identity)), None)


@contextmanager
def prepared(
    level: str,
    identity: str,
    limits: SandboxLimits,
    code: str | None,
    enter: Enter | None = None,
) -> Iterator[tuple[list[str], dict[str, Any]]]:
    """The command of one run and its start options; without `code` its input is a pipe."""
    # A user id that nobody else has, not even another run: by process (at most 2**22), then by run.
    uid = 2**30 + os.getpid() % 2**22 * 2**8 + next(_runs) % 2**8
    with tempfile.TemporaryDirectory(prefix="tutti-sandbox-") as scratch, _input(code) as stdin:
        if identity == "uid" and level == "limits":
            os.chown(scratch, uid, uid)
        command = _user(level, identity, uid)
        if level == "bubblewrap":
            command = _bubblewrap(command, identity, limits)
        elif level == "namespaces":
            command = _namespaces(command, identity, scratch, limits)
        enter = enter or (child.serve_cells if code is None else child.run_program)
        command += _child_command(level, identity, limits, enter)
        yield command, {"stdin": stdin, "cwd": scratch, "env": _ENVIRONMENT}


@contextmanager
def _input(code: str | None) -> Iterator[int]:
    if code is None:
        yield subprocess.PIPE
        return
    program = os.memfd_create("program")  # an anonymous file: no length limit, no trace
    try:
        os.write(program, code.encode("utf-8", "replace"))
        os.lseek(program, 0, os.SEEK_SET)
        yield program
    finally:
        os.close(program)


def _works(level: str, identity: str) -> bool:
    if level != "limits" and not system_call_filter(walled=True):
        return False
    # An interpreter that cannot read its own library can silently use another one.
    program = "import os; print(os.__file__, end='')"
    try:
        with prepared(level, identity, SandboxLimits(), program) as (command, options):
            ran = subprocess.run(command, capture_output=True, timeout=_PROBE_S, **options)
    except (SandboxUnavailable, FileNotFoundError, PermissionError, subprocess.TimeoutExpired):
        return False  # no launcher or interpreter, no permission, or one that hangs
    return ran.returncode == 0 and ran.stdout.decode() == os.__file__ and ran.stderr == READY


def _tool(name: str) -> str:
    """The path of a launcher's tool: the environment is empty, so that names are not searched."""
    path = shutil.which(name)
    if path is None:
        raise SandboxUnavailable(f"{name} is not on PATH")
    return path


def _user(level: str, identity: str, uid: int) -> list[str]:
    """The command before the interpreter that permanently drops the caller's rights."""
    if identity == "uid":
        ids = ["--reuid", str(uid), "--regid", str(uid), "--clear-groups"]
        return [_tool("setpriv"), *ids, *_DROP_ALL]
    return [_tool("setpriv"), *_DROP_ALL] if level == "namespaces" else []


def _visible(limits: SandboxLimits) -> list[str]:
    libraries = sorted(str(path) for path in Path("/").glob("lib*"))
    prefix = [] if Path(sys.base_prefix).is_relative_to("/usr") else [sys.base_prefix]
    own = [] if limits.python is None else limits.python.folders
    return list(dict.fromkeys(["/usr", *libraries, *prefix, *own, *limits.folders]))


def _bubblewrap(user: list[str], identity: str, limits: SandboxLimits) -> list[str]:
    size = str(limits.file_mb * 2**20)
    rights = ["--cap-drop", "ALL"]
    if identity == "uid":  # setpriv, which comes next, needs these to drop the others
        for capability in ("CAP_SETUID", "CAP_SETGID", "CAP_SETPCAP"):
            rights += ["--cap-add", capability]
    else:
        rights += ["--unshare-user", "--disable-userns"]
    return [
        # No --new-session: we start one, and a launcher that is still starting is tied to us only
        # by its group.
        *(_tool("bwrap"), "--die-with-parent", *rights),
        *("--unshare-ipc", "--unshare-pid", "--unshare-net", "--unshare-uts"),
        *(word for path in _visible(limits) for word in _bind(path)),
        *(("--proc", "/proc") if limits.proc else ()),
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
    """Shell script: make $1 a root folder that holds only what is visible, enter it, run the rest.

    The shell stays as the namespace's first process, out of the program's reach: the program could
    undo the death signal that ties its own process to ours, but not the shell's.
    """
    # A user namespace may not clear nosuid and nodev where the host has set them; we want both.
    bind = "mount --rbind -o ro,nosuid,nodev"
    quoted = [(shlex.quote(path), shlex.quote(path.lstrip("/"))) for path in _visible(limits)]
    room = f"size={limits.file_mb}m,nr_inodes={limits.files}"
    lines = [
        "set -e; umask 0; PATH=/usr/sbin:/usr/bin:/sbin:/bin",
        'mount -t tmpfs -o size=1m,mode=755,nosuid,nodev tmpfs "$1"; cd "$1"; shift',
        " ".join(["mkdir -p old proc dev tmp", *(inside for _, inside in quoted)]),
        f"mount -t tmpfs -o {room},mode=1777,nosuid,nodev tmpfs tmp; mkdir tmp/scratch",
        ": > dev/null; mount --bind /dev/null dev/null",
        *(f"{bind} {path} {inside}" for path, inside in quoted),
        "mount --rbind /proc proc",  # umount looks into it, last of all when it goes itself
        "pivot_root . old; mount -n -o remount,bind,ro,nosuid,nodev none /",
        "umount -n -l /old /proc",
        *(["mount -n -t proc -o ro,nosuid,nodev,noexec proc /proc"] if limits.proc else []),
        "cd /tmp/scratch; umask 022",
        '"$@" || exit $?',
        "exit 0",
    ]
    return "\n".join(lines)


def _child_command(level: str, identity: str, limits: SandboxLimits, enter: Enter) -> list[str]:
    """The interpreter and, as text, the functions of `child`, whose file is not visible there."""
    mebibytes = 2**20
    cpu_s = math.floor(limits.seconds) + 1  # so that the wall-clock limit is reached first
    resources = {
        "RLIMIT_CPU": cpu_s * _SESSION_CPU if enter is child.serve_cells else cpu_s,
        "RLIMIT_AS": limits.memory_mb * mebibytes,
        "RLIMIT_FSIZE": limits.file_mb * mebibytes,
        "RLIMIT_NOFILE": 64,  # plenty for a program of one file
        **dict.fromkeys(("RLIMIT_CORE", "RLIMIT_MEMLOCK", "RLIMIT_MSGQUEUE"), 0),
    }
    if identity != "same":  # otherwise they would count all processes of the caller
        resources["RLIMIT_NPROC"] = limits.processes
        resources["RLIMIT_SIGPENDING"] = 256  # timers are counted here too
    walled = level != "limits"
    settings = {
        "resources": resources,
        "environment": _ENVIRONMENT,
        "call_filter": system_call_filter(walled),
        "walled": walled,
        "files": limits.files,
    }
    call = f"{enter.__name__}({READY!r}, {settings!r})"
    version = f"python{sys.version_info.major}.{sys.version_info.minor}"
    python = [os.path.join(sys.base_prefix, "bin", version), "-I", "-S", "-B"]
    if limits.python is not None:  # the module `site` finds its libraries
        python = [limits.python.executable, "-I", "-B"]
    return [*python, "-X", "utf8", "-c", f"{_child_source()}\n{call}"]


@cache
def _child_source() -> str:
    functions = "".join(inspect.getsource(function) for function in child.SENT)
    return f"from __future__ import annotations\n{functions}"  # the types cannot be imported there
