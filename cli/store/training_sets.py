"""`tutti export FORMAT --training-set ID`: a frozen training set in another trainer's format."""

import json
from pathlib import Path

import typer

from tutti.cli.failures import UsageError

FORMATS = "alpaca, sharegpt, openai, verl, prime-rl"


def export(set_id: str, format: str, out: Path, narrowed: bool, force: bool, as_json: bool) -> None:
    """Write it, and print a line for each thing that the format cannot carry. Raises UsageError."""
    from tutti.storage import open_catalog
    from tutti.tasks.training import export_training_set

    if not set_id:
        raise UsageError(f"{format} is a format of training sets; name one with --training-set")
    if narrowed:
        raise UsageError("--training-set is exported whole; leave out --sweep, --cell and --where")
    with open_catalog() as catalog:
        made = export_training_set(set_id, format, out, catalog, force)
    if as_json:
        typer.echo(json.dumps(made))
        return
    typer.echo(f"{made['conversations']} conversations in {len(made['files'])} files in {out}")
    for note, count in made["notes"].items():
        typer.echo(f"  {count} {note}")
