"""What LLaMA-Factory reads beside its data: `dataset_info.json`, and tools as text.

Source: LLaMA-Factory 0.9.5, data/README.md, data/parser.py, data/converter.py.
"""

import json
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from tutti.tasks.training.exports.conversation import Conversation, ExportRefused

NAMES = {False: "train", True: "held_out"}
THINKING = "<think>\n{}\n</think>\n\n"
"""LLaMA-Factory's own marks of reasoning."""
Convert = Callable[[Conversation, Counter[str]], dict[str, Any] | None]


def write_with_info(
    made: Sequence[Conversation],
    folder: Path,
    notes: Counter[str],
    convert: Convert,
    info: Mapping[str, Any],
) -> list[Path]:
    """Write `train.json`, `held_out.json` where there is one, and `dataset_info.json`.

    `convert` gives None for a conversation that it has counted as left out. Raises ExportRefused
    where nothing is left to train on.
    """
    labelled = any(each.wanted is not None for each in made)
    entries, files = {}, []
    for is_held_out, name in NAMES.items():
        rows = []
        for each in made:
            if each.is_held_out == is_held_out and (row := convert(each, notes)) is not None:
                rows.append(row | ({"label": each.wanted is not False} if labelled else {}))
        if not rows:
            continue
        columns = {**info["columns"], **({"kto_tag": "label"} if labelled else {})}
        entries[name] = {"file_name": f"{name}.json", **info, "columns": columns}
        files.append(folder / f"{name}.json")
        files[-1].write_text(json.dumps(rows, ensure_ascii=False, indent=1) + "\n")
    if "train" not in entries:
        said = "; ".join(f"{n} x {note}" for note, n in notes.items() if n)
        raise ExportRefused(f"nothing is left to export: {said}")
    files.append(folder / "dataset_info.json")
    files[-1].write_text(json.dumps(entries, indent=1) + "\n")
    return files


def tools_text(tools: Sequence[Any]) -> str:
    """Definitions of tools as LLaMA-Factory reads them: a JSON list of functions, or nothing."""
    functions = [each.get("function", each) if isinstance(each, dict) else each for each in tools]
    return json.dumps(functions, ensure_ascii=False) if functions else ""


def spoken(message: Mapping[str, Any]) -> str:
    """What a message of the assistant says, its reasoning before it."""
    reasoning = message.get("reasoning")
    return (THINKING.format(reasoning) if reasoning else "") + (message.get("content") or "")
