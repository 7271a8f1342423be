"""`tutti export FORMAT --training-set ID`: a frozen training set in another trainer's format."""

from pathlib import Path

from tutti import storage
from tutti.cli.failures import UsageError
from tutti.cli.store.outputs import Exported
from tutti.tasks import training

FORMATS = "alpaca, sharegpt, openai, verl, prime-rl"


def export(set_id: str, format: str, out: Path, narrowed: bool, force: bool) -> Exported:
    """Write it; the words have a line for each thing that the format cannot carry.

    Raises UsageError.
    """
    if not set_id:
        raise UsageError(f"{format} is a format of training sets; name one with --training-set")
    if narrowed:
        raise UsageError("--training-set is exported whole; leave out --sweep, --cell and --where")
    with storage.open_catalog() as catalog:
        made = training.export_training_set(set_id, format, out, catalog, force)
    words = f"{made['conversations']} conversations in {len(made['files'])} files in {out}"
    lost = [f"  {count} {note}" for note, count in made["notes"].items()]
    return Exported(made, "\n".join([words, *lost]))
