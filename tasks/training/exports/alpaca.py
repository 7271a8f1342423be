"""Alpaca's format: instruction, input, output, history and system, in one JSON list.

It carries turns of a user and the model in alternation. Conversations with tools are left out.
Source: LLaMA-Factory 0.9.5, data/README.md.
"""

from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tutti.tasks.training.exports.conversation import Conversation
from tutti.tasks.training.exports.llama_factory import spoken, write_with_info

COLUMNS = {
    "prompt": "instruction",
    "query": "input",
    "response": "output",
    "system": "system",
    "history": "history",
}
TOOLS = "conversations left out: tools (sharegpt carries them)"
ORDER = "conversations left out: user and assistant do not alternate"


def write(made: Sequence[Conversation], folder: Path, notes: Counter[str]) -> list[Path]:
    """Write them with `dataset_info.json`. Raises ExportRefused."""
    info = {"formatting": "alpaca", "columns": COLUMNS}
    return write_with_info(made, folder, notes, _row, info)


def _row(made: Conversation, notes: Counter[str]) -> dict[str, Any] | None:
    said = list(made.messages)
    if made.tools or any(each["role"] == "tool" or each.get("tool_calls") for each in said):
        notes[TOOLS] += 1
        return None
    system = (said.pop(0).get("content") or "") if said[0]["role"] == "system" else ""
    while said and said[-1]["role"] != "assistant":
        said.pop()
    roles = [each["role"] for each in said]
    if not roles or roles != ["user", "assistant"] * (len(roles) // 2):
        notes[ORDER] += 1
        return None
    texts = [spoken(each) if each["role"] == "assistant" else each["content"] for each in said]
    turns = [list(pair) for pair in zip(texts[::2], texts[1::2], strict=True)]
    instruction, output = turns.pop()
    row = {"instruction": instruction, "input": "", "output": output}
    return row | {"system": system, "history": turns}
