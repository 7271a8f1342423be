"""Task synthesis by programs: ``make bench-synthesis``, about half an hour.

`gated_tasks_per_s`: tasks that passed every gate, each domain in turn, one process; and by two.
`byte_equal`: 1 if one and four processes made the same files. `rss_mb_half` and `rss_mb_end`:
resident memory of the process that makes a large set (`--large`), after half of it and at its end,
before its rows are committed. `oracle_share`, `no_op_share`, `blind_share`: of `--loop` tasks of
each domain through the agent loop (40; the issue's figure is for 1,000: ``--loop 1000``).
`defects_caught_share`: planted defects that the gate meant for them caught; `false_drops`: of
`--good` tasks without a defect in each domain, those that a gate dropped. `--only` measures some of
these parts alone.
"""

import argparse
import asyncio
import hashlib
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from bench.report import Report, Target
from bench.synthesis.loop import LoopScores, score_by_loop
from bench.synthesis.planted import plant
from tests.synthesis.made import made_set
from tutti.storage import Catalog, Home, open_catalog
from tutti.tasks.synthesis import (
    PROGRAMS,
    DomainRequest,
    DomainSource,
    count_gates,
    gate_lines,
)

REPEATS = 3
PROCESSES = 2
COMPARED = 4
LARGE = ("arithmetic", 100_000)
SHOWN = 3
"""False drops of a domain that are printed."""
PARTS = ("speed", "equal", "planted", "large", "loop")
MEMORY = "memory after"
SAMPLES = 10
"""Of memory and speed, while the large set is made."""


