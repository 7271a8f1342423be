"""Exports of frozen training sets for other trainers; a format is a function and a line here."""

import json
import os
import tempfile
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from tutti.storage import Catalog
from tutti.tasks.training.exports import formats
from tutti.tasks.training.exports.conversation import (
    Conversation,
    ExportRefused,
    conversations_of,
)

SET_FORMATS: dict[str, Callable[[Sequence[Conversation], Counter[str]], dict[str, Any]]] = {
    "alpaca": formats.alpaca,
    "sharegpt": formats.sharegpt,
    "openai": formats.openai,
    "verl": formats.verl,
    "prime-rl": formats.prime_rl,
}


def export_training_set(
    set_id: str, format: str, out: Path, catalog: Catalog, force: bool = False
) -> dict[str, Any]:
    """Write a training set into `out` in another program's format.

    Returns the number of conversations, the files, and `notes`, which count what could not be
    carried. Files appear complete, and only if all could be written. Raises ExportRefused,
    StoreError.
    """
    if format not in SET_FORMATS:
        raise ExportRefused(
            f"{format}: no format of training sets; known: {', '.join(SET_FORMATS)}"
        )
    notes: Counter[str] = Counter()
    conversations = conversations_of(set_id, catalog, notes)
    return write_conversations(conversations, format, out, notes, force)


def write_conversations(
    conversations: Sequence[Conversation],
    format: str,
    out: Path,
    notes: Counter[str],
    force: bool = False,
) -> dict[str, Any]:
    """Write conversations as `export_training_set` does. Raises ExportRefused."""
    out.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=out, prefix=".export-") as unfinished:
        files = SET_FORMATS[format](conversations, notes)
        if existing := [out / name for name in files if (out / name).exists() and not force]:
            raise ExportRefused(f"{existing[0]}: exists already; --force replaces it")
        for name, content in files.items():
            _write(content, Path(unfinished) / name)
        for name in files:
            (out / name).parent.mkdir(parents=True, exist_ok=True)
            os.replace(Path(unfinished) / name, out / name)
    return {
        "conversations": len(conversations),
        "files": [str(out / name) for name in files],
        "notes": {note: n for note, n in notes.items() if n},
    }


def _write(content: Any, file: Path) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    if isinstance(content, pa.Table):
        pq.write_table(content, file)
    elif file.suffix == ".jsonl":
        lines = (json.dumps(row, ensure_ascii=False) + "\n" for row in content)
        file.write_text("".join(lines), encoding="utf-8")
    else:
        file.write_text(json.dumps(content, ensure_ascii=False, indent=1) + "\n", encoding="utf-8")
