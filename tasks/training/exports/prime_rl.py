"""prime-rl's data for SFT: a folder with Parquet of `messages` and `tools` (JSON text).

The form that prime-rl's scripts/export_sft.py makes of finished rollouts; `data.name` of its
configuration is the folder. Its rollouts with token ids pass between its own processes only.
"""

from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa

from tutti.tasks.training.exports.conversation import Conversation, wanted_of
from tutti.tasks.training.exports.wire import message_type, tools_json, wire, write_rows

FILES = {False: "train/train.parquet", True: "held_out/train.parquet"}


def write(made: Sequence[Conversation], folder: Path, notes: Counter[str]) -> list[Path]:
    """Write `train/` and, where there is one, `held_out/`. Raises ExportRefused."""
    kept = wanted_of(made, notes)
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
