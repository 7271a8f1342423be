"""ShareGPT's format with calls of tools as `function_call` and their results as `observation`.

A turn with text and a call is written as the text and the call in ``<tool_call>`` marks; several
results in a row are joined, as LLaMA-Factory joins them where it reads OpenAI's format. Source:
LLaMA-Factory 0.9.5, data/README.md, data/converter.py, data/formatter.py.
"""

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from tutti.tasks.training.exports.conversation import Conversation
from tutti.tasks.training.exports.llama_factory import spoken, tools_text, write_with_info

COLUMNS = {"messages": "conversations", "system": "system", "tools": "tools"}
TAGS = {
    "role_tag": "from",
    "content_tag": "value",
    "user_tag": "human",
    "assistant_tag": "gpt",
    "observation_tag": "observation",
    "function_tag": "function_call",
    "system_tag": "system",
}
ASKED, ANSWERED = ("human", "observation"), ("gpt", "function_call")
BETWEEN_RESULTS = "\n</tool_response>\n<tool_response>\n"
ORDER = "conversations left out: their turns do not alternate"
UNREAD = "conversations left out: arguments of a call are no JSON"


def write(made: Sequence[Conversation], folder: Path, notes: Counter[str]) -> list[Path]:
    """Write them with `dataset_info.json`. Raises ExportRefused."""
    info = {"formatting": "sharegpt", "columns": COLUMNS, "tags": TAGS}
    return write_with_info(made, folder, notes, _row, info)


def _row(made: Conversation, notes: Counter[str]) -> dict[str, Any] | None:
    said = list(made.messages)
    system = (said.pop(0).get("content") or "") if said[0]["role"] == "system" else ""
    if any(isinstance(each, str) for one in said for each in _arguments(one)):
        notes[UNREAD] += 1
        return None
    turns: list[dict[str, str]] = []
    for message in said:
        turn = _turn(message)
        if turn["from"] == "observation" and turns and turns[-1]["from"] == "observation":
            turns[-1]["value"] += BETWEEN_RESULTS + turn["value"]
        else:
            turns.append(turn)
    while turns and turns[-1]["from"] not in ANSWERED:  # an attempt that ended after a tool
        turns.pop()
    expected = [ASKED, ANSWERED] * (len(turns) // 2)
    known = len(turns) == len(expected) and turns
    if not known or any(t["from"] not in e for t, e in zip(turns, expected, strict=True)):
        notes[ORDER] += 1
        return None
    return {"conversations": turns, "system": system, "tools": tools_text(made.tools)}


def _arguments(message: Mapping[str, Any]) -> list[Any]:
    return [call["function"]["arguments"] for call in message.get("tool_calls") or ()]


def _turn(message: Mapping[str, Any]) -> dict[str, str]:
    if message["role"] == "tool":
        return {"from": "observation", "value": message.get("content") or ""}
    if message["role"] != "assistant":
        return {"from": "human" if message["role"] == "user" else message["role"],
                "value": message.get("content") or ""}  # fmt: skip
    if not message.get("tool_calls"):
        return {"from": "gpt", "value": spoken(message)}
    calls = [
        {"name": call["function"]["name"], "arguments": call["function"]["arguments"]}
        for call in message["tool_calls"]
    ]
    text = json.dumps(calls[0] if len(calls) == 1 else calls, ensure_ascii=False)
    if before := spoken(message):
        text = f"{before}<tool_call>{text}</tool_call>"
    return {"from": "function_call", "value": text}
