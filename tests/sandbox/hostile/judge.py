"""Judges from outside whether a hostile program was contained: a program in, its breaches out.

Outside, readable with any user's rights, are things that a program could damage or steal: files, a
store with a secret in it, the same secret in our environment, in a victim's and in our keyring,
listening sockets, and a victim process. After each program all are checked, and so are the
remaining processes, the machine's memory, clock and mounts, and the sandbox's result.
"""

import asyncio
import ctypes
import os
import re
import resource
import secrets
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from tests.sandbox.denied import denied_calls
from tests.sandbox.hostile.case import Hostile, prelude
from tutti.tasks.sandbox import Sandbox, SandboxLimits, SandboxResult, Status

_CLOCK_STEP_S = 2.0  # a clock that was set; the machine itself slews it by less
_GRACE_S = 3.0  # a killed run is read and reaped in this time, on a busy machine
_MEMORY_KB = 3 * 2**20  # four runs of half a GiB at once, and what they take between two looks
MARKS = 40
_FIRST_MARKS = (130, 170, 230, 270)  # of `MARKS` marks each, by test worker
_KEY = b"tutti-hostile-canary"
_SESSION_KEYRING = -3
_LEAVING = 0x4 | 0x400  # the kernel's PF_EXITING and PF_SIGNALED
_TEST_FOLDERS = "/pytest-of-"


class Runs(Protocol):
    """Runner of a program: a sandbox, or no sandbox to test the judge."""

    async def run(self, code: str) -> SandboxResult:
        """Run a program to its end or its limits."""
        ...


@dataclass(frozen=True)
class Verdict:
    case: Hostile
    breaches: list[str]
    """"check: what", one a breach; empty when it was contained."""
    result: SandboxResult


@dataclass
class Outside:
    """The world outside that all programs of a series share."""

    folder: Path
    secret: str = field(default_factory=lambda: secrets.token_hex(16))
    lowest_kb: int = field(default_factory=lambda: _available_kb())

    def __post_init__(self) -> None:
        environment = {"TUTTI_SECRET": self.secret}
        self.victim = subprocess.Popen(["sleep", "3600"], env=environment, start_new_session=True)
        self.victim_was = _looks(self.victim.pid)
        self.host_was, self.drift_was_s = _host(), _clock_drift_s()
        self.memory_was_kb, self.others_were_kb = self.lowest_kb, _others_kb()
        self.has_keyring = _keep_key(self.secret)

    def breaches(self, case: Hostile, place: "Place", result: SandboxResult) -> Iterator[str]:
        """Yield the breaches found by every check after the program has ended."""
        said = result.output + result.stdout + result.stderr
        if self.secret in said or self.secret[::-1] in said:
            yield "secret: it is in the output"
        yield from _said(case, result)
        yield from place.breaches()
        if _looks(self.victim.pid) != self.victim_was:
            yield f"victims: {_looks(self.victim.pid)} was {self.victim_was}"
        if result.seconds - result.start_s > case.seconds + _GRACE_S:
            yield f"time: {result.seconds - result.start_s:.1f} s of {case.seconds}"
        if left := until_none(lambda: processes_limited_to(place.mark_mb)):
            yield f"processes: {left} are left"
        if (now := _host()) != self.host_was:
            yield f"host: {now} was {self.host_was}"
        if abs(_clock_drift_s() - self.drift_was_s) > _CLOCK_STEP_S:
            yield f"host: the clock was set by {_clock_drift_s() - self.drift_was_s:.1f} s"
        if self.memory_was_kb - self.lowest_kb > _MEMORY_KB:
            yield f"memory: {(self.memory_was_kb - self.lowest_kb) >> 10} MiB were taken"


class Place:
    """The world outside of a single program: its folder, its sockets, and its processes' mark."""

    def __init__(self, outside: Outside, number: int) -> None:
        self.mark_mb = first_mark() + number
        self._folder = outside.folder / str(number)
        store = self._folder / "store"
        store.mkdir(parents=True)
        for path in (self._folder / "canary", self._folder / "secret", store / "catalog.db"):
            path.write_text(f"as it was, {outside.secret}")
            path.chmod(0o666)  # so that nothing but the walls keeps a program out
        for path in (self._folder, store):
            path.chmod(0o777)
        abstract = "\0tutti-" + secrets.token_hex(8)
        self._sockets = dict(self._listening(abstract))
        self.known = {
            "FOLDER": str(self._folder),
            "CANARY": str(self._folder / "canary"),
            "SECRET_FILE": str(self._folder / "secret"),
            "STORE": str(store),
            "PARENT": os.getpid(),
            "VICTIM": outside.victim.pid,
            "KEY": _KEY,
            "HOME": str(Path.home()),
            "SOURCES": str(Path(__file__).resolve().parents[3]),
            "ADDRESS": _address(),
            "TCP": self._sockets["TCP"].getsockname()[1],
            "UDP": self._sockets["UDP"].getsockname()[1],
            "UNIX": str(self._folder / "listening"),
            "ABSTRACT": abstract,
        }
        self._was = self._look()

    def _listening(self, abstract: str) -> Iterator[tuple[str, socket.socket]]:
        yield "TCP", _listen_on_all()
        for kind, where in (("UNIX", str(self._folder / "listening")), ("ABSTRACT", abstract)):
            listening = socket.socket(socket.AF_UNIX)
            listening.bind(where)
            listening.listen()
            yield kind, listening
        (self._folder / "listening").chmod(0o777)
        datagrams = socket.socket(type=socket.SOCK_DGRAM)
        datagrams.bind(("0.0.0.0", 0))
        yield "UDP", datagrams

    def _look(self) -> dict[str, tuple[int, int, bytes]]:
        seen = {}
        for path in sorted(self._folder.rglob("*")):
            found = path.lstat()
            data = path.read_bytes() if path.is_file() else b""
            seen[str(path)] = (found.st_mode, found.st_mtime_ns, data)
        return seen

    def breaches(self) -> Iterator[str]:
        """Yield what the program changed or accessed."""
        if self._look() != self._was:
            yield f"canary: the folder now has {sorted(self._look())}"
        for name, listening in self._sockets.items():
            listening.setblocking(False)
            with suppress(BlockingIOError):
                if name == "UDP":
                    listening.recv(1)
                else:
                    listening.accept()[0].close()
                yield f"sockets: {name} was reached"

    def close(self) -> None:
        for listening in self._sockets.values():
            listening.close()