def main() -> None:
    """Parse flags, measure, print."""
    parser = argparse.ArgumentParser(prog="bench.synthesis", description=__doc__)
    parser.add_argument("--size", type=int, default=1_000, help="tasks of each domain's set")
    parser.add_argument(
        "--large", type=int, default=LARGE[1], help="tasks of the large set; 0: none"
    )
    parser.add_argument("--good", type=int, default=1_000, help="good tasks that defects go among")
    parser.add_argument("--loop", type=int, default=40, help="tasks of each domain in the loop")
    parser.add_argument("--only", nargs="+", choices=PARTS, default=PARTS, help="parts to measure")
    parser.add_argument("--large-in", type=Path, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.large_in is not None:
        _large(given.large_in, given.large)
        return
    report = Report("synthesis", REPEATS)
    report.note(f"load when it began: {os.getloadavg()[0]:.1f} on {os.cpu_count()} processors")
    measures: dict[str, Callable[[], None]] = {
        "speed": lambda: _speed(report, given.size),
        "equal": lambda: _equal(report, given.size),
        "planted": lambda: _planted(report, given.good),
        "large": lambda: _large_apart(report, given.large),
        "loop": lambda: _loop(report, given.size, given.loop),
    }
    for part in PARTS:
        if part in given.only:
            print(f"measuring: {part}", file=sys.stderr, flush=True)
            measures[part]()
    report.note(f"load when it ended: {os.getloadavg()[0]:.1f}")
    report.show()


@contextmanager
def store() -> Iterator[Catalog]:
    """An empty store in a temporary folder."""
    with tempfile.TemporaryDirectory() as folder, open_catalog(Home(Path(folder))) as catalog:
        yield catalog


def request(domain: str, size: int, seed: int = 0, workers: int = 1) -> DomainRequest:
    """As a user asks, without comparing with benchmarks: the store is empty."""
    return DomainRequest(domain=domain, size=size, seed=seed, workers=workers)


def _speed(report: Report, size: int) -> None:
    alone: list[float] = []
    together: list[float] = []
    for domain in PROGRAMS:
        own = []
        for seed in range(REPEATS):
            rate, gates = _rate(request(domain, size, seed))
            own.append(rate)
            together.append(_rate(request(domain, size, seed, PROCESSES))[0])
        report.note(f"{domain}, {size} tasks\n{gates}")
        report.figure(f"{domain}_tasks_per_s", own)
        alone += own
    report.figure("gated_tasks_per_s", alone, Target(200, least=True))
    report.figure("gated_tasks_by_two_per_s", together, Target(200, least=True))


def _rate(asked: DomainRequest) -> tuple[float, str]:
    """Tasks that passed, a second, and what each gate dropped."""
    with store() as catalog:
        began = time.perf_counter()
        made = made_set(DomainSource(asked), catalog)
        rate = asked.size / (time.perf_counter() - began)
        return rate, gate_lines(count_gates(catalog.home, made))


def _equal(report: Report, size: int) -> None:
    """Every domain by one process and by four."""
    same = []
    for domain in PROGRAMS:
        made = []
        for workers in (1, COMPARED):
            with store() as catalog:
                task_set = made_set(DomainSource(request(domain, size, 0, workers)), catalog)
                made.append((task_set, _hash(catalog.home.artifact_folder(task_set))))
        same.append(float(made[0] == made[1]))
    report.figure("byte_equal", [min(same)], Target(1.0, least=True))


def _hash(folder: Path) -> str:
    found = hashlib.sha256()
    for file in sorted(folder.rglob("*")):
        if file.is_file():
            found.update(str(file.relative_to(folder)).encode() + file.read_bytes())
    return found.hexdigest()


def _large_apart(report: Report, size: int) -> None:
    """In a process of its own, so that its memory is that of the set alone."""
    if size == 0:
        return
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "bench.synthesis", "--large-in", folder]
        done = subprocess.run(
            [*command, "--large", str(size)], stdout=subprocess.PIPE, text=True, check=True
        )
    lines = [line for line in done.stdout.splitlines() if line.startswith(MEMORY)]
    held = [float(line.split()[-2]) for line in lines]
    report.note(f"{size:,} tasks of {LARGE[0]}, {PROCESSES} processes\n" + "\n".join(lines))
    report.figure("rss_mb_half", [held[len(held) // 2 - 1]])
    report.figure("rss_mb_end", [held[-1]])


def _large(folder: Path, size: int) -> None:
    """Make a large set; prints the memory of this process, without its children, on its way."""
    began, shown = time.perf_counter(), 0

    def show(done: int, total: int, note: str) -> None:
        nonlocal shown
        if done * SAMPLES // total > shown:
            shown = done * SAMPLES // total
            spent = time.perf_counter() - began
            print(f"{MEMORY} {done:,} tasks, {done / spent:.0f} a second: {_rss_mb():.0f} MiB")

    with open_catalog(Home(folder)) as catalog:
        made_set(DomainSource(request(LARGE[0], size, 0, PROCESSES)), catalog, show=show)
    spent = time.perf_counter() - began
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(f"committed after {spent:.0f} s, at most {peak:.0f} MiB")


def _rss_mb() -> float:
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * resource.getpagesize() / 2**20


def _planted(report: Report, good: int) -> None:
    found = {domain: plant(domain, good) for domain in PROGRAMS}
    for domain, each in found.items():
        report.note(
            f"{domain}: {each.caught} of {each.planted} defects caught by their gate, "
            f"{len(each.by_another)} by another, {len(each.missed)} missed"
            f"{''.join(f'; {one}' for one in (*each.by_another, *each.missed))}; "
            f"{len(each.false_drops)} of {each.good} tasks without a defect dropped"
            f"{''.join(f'; {one}' for one in each.false_drops[:SHOWN])}"
        )
    caught = [each.caught / each.planted for each in found.values()]
    report.figure("defects_caught_share", caught, Target(1.0, least=True))
    drops = [float(len(each.false_drops)) for each in found.values()]
    report.figure("false_drops", drops, Target(0.0))


def _loop(report: Report, size: int, limit: int) -> None:
    scores: dict[str, LoopScores] = {}
    for domain in PROGRAMS:
        with store() as catalog:
            made = made_set(DomainSource(request(domain, max(size, limit))), catalog)
            folder = catalog.home.artifact_folder(made)
            scores[domain] = asyncio.run(score_by_loop(domain, folder, limit))
        found = scores[domain]
        report.note(
            f"{domain} through the agent loop, n = {found.n}: solver {found.oracle}, does nothing "
            f"{found.no_op}, blind {found.blind}"
        )
    every = list(scores.values())
    report.figure("oracle_share", [each.oracle / each.n for each in every], Target(1.0, least=True))
    report.figure("no_op_share", [each.no_op / each.n for each in every], Target(0.0))
    report.figure("blind_share", [each.blind / each.n for each in every], Target(0.0))
