"""The store's bench: ``python -m bench.store [--repeats 5] [--attempts N] [--small] [--keep DIR]``.

In: nothing; all data is made up here, seeded. Out: a table and one line of JSON (bench/report.py).
Ingest beside Inspect, JSONL and SQLite on the same trajectories; bytes on disk of the same subset;
questions to a store of a million attempts; what recording costs an event loop. ``--small`` is for
tests of the bench itself: its figures mean nothing.
"""

import argparse
import gc
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from time import process_time

from bench.report import Report, Target, seconds_of
from bench.store.build import Shape, build, look_up
from bench.store.data import Trajectory, trajectories
from bench.store.ingest import (
    ATTEMPT,
    WITH_CALLS,
    catalog_bytes,
    ingest,
    store_bytes,
    write_jsonl,
    write_sqlite,
)
from bench.store.inspect import InspectLog, available, run_inspect, write_again
from bench.store.queries import measure_queries, measure_starts
from bench.store.record import measure_record
from tutti import storage
from tutti.storage.maintenance import compact

SMALL = Shape(attempts=20_000, small_cell=100, seconds=600.0)


@dataclass(frozen=True)
class Sizes:
    """The amount of data measured."""

    attempts: int
    """Ingested in each repeat."""
    subset: int
    """The part of them that the slow peers write and whose bytes are compared."""
    record_s: float
    shape: Shape


@dataclass
class Rates:
    """One contestant's rates, per repeat."""

    per_s: list[float] = field(default_factory=list)
    cpu_us: list[float] = field(default_factory=list)


Contestant = tuple[int, Callable[[], float]]
"""Attempts, and the function that writes them and returns its seconds."""


class Folders:
    """Fresh places under one temporary folder."""

    def __init__(self, root: Path) -> None:
        self.root, self._count = root, 0

    def fresh(self) -> Path:
        """An unused path."""
        self._count += 1
        return self.root / str(self._count)


def measure_ingest(
    report: Report, folders: Folders, given: Sequence[Trajectory], sizes: Sizes
) -> None:
    """Rates: ours in several forms and the peers', in turn."""
    subset = given[: sizes.subset]
    peer = run_inspect(folders.fresh(), subset) if available() else None
    runs = contestants(folders, given, subset, peer)
    found: dict[str, Rates] = {name: Rates() for name in runs}
    gc.collect()
    gc.freeze()  # millions of prepared rows are not garbage, and should not be scanned
    for _ in range(report.repeats):
        for name, (count, run) in runs.items():
            run()  # the previous contestant left caches and memory in a different state; warm up
            gc.collect()  # not of the next one's time
            cpu = process_time()
            found[name].per_s.append(count / run())
            found[name].cpu_us.append((process_time() - cpu) / count * 1e6)
    gc.unfreeze()
    _report_rates(report, found)
    home = storage.Home(folders.fresh())
    ingest(home, given, ATTEMPT)
    report.figure("catalog_bytes_per_attempt", [catalog_bytes(home) / len(given)])
    _report_bytes(report, folders, subset, peer, "_fresh")
    repeating = trajectories(sizes.subset, seed=2, repeats=True)
    peer = run_inspect(folders.fresh(), repeating) if available() else None
    _report_bytes(report, folders, repeating, peer, "")


