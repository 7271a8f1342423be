"""`tutti export`: attempts, whole sweeps and training sets in other programs' formats.

In: an `ExportRequest`, or a training set's id. Out: files, and an `Exported` that lists them. Each
function raises UsageError, also for existing files unless `force` is set.
"""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from itertools import groupby
from pathlib import Path
from typing import Any

from tutti import storage
from tutti.cli.base.failures import UsageError
from tutti.tasks import exchange, training
from tutti.tasks.exchange import nemo_skills, swe_bench, thunderagent

TRAINING_FORMATS = "alpaca, sharegpt, openai, verl, prime-rl"
TABLES = (
    "attempts messages calls tool_runs retrievals scores server_metrics gateway_events tasks "
    "train_steps runs sweeps cells windows verdicts results"
).split()


@dataclass(frozen=True)
class Exported:
    """The outcome of an export: `content` is JSON for programs; `words` and `notes` are for people,
    the notes on standard error."""

    content: dict[str, Any]
    words: str
    notes: Sequence[str] = ()


@dataclass(frozen=True)
class ExportRequest:
    """The selection to export, and its destination."""

    catalog: "storage.Catalog"
    out: Path
    force: bool
    sweep_id: str | None
    """None for all sweeps, where a format can hold them."""
    chosen_cells: Sequence[str] = ()
    where: str | None = None
    """A condition in SQL on `attempts`."""
    window: str = "600,7800"
    """Of ThunderAgent's summaries: start and end in seconds, with a comma."""

    def cells(self, superseded: bool = False) -> list[dict[str, Any]]:
        """Return the cells of the sweep, with `superseded` also those replaced by another cell."""
        from tutti.storage import catalog as cat

        rows = cat.cells.select().where(cat.cells.c.sweep_id == self.sweep_id)
        wanted = rows if superseded else rows.where(cat.cells.c.status != cat.SUPERSEDED)
        return self.catalog.rows(wanted)

    def refuse_existing(self, paths: Iterable[Path]) -> None:
        """Raise UsageError for the first of `paths` that exists, unless files are replaced."""
        if taken := [path for path in paths if path.exists() and not self.force]:
            raise UsageError(f"{taken[0]}: exists already; --force replaces it")

    def done(
        self, files: Iterable[Path], counted: str, notes: Sequence[str] = (), **content: Any
    ) -> Exported:
        """The outcome for a sweep: its files, and in words how many things were `counted`."""
        names = [str(file) for file in files]
        words = f"{self.sweep_id}: {counted.format(files=f'{len(names)} files')} in {self.out}"
        return Exported({"sweep_id": self.sweep_id, **content, "files": names}, words, notes)


def export_attempts(format: str, request: ExportRequest) -> Exported:
    """Export the chosen attempts as logs of Inspect or ATIF."""
    from tutti.storage import catalog as cat

    for cell in request.chosen_cells:
        if not request.catalog.rows(cat.cells.select().where(cat.cells.c.cell_id == cell)):
            raise UsageError(f"no cell {cell!r}; tutti sql 'select * from cells' lists them")
    count = 0

    def counted(
        trials: "Iterator[exchange.ImportedAttempt]",
    ) -> "Iterator[exchange.ImportedAttempt]":
        nonlocal count
        for count, trial in enumerate(trials, 1):  # noqa: B007
            yield trial

    sweeps = [] if request.sweep_id is None else [request.sweep_id]
    macros = storage.macros_named(request.where or "")
    with closing(storage.connect(request.catalog.home, macros)) as connection:
        trials = exchange.stored_trials(
            connection, request.where, sweeps=sweeps, cells=request.chosen_cells
        )
        files = exchange.export(format, counted(trials), request.out, request.force)
    content = {"attempts": count, "files": [str(file) for file in files]}
    return Exported(content, f"{count} attempts in {len(files)} files in {request.out}")


def _set_up(cell: Mapping[str, object]) -> str:
    load = "" if cell["concurrency"] is None else f"_c{cell['concurrency']}"
    repeat = "a_a" if cell["repeat"] == -1 else f"rep{cell['repeat']}"
    return f"{cell['model']}_{cell['policy'] or 'unknown'}{load}_{repeat}".replace("/", "-")