async def judge_all(
    cases: Sequence[Hostile],
    outside: Outside,
    runner: Callable[[SandboxLimits], Runs],
    at_once: int = 4,
) -> list[Verdict]:
    """Run every program, a few at once, each in its own place."""
    room = asyncio.Semaphore(at_once)

    async def judge(number: int, case: Hostile) -> Verdict:
        async with room:
            place = Place(outside, number)
            try:
                limits = SandboxLimits(seconds=case.seconds, memory_mb=place.mark_mb)
                result = await runner(limits).run(prelude(**place.known) + case.code)
                breaches = await asyncio.to_thread(_listed, outside, case, place, result)
            finally:
                place.close()
            return Verdict(case, breaches, result)

    return await asyncio.gather(*(judge(*numbered) for numbered in enumerate(cases)))


def judge_at(level: str, cases: Sequence[Hostile], at_once: int = 4) -> list[Verdict]:
    """Judge all `cases` at one level, with a world outside that is created for them and removed
    again."""
    Sandbox(level)
    with world() as outside:
        return asyncio.run(
            judge_all(cases, outside, lambda limits: Sandbox(level, limits), at_once)
        )


@contextmanager
def world() -> Iterator[Outside]:
    """Yield a world outside in a folder that every user may enter; it also holds the scratch
    folders."""
    root = Path(tempfile.mkdtemp(prefix="tutti-hostile-"))
    root.chmod(0o777)
    (root / "scratch").mkdir(mode=0o755)
    outside, before = Outside(root / "places"), tempfile.tempdir
    tempfile.tempdir = str(root / "scratch")
    os.environ["TUTTI_SECRET"] = outside.secret
    stop = threading.Event()
    sampler = threading.Thread(target=_sample, args=(outside, stop))
    sampler.start()
    try:
        yield outside
        assert not list((root / "scratch").iterdir()), "scratch folders are left"
        assert not until_none(_processes_of_our_runs), "processes are left"
    finally:
        stop.set()
        sampler.join()
        tempfile.tempdir = before
        del os.environ["TUTTI_SECRET"]
        outside.victim.kill()
        outside.victim.wait()
        shutil.rmtree(root)


def _listed(outside: Outside, case: Hostile, place: Place, result: SandboxResult) -> list[str]:
    return list(outside.breaches(case, place, result))


def first_mark() -> int:
    """Return the MiB of address space of a series' first program; each next one has one more.

    The number distinguishes a program's processes from all others, including those of other test
    workers.
    """
    worker = os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw")
    return _FIRST_MARKS[int(worker) % len(_FIRST_MARKS)]


def _marks() -> range:
    return range(first_mark(), first_mark() + MARKS)


def until_none(look: Callable[[], list[int]], seconds: float = 20.0) -> list[int]:
    """Return what `look` still returns after `seconds`, or at once when it returns nothing."""
    deadline = time.monotonic() + seconds
    while (found := look()) and time.monotonic() < deadline:
        time.sleep(0.01)
    return found


def processes_limited_to(*memory_mb: int) -> list[int]:
    """Return the processes with such an address space, whatever their names."""
    wanted = {str(each * 2**20) for each in memory_mb}
    found = []
    for pid in _pids():
        with suppress(OSError):  # it ended while we looked
            lines = Path(f"/proc/{pid}/limits").read_text().splitlines()
            space = next((line for line in lines if line.startswith("Max address space")), "")
            if {*space.split()[4:5]} & wanted:
                found.append(pid)
    return found


def _processes_of_our_runs() -> list[int]:
    """Return the processes under the user ids that this process's runs get as root."""
    first = 2**30 + os.getpid() % 2**22 * 2**8
    found = []
    for pid in _pids():
        with suppress(OSError):
            if first <= os.stat(f"/proc/{pid}").st_uid < first + 2**8:
                found.append(pid)
    return found


