"""`tutti export nemo-skills`: a sweep's attempts as NeMo-Skills' output files and metrics.json."""

import json
from contextlib import closing
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING

import sqlalchemy as sa
import typer

from tutti.cli.failures import UsageError

if TYPE_CHECKING:
    from tutti.storage import Catalog
    from tutti.tasks.exchange.nemo_skills import WrittenRun

FORMAT = "nemo-skills"


def write_outputs(
    catalog: "Catalog", sweep_id: str, out: Path, force: bool
) -> dict[str, "WrittenRun"]:
    """A folder a set-up (model, policy, concurrency, repeat) with all of its benchmarks, by name.

    One set-up alone is written into `out` itself. Raises UsageError for a sweep without counted
    attempts, and for results that are there already unless `force`, which removes them.
    """
    from tutti.storage import catalog as cat
    from tutti.storage import connect
    from tutti.tasks.exchange.nemo_skills import RESULTS, write_run

    rows = sa.select(cat.cells).where(cat.cells.c.sweep_id == sweep_id)
    found = catalog.rows(rows.where(cat.cells.c.status != cat.SUPERSEDED))
    found.sort(key=lambda cell: (set_up_name(cell), cell["position"]))
    set_ups = {name: list(cells) for name, cells in groupby(found, set_up_name)}
    folders = {name: out / name if len(set_ups) > 1 else out for name in set_ups}
    taken = [folder / RESULTS for folder in folders.values() if (folder / RESULTS).exists()]
    if taken and not force:
        raise UsageError(f"{taken[0]}: exists already; --force replaces it")
    for results in taken:
        for file in (*results.glob("*/output*.jsonl"), *results.glob("metrics.json")):
            file.unlink()
    written = {}
    with closing(connect(catalog.home, macros=["counted"])) as connection:
        for name, cells in set_ups.items():
            named = [(cell["cell_id"], cell["benchmark"]) for cell in cells]
            written[name] = write_run(connection, named, folders[name])
    if not any(each.rows for each in written.values()):
        raise UsageError(f"{sweep_id} has no attempt that counts")
    return written


def export(catalog: "Catalog", sweep_id: str, out: Path, force: bool, as_json: bool) -> None:
    """Write a sweep's outputs and print what was written. Raises as `write_outputs`."""
    written = write_outputs(catalog, sweep_id, out, force)
    for name, run in written.items():
        for benchmark, left_out in run.left_out.items():
            words = f"{left_out} tasks have fewer counted trials than others and are left out"
            typer.echo(f"{name}, {benchmark}: {words}", err=True)
        for benchmark, count in run.without_role.items():
            words = f"{count} messages without a role are left out"
            typer.echo(f"{name}, {benchmark}: {words}", err=True)
    files = [str(file) for run in written.values() for file in run.files]
    count = sum(run.rows for run in written.values())
    found = {"sweep_id": sweep_id, "attempts": count, "files": files}
    found["left_out"] = {name: run.left_out for name, run in written.items() if run.left_out}
    found["without_role"] = {n: run.without_role for n, run in written.items() if run.without_role}
    words = f"{sweep_id}: {count} attempts in {len(files)} files in {out}"
    typer.echo(json.dumps(found) if as_json else words)


def set_up_name(cell: dict[str, object]) -> str:
    """Model, policy, concurrency and repeat of a cell, as the name of a folder."""
    load = "" if cell["concurrency"] is None else f"_c{cell['concurrency']}"
    repeat = "a_a" if cell["repeat"] == -1 else f"rep{cell['repeat']}"
    return f"{cell['model']}_{cell['policy'] or 'unknown'}{load}_{repeat}".replace("/", "-")
