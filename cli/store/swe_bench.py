"""`tutti export swe-bench` and `tutti import swe-bench REPORT --onto SWEEP`."""

import json
from contextlib import closing
from pathlib import Path

import typer

from tutti import storage
from tutti.cli.failures import UsageError
from tutti.cli.store.outputs import Exported, set_up_name
from tutti.tasks.exchange import swe_bench

FORMAT = "swe-bench"
LISTED = 20  # problems printed as text


def export(catalog: "storage.Catalog", sweep_id: str, out: Path, force: bool) -> Exported:
    """Write a sweep's predictions. Raises StoreError."""
    from tutti.storage import catalog as cat

    rows = catalog.rows(cat.cells.select().where(cat.cells.c.sweep_id == sweep_id))
    cells = {cell["cell_id"]: (set_up_name(cell), cell["model"] or "unknown") for cell in rows}
    with closing(storage.connect(catalog.home)) as connection:
        answers = swe_bench.stored_answers(connection, sweep_id)
        replies = swe_bench.last_replies(connection, sweep_id)
    done = swe_bench.write_predictions(answers, replies, cells, out, force)
    words = f"{done.empty} answers have no diff: empty patches, which swebench counts as wrong"
    notes = [words] if done.empty else []
    found = {"sweep_id": sweep_id, "predictions": done.predictions, "empty": done.empty}
    found |= {"files": [str(file) for file in done.files]}
    words = f"{sweep_id}: {done.predictions} predictions in {len(done.files)} files in {out}"
    return Exported(found, words, notes)


def import_onto(
    catalog: "storage.Catalog", jobs: list[tuple[str, Path]], sweep_id: str, as_json: bool
) -> int:
    """Add the reports' scores to a sweep's attempts; returns the number of problems.

    Raises UsageError for other formats, StoreError.
    """
    if wrong := [format for format, _ in jobs if format != FORMAT]:
        raise UsageError(f"--onto takes reports of {FORMAT}; {wrong[0]} is imported without it")
    problems = 0
    for _, path in jobs:
        done = swe_bench.add_verdicts(catalog, path, sweep_id)
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