def _pids() -> list[int]:
    return [int(name) for name in os.listdir("/proc") if name.isdecimal()]


def _said(case: Hostile, result: SandboxResult) -> Iterator[str]:
    said = result.output
    if "ESCAPED" in said:
        yield f"output: it says {said[said.index('ESCAPED') :][:200]!r}"
    if case.says not in said:
        yield f"output: no {case.says!r} in {said[-300:]!r}"
    if result.status not in case.ends:
        yield f"output: it ended {result.status!r}, not {case.ends}: {said[-300:]!r}"
    if len(said) > SandboxLimits().output_chars:
        yield f"output: {len(said)} characters"


def _looks(pid: int) -> tuple[str, int, object, object]:
    """Return the state of a process that others may have changed: state, priority, cores, and limit
    on files.

    A signal takes effect only when the machine schedules the process: until then it is pending, or
    the process is exiting.
    """
    try:
        stat = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        status = Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return ("gone", 0, None, None)
    pending = any(int(mask, 16) for mask in re.findall(r"^S[ih][gd]Pnd:\t(\w+)", status, re.M))
    is_leaving = int(stat[6]) & _LEAVING
    state = "signalled" if pending or is_leaving else "lives" if stat[0] in "SRD" else stat[0]
    limit = resource.prlimit(pid, resource.RLIMIT_NOFILE)
    return (state, int(stat[16]), os.sched_getaffinity(pid), limit)


def _host() -> tuple[str, str]:
    """Return the values that no program may change, besides the clock: the machine's name and its
    mounts.

    The mounts of the store's tests, which mount disks in their own folders at the same time, are
    left out.
    """
    lines = Path("/proc/self/mounts").read_text().splitlines()
    return (socket.gethostname(), "\n".join(line for line in lines if _TEST_FOLDERS not in line))


def _clock_drift_s() -> float:
    """Return the offset between the clock and one that cannot be set; the machine itself slews it
    by milliseconds."""
    return time.time() - time.monotonic()


def _address() -> str:
    """Return one of this machine's own addresses, or 127.0.0.1 if it has no other."""
    with socket.socket(type=socket.SOCK_DGRAM) as one:
        try:
            one.connect(("192.0.2.1", 9))  # sends nothing
        except OSError:
            return "127.0.0.1"
        return str(one.getsockname()[0])


def _listen_on_all() -> socket.socket:
    """Listen at every address, for both families if available."""
    with suppress(OSError):
        return socket.create_server(("::", 0), family=socket.AF_INET6, dualstack_ipv6=True)
    return socket.create_server(("0.0.0.0", 0))


def _sample(outside: Outside, stop: threading.Event) -> None:
    while not stop.wait(0.02):
        available_kb = _available_kb()
        if outside.memory_was_kb - available_kb > _MEMORY_KB:  # engines of other tests may start
            available_kb += _others_kb() - outside.others_were_kb
        outside.lowest_kb = min(outside.lowest_kb, available_kb)


def _available_kb() -> int:
    lines = Path("/proc/meminfo").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("MemAvailable"))


def _others_kb() -> int:
    """Return the private memory of each process that is not one of our runs."""
    of_runs, pages = {*_processes_of_our_runs(), *processes_limited_to(*_marks())}, 0
    for pid in _pids():
        with suppress(OSError):
            _, resident, shared, *_ = Path(f"/proc/{pid}/statm").read_text().split()
            pages += 0 if pid in of_runs else int(resident) - int(shared)
    return pages * resource.getpagesize() >> 10


def _keep_key(secret: str) -> bool:
    """Put the secret into our session's keyring, readable by all; return false if there is no
    keyring."""
    numbers, library = denied_calls(), ctypes.CDLL(None)
    if "add_key" not in numbers:
        return False
    ring = ctypes.c_int(_SESSION_KEYRING)
    data = secret.encode()
    key = library.syscall(numbers["add_key"], b"user", _KEY, data, len(data), ring)
    if key > 0:
        set_permissions, all_rights = 5, 0x3F3F3F3F
        library.syscall(numbers["keyctl"], set_permissions, key, all_rights)
    return bool(key > 0)


class NoWalls:
    """Runner of a program as a plain process, which the judge must report as an escape."""

    def __init__(self, limits: SandboxLimits) -> None:
        self._limits = limits

    async def run(self, code: str) -> SandboxResult:
        """Run a program with nothing but its time limit and its mark."""
        began = time.monotonic()
        space = self._limits.memory_mb * 2**20

        def mark() -> None:
            resource.setrlimit(resource.RLIMIT_AS, (space, space))

        command = [sys.executable, "-c", code]
        ran = await asyncio.to_thread(
            subprocess.run, command, capture_output=True, text=True, preexec_fn=mark, timeout=20
        )
        status: Status = "error" if ran.returncode else "ok"
        return SandboxResult(
            ran.stdout + ran.stderr,
            status,
            time.monotonic() - began,
        )
