"""Exports of frozen training sets, for other trainers: a format is one file and one line here.

A format is ``write(conversations, folder, notes) -> list[Path]``. It counts in `notes` what it
cannot carry, and raises ExportRefused where nothing is left.
"""

import os
import tempfile
from collections import Counter
from collections.abc import Callable, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

from tutti.storage import Catalog
from tutti.tasks.training.exports.conversation import (
    Conversation,
    ExportRefused,
    conversations_of,
)

Writer = Callable[[Sequence[Conversation], Path, Counter[str]], list[Path]]


def _writer(module: str) -> Writer:
    def write(made: Sequence[Conversation], folder: Path, notes: Counter[str]) -> list[Path]:
        found: Writer = import_module(f"tutti.tasks.training.exports.{module}").write
        return found(made, folder, notes)

    return write


SET_FORMATS: dict[str, Writer] = {
    "alpaca": _writer("alpaca"),
    "sharegpt": _writer("sharegpt"),
    "openai": _writer("openai"),
    "verl": _writer("verl"),
    "prime-rl": _writer("prime_rl"),
}


def export_training_set(
    set_id: str, format: str, out: Path, catalog: Catalog, force: bool = False
) -> dict[str, Any]:
    """Write a training set into `out` in another program's format.

    Returns the number of conversations, the files, and `notes`: how often something could not be
    carried. Files appear whole, and only if all could be written. Raises ExportRefused, StoreError.
    """
    if format not in SET_FORMATS:
        raise ExportRefused(
            f"{format}: no format of training sets; known: {', '.join(SET_FORMATS)}"
        )
    notes: Counter[str] = Counter()
    made = conversations_of(set_id, catalog, notes)
    return write_conversations(made, format, out, notes, force)


def write_conversations(
    made: Sequence[Conversation],
    format: str,
    out: Path,
    notes: Counter[str],
    force: bool = False,
) -> dict[str, Any]:
    """As `export_training_set`, of conversations that were read. Raises ExportRefused."""
    out.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=out, prefix=".export-") as unfinished:
        files = SET_FORMATS[format](made, Path(unfinished), notes)
        targets = [out / file.relative_to(unfinished) for file in files]
        if taken := [target for target in targets if target.exists() and not force]:
            raise ExportRefused(f"{taken[0]}: exists already; --force replaces it")
        for file, target in zip(files, targets, strict=True):
            target.parent.mkdir(parents=True, exist_ok=True)
            os.replace(file, target)
    return {
        "conversations": len(made),
        "files": [str(target) for target in targets],
        "notes": {note: n for note, n in notes.items() if n},
    }
