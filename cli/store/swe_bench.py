"""`tutti export swe-bench` and `tutti import swe-bench REPORT --onto SWEEP`."""

import json
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING

import sqlalchemy as sa
import typer

from tutti.cli.failures import UsageError

if TYPE_CHECKING:
    from tutti.storage import Catalog

FORMAT = "swe-bench"
LISTED = 20  # problems printed as text


def export(catalog: "Catalog", sweep_id: str, out: Path, force: bool, as_json: bool) -> None:
    """Write a sweep's predictions and print what was written. Raises StoreError."""
    from tutti.cli.store.outputs import set_up_name
    from tutti.storage import catalog as cat
    from tutti.storage import connect
    from tutti.tasks.exchange.swe_bench import last_replies, stored_answers, write_predictions

    found = catalog.rows(sa.select(cat.cells).where(cat.cells.c.sweep_id == sweep_id))
    cells = {cell["cell_id"]: (set_up_name(cell), cell["model"] or "unknown") for cell in found}
    with closing(connect(catalog.home)) as connection:
        answers = stored_answers(connection, sweep_id)
        replies = last_replies(connection, sweep_id)
    done = write_predictions(answers, replies, cells, out, force)
    if done.empty:
        words = f"{done.empty} answers have no diff: empty patches, which swebench counts as wrong"
        typer.echo(words, err=True)
    said = {"sweep_id": sweep_id, "predictions": done.predictions, "empty": done.empty}
    said |= {"files": [str(file) for file in done.files]}
    words = f"{sweep_id}: {done.predictions} predictions in {len(done.files)} files in {out}"
    typer.echo(json.dumps(said) if as_json else words)


def import_onto(
    catalog: "Catalog", jobs: list[tuple[str, Path]], sweep_id: str, as_json: bool
) -> int:
    """Add the reports' scores to a sweep's attempts; returns the number of problems.

    Raises UsageError for other formats, StoreError.
    """
    from tutti.tasks.exchange.swe_bench import add_verdicts

    if wrong := [format for format, _ in jobs if format != FORMAT]:
        raise UsageError(f"--onto takes reports of {FORMAT}; {wrong[0]} is imported without it")
    problems = 0
    for _, path in jobs:
        done = add_verdicts(catalog, path, sweep_id)
        problems += len(done.issues)
        said = {"sweep_id": sweep_id, "added": done.added, "known": done.known}
        said |= {"unmatched": done.unmatched, "problems": [str(each) for each in done.issues]}
        if as_json:
            typer.echo(json.dumps(said))
            continue
        for issue in done.issues[:LISTED]:
            typer.echo(str(issue), err=True)
        words = f"{done.added} scores added to {sweep_id}, {done.known} known already"
        more = f"; {len(done.unmatched)} instances are not in the sweep" if done.unmatched else ""
        typer.echo(words + more)
    return problems
