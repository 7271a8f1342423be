"""`tutti export` of whole sweeps and of training sets, in the formats that read no attempts alone.

In: a sweep's id, or a training set's. Out: files, and an `Exported` that says which. Each function
raises UsageError, also for files that are there already unless `force`.
"""

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import Any

from tutti import storage
from tutti.cli.failures import UsageError
from tutti.tasks import training
from tutti.tasks.exchange import nemo_skills, swe_bench, thunderagent

TRAINING_FORMATS = "alpaca, sharegpt, openai, verl, prime-rl"
TABLES = (
    "attempts messages calls tool_runs retrievals scores server_metrics gateway_events tasks "
    "train_steps runs sweeps cells windows verdicts results"
).split()


@dataclass(frozen=True)
class Exported:
    """What an export says."""

    found: dict[str, Any]
    """For programs."""
    words: str
    """For people."""
    notes: Sequence[str] = ()
    """For standard error."""


@dataclass(frozen=True)
class SweepExport:
    """A whole sweep, and where it goes."""

    catalog: "storage.Catalog"
    sweep_id: str
    out: Path
    force: bool
    window: str = "600,7800"
    """Of ThunderAgent's summaries: start and end in seconds, with a comma."""

    def cells(self, superseded: bool = False) -> list[dict[str, Any]]:
        """The cells of the sweep, also those that another cell took the place of."""
        from tutti.storage import catalog as cat

        rows = cat.cells.select().where(cat.cells.c.sweep_id == self.sweep_id)
        kept = rows if superseded else rows.where(cat.cells.c.status != cat.SUPERSEDED)
        return self.catalog.rows(kept)

    def refuse_existing(self, paths: Iterable[Path]) -> None:
        """Raise UsageError for the first of `paths` that exists, unless files are replaced."""
        if taken := [path for path in paths if path.exists() and not self.force]:
            raise UsageError(f"{taken[0]}: exists already; --force replaces it")


def _set_up(cell: Mapping[str, object]) -> str:
    load = "" if cell["concurrency"] is None else f"_c{cell['concurrency']}"
    repeat = "a_a" if cell["repeat"] == -1 else f"rep{cell['repeat']}"
    return f"{cell['model']}_{cell['policy'] or 'unknown'}{load}_{repeat}".replace("/", "-")


def write_outputs(asked: SweepExport) -> dict[str, "nemo_skills.WrittenRun"]:
    """A folder a set-up (model, policy, concurrency, repeat) with all of its benchmarks, by name.

    One set-up alone is written into `out` itself. Raises UsageError for a sweep without counted
    attempts.
    """
    found = sorted(asked.cells(), key=lambda cell: (_set_up(cell), cell["position"]))
    set_ups = {name: list(cells) for name, cells in groupby(found, _set_up)}
    folders = {name: asked.out / name if len(set_ups) > 1 else asked.out for name in set_ups}
    places = [folder / nemo_skills.RESULTS for folder in folders.values()]
    asked.refuse_existing(places)
    for results in places:
        for file in (*results.glob("*/output*.jsonl"), *results.glob("metrics.json")):
            file.unlink()
    written = {}
    with closing(storage.connect(asked.catalog.home, macros=["counted"])) as connection:
        for name, cells in set_ups.items():
            named = [(cell["cell_id"], cell["benchmark"]) for cell in cells]
            written[name] = nemo_skills.write_run(connection, named, folders[name])
    if not any(each.rows for each in written.values()):
        raise UsageError(f"{asked.sweep_id} has no attempt that counts")
    return written


def _export_nemo_skills(asked: SweepExport) -> Exported:
    written = write_outputs(asked)
    notes = []
    for name, run in written.items():
        fewer = "tasks have fewer counted trials than others and are left out"
        notes += [f"{name}, {each}: {n} {fewer}" for each, n in run.left_out.items()]
        unnamed = "messages without a role are left out"
        notes += [f"{name}, {each}: {n} {unnamed}" for each, n in run.without_role.items()]
    files = [str(file) for run in written.values() for file in run.files]
    count = sum(run.rows for run in written.values())
    found = {"sweep_id": asked.sweep_id, "attempts": count, "files": files}
    found["left_out"] = {name: run.left_out for name, run in written.items() if run.left_out}
    found["without_role"] = {n: run.without_role for n, run in written.items() if run.without_role}
    words = f"{asked.sweep_id}: {count} attempts in {len(files)} files in {asked.out}"
    return Exported(found, words, notes)


