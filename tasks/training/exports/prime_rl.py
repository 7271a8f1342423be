"""prime-rl's data for SFT: a folder with Parquet of `messages` and `tools` (JSON text).

The form that prime-rl's scripts/export_sft.py makes of finished rollouts; `data.name` of its
configuration is the folder. Its rollouts with token ids pass between its own processes only.
"""

from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa

from tutti.tasks.training.exports.conversation import Conversation, ExportRefused
from tutti.tasks.training.exports.wire import message_type, tools_json, wire, write_rows

FILES = {False: "train/train.parquet", True: "held_out/train.parquet"}
UNWANTED = "conversations left out: not wanted (this format has no label)"


def write(made: Sequence[Conversation], folder: Path, notes: Counter[str]) -> list[Path]:
    """Write `train/` and, where there is one, `held_out/`. Raises ExportRefused."""
    kept = [each for each in made if each.wanted is not False]
    notes[UNWANTED] += len(made) - len(kept)
    if not any(not each.is_held_out for each in kept):
        raise ExportRefused(f"nothing is left to export: {notes[UNWANTED]} x {UNWANTED}")
    schema = pa.schema([("messages", message_type(kept)), ("tools", pa.string())])
    files = []
    for is_held_out, name in FILES.items():
        rows = [
            {"messages": [wire(each) for each in one.messages], "tools": tools_json(one)}
            for one in kept
            if one.is_held_out == is_held_out
        ]
        if rows:
            files.append(write_rows(rows, schema, folder / name))
    return files
