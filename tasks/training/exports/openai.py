"""OpenAI's fine-tuning format: a JSON object a line with `messages` and `tools`.

What `tutti train sft --file` reads, and NeMo-RL's openai_format.
"""

import json
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from tutti.tasks.training.exports.conversation import Conversation, wanted_of
from tutti.tasks.training.exports.wire import wire

FILES = {False: "train.jsonl", True: "held_out.jsonl"}


def write(made: Sequence[Conversation], folder: Path, notes: Counter[str]) -> list[Path]:
    """Write `train.jsonl` and, where there is one, `held_out.jsonl`. Raises ExportRefused."""
    kept = wanted_of(made, notes)
    files = []
    for is_held_out, name in FILES.items():
        lines = [_line(each) for each in kept if each.is_held_out == is_held_out]
        if lines:
            files.append(folder / name)
            files[-1].write_text("".join(lines), encoding="utf-8")
    return files


def _line(made: Conversation) -> str:
    row: dict[str, object] = {"messages": [wire(each) for each in made.messages]}
    row |= {"tools": list(made.tools)} if made.tools else {}
    return json.dumps(row, ensure_ascii=False) + "\n"