def _export_thunderagent(asked: SweepExport) -> Exported:
    """In a folder a cell ThunderAgent's summary files, and the logs that they are of: usage, prefix
    cache, GPUs."""
    start_s, end_s = _ends(asked.window)
    folders = {
        cell["cell_id"]: asked.out / f"{cell['benchmark']}_{_set_up(cell)}".replace("/", "-")
        for cell in asked.cells()
    }
    asked.refuse_existing(folders.values())
    written: list[Path] = []
    with closing(storage.connect(asked.catalog.home, macros=["reference_window"])) as connection:
        for cell_id, folder in folders.items():
            folder.mkdir(parents=True, exist_ok=True)
            logs = thunderagent.write_logs(connection, cell_id, folder)
            window = thunderagent.over(connection, cell_id, start_s, end_s)
            # The summaries name the logs; the cell where it has no usage.
            names = {name: path.name for name, path in logs.items()}
            files = thunderagent.RunFiles(
                names.get("usage_jsonl", cell_id),
                names.get("metrics_csv"),
                names.get("gpu_util_csv"),
            )
            summaries = {
                "window_summary": thunderagent.window_summary([window], files),
                "steps_summary": thunderagent.steps_summary(window, files),
                "combined_summary": thunderagent.combined_summary([window], files),
            }
            written += logs.values()
            for name, summary in summaries.items():
                path = folder / f"{name}.json"
                path.write_text(json.dumps(summary, indent=2) + "\n")
                written.append(path)
    found = {"sweep_id": asked.sweep_id, "files": [str(file) for file in written]}
    return Exported(found, f"{asked.sweep_id}: {len(written)} files in {asked.out}")


def _ends(window: str) -> tuple[float, float]:
    try:
        start_s, end_s = (float(each) for each in window.split(","))
    except ValueError:
        raise UsageError(f"--window: {window!r} is not START,END in seconds") from None
    if not 0 <= start_s < end_s:
        raise UsageError(f"--window: {window!r}: START must be before END")
    return start_s, end_s


def _export_swe_bench(asked: SweepExport) -> Exported:
    sweep_id, out = asked.sweep_id, asked.out
    cells = {
        cell["cell_id"]: (_set_up(cell), cell["model"] or "unknown") for cell in asked.cells(True)
    }
    with closing(storage.connect(asked.catalog.home)) as connection:
        answers = swe_bench.stored_answers(connection, sweep_id)
        replies = swe_bench.last_replies(connection, sweep_id)
    done = swe_bench.write_predictions(answers, replies, cells, out, asked.force)
    words = f"{done.empty} answers have no diff: empty patches, which swebench counts as wrong"
    notes = [words] if done.empty else []
    found = {"sweep_id": sweep_id, "predictions": done.predictions, "empty": done.empty}
    found |= {"files": [str(file) for file in done.files]}
    words = f"{sweep_id}: {done.predictions} predictions in {len(done.files)} files in {out}"
    return Exported(found, words, notes)


SWEEP_EXPORTS: dict[str, Callable[[SweepExport], Exported]] = {
    "thunderagent": _export_thunderagent,
    "nemo-skills": _export_nemo_skills,
    "swe-bench": _export_swe_bench,
}


def export_parquet(
    catalog: "storage.Catalog", sweep_id: str | None, out: Path, force: bool
) -> Exported:
    """A copy of the tables, one Parquet file each as its view shows it; of one sweep if given.
    Tables without a `sweep_id` are written whole."""
    asked = SweepExport(catalog, sweep_id or "", out, force)
    files = [out / f"{table}.parquet" for table in TABLES]
    asked.refuse_existing(files)
    out.mkdir(parents=True, exist_ok=True)
    macros = ("headlines", "steady_window", "window_summary", "results")
    with closing(storage.connect(catalog.home, macros)) as connection:
        for table, file in zip(TABLES, files, strict=True):
            rows = connection.sql(f"select * from {table}")
            if sweep_id is not None and "sweep_id" in rows.columns:
                sql = f"select * from {table} where sweep_id = $sweep"
                rows = connection.sql(sql, params={"sweep": sweep_id})
            with storage.replacing(file) as unfinished:
                rows.write_parquet(str(unfinished), compression="zstd")
    found = {"sweep_id": sweep_id, "files": list(map(str, files))}
    return Exported(found, f"{len(files)} tables in {out}")


def export_training_set(
    set_id: str, format: str, out: Path, narrowed: bool, force: bool
) -> Exported:
    """A frozen training set; the words have a line for each thing that the format cannot carry."""
    if not set_id:
        raise UsageError(f"{format} is a format of training sets; name one with --training-set")
    if narrowed:
        raise UsageError("--training-set is exported whole; leave out --sweep, --cell and --where")
    with storage.open_catalog() as catalog:
        made = training.export_training_set(set_id, format, out, catalog, force)
    words = f"{made['conversations']} conversations in {len(made['files'])} files in {out}"
    lost = [f"  {count} {note}" for note, count in made["notes"].items()]
    return Exported(made, "\n".join([words, *lost]))