def contestants(
    folders: Folders,
    given: Sequence[Trajectory],
    subset: Sequence[Trajectory],
    peer: InspectLog | None,
) -> dict[str, Contestant]:
    """The contestants with their numbers of attempts; the slow ones write fewer."""
    some = given[: max(1, len(given) // 4)]

    def home() -> storage.Home:
        return storage.Home(folders.fresh())

    runs: dict[str, Contestant] = {
        "ingest": (len(given), lambda: ingest(home(), given, ATTEMPT)),
        "ingest_with_calls": (len(given), lambda: ingest(home(), given, WITH_CALLS)),
        "ingest_entered_singly": (len(some), lambda: ingest(home(), some, ATTEMPT, at_once=1)),
        "jsonl_gz": (len(subset), lambda: write_jsonl(folders.fresh(), subset)),
        "sqlite": (len(subset), lambda: write_sqlite(folders.fresh(), subset, synced=True)),
        "sqlite_unsynced": (
            len(subset),
            lambda: write_sqlite(folders.fresh(), subset, synced=False),
        ),
    }
    if peer is not None:
        log = peer
        runs["inspect_eval"] = (
            len(subset),
            lambda: write_again(log, folders.fresh().with_suffix(".eval"), events=True),
        )
    return runs


def _report_rates(report: Report, found: dict[str, Rates]) -> None:
    for name, rates in found.items():
        if name.startswith("ingest"):
            target = Target(8000, least=True) if name == "ingest" else None
            report.figure(f"{name}_attempts_per_s", rates.per_s, target)
            report.figure(f"{name}_cpu_us", rates.cpu_us)
        else:
            report.peer(name, "attempts_per_s", rates.per_s)
            report.peer(name, "cpu_us", rates.cpu_us)
    report.note(
        "ingest: attempts, messages and scores, entered 256 at a time; with_calls: six calls more; "
        "entered_singly: a synced transaction for each attempt that begins, as the runner does. "
        "Each contestant runs twice in its turn and is timed the second time."
    )


def _report_bytes(
    report: Report,
    folders: Folders,
    subset: Sequence[Trajectory],
    peer: InspectLog | None,
    kind: str,
) -> None:
    """Bytes of the same attempts: ours with their calls, after compaction; the peers' files.

    `kind` is the suffix of the figures' names; empty for trajectories that repeat as a sweep's do.
    """
    home, count = storage.Home(folders.fresh()), len(subset)
    for some in (subset[: count // 2], subset[count // 2 :]):  # a single part is not compacted
        ingest(home, some, WITH_CALLS)
    first = {name: store_bytes(home, [name]) / count for name in WITH_CALLS}
    with storage.open_catalog(home) as catalog:
        compact(catalog, grace_s=0.0)
    ours, ours_bare = (store_bytes(home, tables) / count for tables in (WITH_CALLS, ATTEMPT))
    lines = folders.fresh()
    jsonl = {}
    for tables in (WITH_CALLS, ATTEMPT):
        write_jsonl(lines, subset, tables)
        jsonl[tables] = lines.stat().st_size / count
    report.figure(f"bytes_per_attempt{kind}", [ours])
    report.figure(f"bytes_per_attempt_before_compaction{kind}", [sum(first.values())])
    report.figure(f"bytes_vs_jsonlgz{kind}_ratio", [ours / jsonl[WITH_CALLS]], Target(1.1))
    report.figure(f"bytes_vs_jsonlgz_without_calls{kind}_ratio", [ours_bare / jsonl[ATTEMPT]])
    report.peer("jsonl_gz", f"bytes_per_attempt{kind}", [jsonl[WITH_CALLS]])
    if peer is None:
        report.note("inspect_ai is not installed: no peer for bytes_vs_eval_ratio.")
        return
    bare = folders.fresh().with_suffix(".eval")
    write_again(peer, bare, events=False)
    report.figure(f"bytes_vs_eval{kind}_ratio", [ours / (peer.bytes / count)], Target(1 / 3))
    report.figure(f"bytes_vs_eval_bare{kind}_ratio", [ours_bare / (bare.stat().st_size / count)])
    report.peer("inspect_eval", f"bytes_per_attempt{kind}", [peer.bytes / count])
    report.peer("inspect_eval", f"bytes_per_attempt_bare{kind}", [bare.stat().st_size / count])
    report.peer("inspect_eval", f"run_attempts{kind}_per_s", [count / peer.seconds])
    if not kind:
        report.note(
            "bytes: the same attempts, ours with attempts, messages, calls and scores, the .eval "
            "as `inspect_ai.eval` left it; bare: without calls, and without events; fresh: text "
            "that never repeats, the others: four trials of a task, documents found again."
        )


def large_store(report: Report, folders: Folders, keep: Path | None, shape: Shape) -> Path:
    """Build the requested store, or use one that was kept."""
    root = keep or folders.fresh()
    if not (root / "complete").is_file():
        seconds = seconds_of(lambda: build(storage.Home(root), shape))
        (root / "complete").touch()
        report.figure("build_s", [seconds])
    messages = int(shape.attempts * shape.with_messages) * 12
    report.note(
        f"queries: {shape.attempts:,} attempts in 100 cells, 5 calls each; about {messages:,} "
        "messages of 1 kB (sampled); committed a cell at a time, then compacted."
    )
    return root


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(prog="bench.store", description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--attempts", type=int, default=16_000, help="ingested in each repeat")
    parser.add_argument("--small", action="store_true", help="seconds, to test the bench itself")
    parser.add_argument("--keep", type=Path, help="keep the large store here, and use it again")
    given = parser.parse_args(arguments)
    sizes = Sizes(given.attempts, 300, 4.0, Shape())
    if given.small:
        sizes = Sizes(256, 16, 0.5, SMALL)
    report = Report("store", given.repeats)
    with tempfile.TemporaryDirectory(prefix="tutti-bench-") as folder:
        folders = Folders(Path(folder))
        measure_record(report, sizes.record_s, given.repeats)
        home = storage.Home(large_store(report, folders, given.keep, sizes.shape).absolute())
        built = look_up(home)
        measure_queries(report, home, built, sizes.shape, given.repeats)
        measure_starts(report, home, built, given.repeats)
        measure_ingest(report, folders, trajectories(sizes.attempts, seed=1), sizes)
    report.show()


if __name__ == "__main__":
    main()
