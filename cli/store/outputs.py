"""`tutti export nemo-skills`: a sweep's attempts as NeMo-Skills' output files and metrics.json."""

from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import Any

from tutti import storage
from tutti.cli.failures import UsageError
from tutti.tasks.exchange import nemo_skills

FORMAT = "nemo-skills"


@dataclass(frozen=True)
class Exported:
    """What an export says."""

    found: dict[str, Any]
    """For programs."""
    words: str
    """For people."""
    notes: Sequence[str] = ()
    """For standard error."""


def cells_of(catalog: "storage.Catalog", sweep_id: str) -> list[dict[str, Any]]:
    """The cells of a sweep that no other cell has taken the place of."""
    from tutti.storage import catalog as cat

    rows = cat.cells.select().where(cat.cells.c.sweep_id == sweep_id)
    return catalog.rows(rows.where(cat.cells.c.status != cat.SUPERSEDED))


def write_outputs(
    catalog: "storage.Catalog", sweep_id: str, out: Path, force: bool
) -> dict[str, "nemo_skills.WrittenRun"]:
    """A folder a set-up (model, policy, concurrency, repeat) with all of its benchmarks, by name.

    One set-up alone is written into `out` itself. Raises UsageError for a sweep without counted
    attempts, and for results that are there already unless `force`, which removes them.
    """
    found = cells_of(catalog, sweep_id)
    found.sort(key=lambda cell: (set_up_name(cell), cell["position"]))
    set_ups = {name: list(cells) for name, cells in groupby(found, set_up_name)}
    folders = {name: out / name if len(set_ups) > 1 else out for name in set_ups}
    taken = [
        folder / nemo_skills.RESULTS
        for folder in folders.values()
        if (folder / nemo_skills.RESULTS).exists()
    ]
    if taken and not force:
        raise UsageError(f"{taken[0]}: exists already; --force replaces it")
    for results in taken:
        for file in (*results.glob("*/output*.jsonl"), *results.glob("metrics.json")):
            file.unlink()
    written = {}
    with closing(storage.connect(catalog.home, macros=["counted"])) as connection:
        for name, cells in set_ups.items():
            named = [(cell["cell_id"], cell["benchmark"]) for cell in cells]
            written[name] = nemo_skills.write_run(connection, named, folders[name])
    if not any(each.rows for each in written.values()):
        raise UsageError(f"{sweep_id} has no attempt that counts")
    return written


def export(catalog: "storage.Catalog", sweep_id: str, out: Path, force: bool) -> Exported:
    """Write a sweep's outputs. Raises as `write_outputs`."""
    written = write_outputs(catalog, sweep_id, out, force)
    notes = []
    for name, run in written.items():
        fewer = "tasks have fewer counted trials than others and are left out"
        notes += [f"{name}, {each}: {n} {fewer}" for each, n in run.left_out.items()]
        unnamed = "messages without a role are left out"
        notes += [f"{name}, {each}: {n} {unnamed}" for each, n in run.without_role.items()]
    files = [str(file) for run in written.values() for file in run.files]
    count = sum(run.rows for run in written.values())
    found = {"sweep_id": sweep_id, "attempts": count, "files": files}
    found["left_out"] = {name: run.left_out for name, run in written.items() if run.left_out}
    found["without_role"] = {n: run.without_role for n, run in written.items() if run.without_role}
    words = f"{sweep_id}: {count} attempts in {len(files)} files in {out}"
    return Exported(found, words, notes)


def set_up_name(cell: dict[str, object]) -> str:
    """Model, policy, concurrency and repeat of a cell, as the name of a folder."""
    load = "" if cell["concurrency"] is None else f"_c{cell['concurrency']}"
    repeat = "a_a" if cell["repeat"] == -1 else f"rep{cell['repeat']}"
    return f"{cell['model']}_{cell['policy'] or 'unknown'}{load}_{repeat}".replace("/", "-")