def _export_nemo_skills(request: ExportRequest) -> Exported:
    """Export one folder per set-up (model, policy, concurrency, repeat) with all of its benchmarks;
    a single set-up is written into `out` itself."""
    cells = sorted(request.cells(), key=lambda cell: (_set_up(cell), cell["position"]))
    set_ups = {name: list(some) for name, some in groupby(cells, _set_up)}
    folders = {name: request.out / name if len(set_ups) > 1 else request.out for name in set_ups}
    places = [folder / nemo_skills.RESULTS for folder in folders.values()]
    request.refuse_existing(places)
    for results in places:
        for file in (*results.glob("*/output*.jsonl"), *results.glob("metrics.json")):
            file.unlink()
    runs = {}
    with closing(storage.connect(request.catalog.home, macros=["counted"])) as connection:
        for name, some in set_ups.items():
            named = [(cell["cell_id"], cell["benchmark"]) for cell in some]
            runs[name] = nemo_skills.write_run(connection, named, folders[name])
    total = sum(run.rows for run in runs.values())
    if not total:
        raise UsageError(f"{request.sweep_id} has no attempt that counts")
    notes = [
        f"{name}, {benchmark}: {count} {words} are left out"
        for name, run in runs.items()
        for counts, words in (
            (run.left_out, "tasks with fewer counted trials than others"),
            (run.without_role, "messages without a role"),
        )
        for benchmark, count in counts.items()
    ]
    return request.done(
        (file for run in runs.values() for file in run.files),
        f"{total} attempts in {{files}}",
        notes,
        attempts=total,
        left_out={name: run.left_out for name, run in runs.items() if run.left_out},
        without_role={name: run.without_role for name, run in runs.items() if run.without_role},
    )


def _export_thunderagent(request: ExportRequest) -> Exported:
    """Export ThunderAgent's summary files and their logs (usage, prefix cache, GPUs), one folder
    per cell."""
    try:
        start_s, end_s = (float(each) for each in request.window.split(","))
    except ValueError:
        start_s = end_s = 0.0
    if not 0 <= start_s < end_s:
        raise UsageError(f"--window: {request.window!r} is not START,END in seconds")
    folders = {
        cell["cell_id"]: request.out / f"{cell['benchmark']}_{_set_up(cell)}".replace("/", "-")
        for cell in request.cells()
    }
    request.refuse_existing(folders.values())
    written: list[Path] = []
    with closing(storage.connect(request.catalog.home, macros=["reference_window"])) as connection:
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
    return request.done(written, "{files}")


def _export_swe_bench(request: ExportRequest) -> Exported:
    sweep_id = request.sweep_id or ""
    cells = {
        cell["cell_id"]: (_set_up(cell), cell["model"] or "unknown") for cell in request.cells(True)
    }
    with closing(storage.connect(request.catalog.home)) as connection:
        answers = swe_bench.stored_answers(connection, sweep_id)
        replies = swe_bench.last_replies(connection, sweep_id)
    written = swe_bench.write_predictions(answers, replies, cells, request.out, request.force)
    empty = f"{written.empty} answers have no diff: empty patches, which swebench counts as wrong"
    return request.done(
        written.files,
        f"{written.predictions} predictions in {{files}}",
        [empty] if written.empty else [],
        predictions=written.predictions,
        empty=written.empty,
    )


def _export_parquet(request: ExportRequest) -> Exported:
    """Export a copy of the tables, one Parquet file each with the rows of its view; of one sweep if
    given. Tables without a `sweep_id` are written completely."""
    out, sweep_id = request.out, request.sweep_id
    files = [out / f"{table}.parquet" for table in TABLES]
    request.refuse_existing(files)
    out.mkdir(parents=True, exist_ok=True)
    macros = ("headlines", "steady_window", "window_summary", "results")
    with closing(storage.connect(request.catalog.home, macros)) as connection:
        for table, file in zip(TABLES, files, strict=True):
            rows = connection.sql(f"select * from {table}")
            if sweep_id is not None and "sweep_id" in rows.columns:
                sql = f"select * from {table} where sweep_id = $sweep"
                rows = connection.sql(sql, params={"sweep": sweep_id})
            with storage.replacing(file) as unfinished:
                rows.write_parquet(str(unfinished), compression="zstd")
    content = {"sweep_id": sweep_id, "files": list(map(str, files))}
    return Exported(content, f"{len(files)} tables in {out}")


EXPORTS: dict[str, Callable[[ExportRequest], Exported]] = {
    **{name: partial(export_attempts, name) for name in exchange.EXPORTERS},
    "thunderagent": _export_thunderagent,
    "nemo-skills": _export_nemo_skills,
    "swe-bench": _export_swe_bench,
    "parquet": _export_parquet,
}


def export_training_set(
    set_id: str, format: str, out: Path, narrowed: bool, force: bool
) -> Exported:
    """Export a frozen training set; the words list what the format cannot carry."""
    if not set_id:
        raise UsageError(f"{format} is a format of training sets; name one with --training-set")
    if narrowed:
        raise UsageError("--training-set is exported whole; leave out --sweep, --cell and --where")
    with storage.open_catalog() as catalog:
        content = training.export_training_set(set_id, format, out, catalog, force)
    words = f"{content['conversations']} conversations in {len(content['files'])} files in {out}"
    lost = [f"  {count} {note}" for note, count in content["notes"].items()]
    return Exported(content, "\n".join([words, *lost]))
