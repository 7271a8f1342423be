"""CPU and memory of processes, from Linux's /proc, and CPU affinity.

In: the process that owns a router. Out: CPU seconds and memory of all below it. Imports nothing of
ours: the load is a process of its own that starts a hundred times in a run of the bench, and with
the platform's packages each start would take half a second. With two cores or more the router has
the first for itself; clients and mock engines share the rest, so that "requests per second" is what
one core does.
"""

import contextlib
import os
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

TICKS_PER_S = os.sysconf("SC_CLK_TCK")
PAGE_MB = os.sysconf("SC_PAGE_SIZE") / 1e6
ENDED_FIELDS = slice(13, 15)  # cutime, cstime in /proc/PID/stat, after the command's bracket
CPU_CLOCK = 2  # Linux's CPUCLOCK_SCHED: a process' user and system time, by the nanosecond
PIN = (
    "import os, sys; os.sched_setaffinity(0, map(int, sys.argv[1].split(','))); "
    "os.execvp(sys.argv[2], sys.argv[2:])"
)


def cores() -> tuple[list[int], list[int]]:
    """The router's cores, and those of everything else; the same if there is only one."""
    first, *rest = sorted(os.sched_getaffinity(0))
    return [first], rest or [first]


def pinned(command: Sequence[str], where: Sequence[int]) -> list[str]:
    """The command that runs `command` on these cores only; the process id stays the same."""
    return [sys.executable, "-I", "-S", "-c", PIN, ",".join(map(str, where)), *command]


def below(owner: int) -> Iterator[int]:
    """The processes whose ancestor is `owner`."""
    parents: dict[int, int] = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):  # one that has just ended
            parents[int(stat.parent.name)] = int(stat.read_text().rpartition(")")[2].split()[1])
    for pid in parents:
        ancestor = parents[pid]
        while ancestor not in (owner, 0):
            ancestor = parents.get(ancestor, 0)
        if ancestor == owner:
            yield pid


def cpu_s(owner: int) -> float:
    """CPU seconds of all processes below `owner`, user and system, including ended children.

    Running processes are read from their clock, because /proc counts in ticks of 10 ms: too coarse
    for a second of streams. Ended ones are in their parent's ticks.
    """
    seconds = 0.0
    for pid in below(owner):
        with contextlib.suppress(OSError):
            fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
            seconds += sum(map(int, fields[ENDED_FIELDS])) / TICKS_PER_S
            seconds += time.clock_gettime(~pid << 3 | CPU_CLOCK)
    return seconds


def rss_mb(owner: int) -> float:
    """Resident memory of all processes below `owner`; shared pages count in each."""
    pages = 0
    for pid in below(owner):
        with contextlib.suppress(OSError):
            pages += int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    return pages * PAGE_MB
