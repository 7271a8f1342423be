"""Watches a run's total memory and processes: its launcher's id in, a violated limit out.

The kernel's limits apply to each process. Only a control group limits a whole run, and few machines
provide one. So one scan of /proc serves every run that lasts longer than a tenth of a second; scans
take at most a twentieth of a core.
"""

import asyncio
import os
import threading
import time
from pathlib import Path

from tutti.tasks.sandbox.values import SandboxLimits

LOOK_S = 0.1  # interval of the checks; a program can exceed a limit for at most this long

_SHARE = 0.05  # of one core, for the checks
_PAGE = os.sysconf("SC_PAGE_SIZE")
_MEBIBYTE = 2**20


class ProcessWatch:
    """Observes runs from outside; one per process suffices."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._children: dict[int, list[int]] = {}
        self._taken_at = -1e9
        self._cost_s = 0.0

    async def trouble(self, launcher: int, limits: SandboxLimits, every_s: float = LOOK_S) -> str:
        """Check regularly; returns the limit that the run below `launcher` violates."""
        found = ""
        while not found:
            await asyncio.sleep(max(every_s, self._cost_s / _SHARE))
            found = await asyncio.to_thread(self.look, launcher, limits)
        return found

    def look(self, launcher: int, limits: SandboxLimits) -> str:
        """The limit that the run below `launcher` violates; "" if none, or if it has ended."""
        below = self._below(launcher)
        if not below:
            return ""
        made = _files(below[-1], limits.file_mb * _MEBIBYTE)
        if made > limits.files:
            return f"{made} files, at most {limits.files}"
        resident = sum(map(_resident_bytes, below))
        if resident > limits.total_mb * _MEBIBYTE:  # pages shared by processes count once
            resident = sum(map(_proportional_bytes, below))
        if resident > limits.total_mb * _MEBIBYTE:
            return f"{resident // _MEBIBYTE} MiB in all, at most {limits.total_mb}"
        return ""

    def _below(self, launcher: int) -> list[int]:
        """The processes below `launcher`, parents first, with orphans of its namespace."""
        with self._lock:
            if time.monotonic() - self._taken_at > LOOK_S / 2:
                self._take()
            children = self._children
        found, fresh = list[int](), [launcher]
        while fresh:
            fresh = [child for parent in fresh for child in children.get(parent, ())]
            found += fresh
        return found

    def _take(self) -> None:
        began = time.thread_time()
        children: dict[int, list[int]] = {}
        for name in os.listdir("/proc"):
            if name.isdecimal() and (parent := _parent(name)):
                children.setdefault(parent, []).append(int(name))
        self._children, self._taken_at = children, time.monotonic()
        self._cost_s = time.thread_time() - began


WATCH = ProcessWatch()


def _parent(pid: str) -> int:
    try:
        with open(f"/proc/{pid}/stat", "rb") as stat:
            return int(stat.read().rpartition(b")")[2].split()[1])
    except (OSError, IndexError):
        return 0


def _files(pid: int, size_bytes: int) -> int:
    """Number of files and folders of the run, as one of its processes sees them."""
    try:
        found = os.statvfs(f"/proc/{pid}/root/tmp")
    except OSError:  # it has just ended
        return 0
    # otherwise it has not entered its isolation yet
    walled = found.f_blocks * found.f_frsize == size_bytes
    return found.f_files - found.f_ffree if walled else 0


def _resident_bytes(pid: int) -> int:
    try:
        return int(Path(f"/proc/{pid}/statm").read_bytes().split()[1]) * _PAGE
    except (OSError, IndexError):
        return 0


def _proportional_bytes(pid: int) -> int:
    """Resident and swapped memory, with a page shared by n processes counted as 1/n."""
    try:
        text = Path(f"/proc/{pid}/smaps_rollup").read_text()
    except PermissionError:
        return _resident_bytes(pid)  # an overestimate is better than nothing
    except OSError:
        return 0
    sizes = (line.split() for line in text.splitlines()[1:])
    return sum(int(words[1]) * 1024 for words in sizes if words[0] in ("Pss:", "SwapPss:"))
