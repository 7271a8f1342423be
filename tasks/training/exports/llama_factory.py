"""LLaMA-Factory's formats: alpaca and sharegpt, with labels of KTO and `dataset_info.json`.

Alpaca has instruction, input, output, history and system: turns of a user and the model in
alternation. ShareGPT has calls of tools as `function_call` and their results as `observation`. A
turn with text and a call is written as the text and the call in ``<tool_call>`` marks; several
results in a row are joined, as LLaMA-Factory joins them where it reads OpenAI's format. Source:
LLaMA-Factory 0.9.5, data/README.md, data/parser.py, data/converter.py, data/formatter.py.
"""

import json
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from tutti.tasks.training.exports.conversation import (
    SIDES,
    Conversation,
    ExportedFiles,
    ExportRefused,
)

THINKING = "<think>\n{}\n</think>\n\n"
"""LLaMA-Factory's own marks of reasoning."""
ALPACA = {
    "formatting": "alpaca",
    "columns": {
        "prompt": "instruction",
        "query": "input",
        "response": "output",
        "system": "system",
        "history": "history",
    },
}
SHAREGPT = {
    "formatting": "sharegpt",
    "columns": {"messages": "conversations", "system": "system", "tools": "tools"},
    "tags": {
        "role_tag": "from",
        "content_tag": "value",
        "user_tag": "human",
        "assistant_tag": "gpt",
        "observation_tag": "observation",
        "function_tag": "function_call",
        "system_tag": "system",
    },
}
TOOLS = "conversations left out: tools (sharegpt carries them)"
ORDER = "conversations left out: user and assistant do not alternate"
TURNS = "conversations left out: their turns do not alternate"
UNREAD = "conversations left out: arguments of a call are no JSON"
ASKED, ANSWERED = ("human", "observation"), ("gpt", "function_call")
BETWEEN_RESULTS = "\n</tool_response>\n<tool_response>\n"
Convert = Callable[[Conversation], dict[str, Any] | str]
"""A conversation's row, or why it is left out."""


def alpaca(made: Sequence[Conversation], notes: Counter[str]) -> ExportedFiles:
    """The files of Alpaca's format. Raises ExportRefused."""
    return _with_info(made, notes, _alpaca_row, ALPACA)


def sharegpt(made: Sequence[Conversation], notes: Counter[str]) -> ExportedFiles:
    """The files of ShareGPT's format. Raises ExportRefused."""
    return _with_info(made, notes, _sharegpt_row, SHAREGPT)


def _with_info(
    made: Sequence[Conversation], notes: Counter[str], convert: Convert, info: Mapping[str, Any]
) -> ExportedFiles:
    labelled = any(each.wanted is not None for each in made)
    columns = {**info["columns"], **({"kto_tag": "label"} if labelled else {})}
    entries, files = {}, ExportedFiles()
    for side, is_held_out in SIDES:
        rows = []
        for each in (each for each in made if each.is_held_out == is_held_out):
            row = convert(each)
            if isinstance(row, str):
                notes[row] += 1
            else:
                rows.append(row | ({"label": each.wanted is not False} if labelled else {}))
        if rows:
            entries[side] = {"file_name": f"{side}.json", **info, "columns": columns}
            files[f"{side}.json"] = rows
    if "train" not in entries:
        said = "; ".join(f"{n} x {note}" for note, n in notes.items() if n)
        raise ExportRefused(f"nothing is left to export: {said}")
    return files | {"dataset_info.json": entries}


def _alpaca_row(made: Conversation) -> dict[str, Any] | str:
    system, said = _system(made)
    if made.tools or any(each["role"] == "tool" or each.get("tool_calls") for each in said):
        return TOOLS
    while said and said[-1]["role"] != "assistant":
        said.pop()
    roles = [each["role"] for each in said]
    if not roles or roles != ["user", "assistant"] * (len(roles) // 2):
        return ORDER
    texts = [_spoken(each) if each["role"] == "assistant" else each["content"] for each in said]
    turns = [list(pair) for pair in zip(texts[::2], texts[1::2], strict=True)]
    instruction, output = turns.pop()
    row = {"instruction": instruction, "input": "", "output": output}
    return row | {"system": system, "history": turns}


def _sharegpt_row(made: Conversation) -> dict[str, Any] | str:
    system, said = _system(made)
    if any(isinstance(call["arguments"], str) for each in said for call in _calls(each)):
        return UNREAD
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
        return TURNS
    functions = [
        each.get("function", each) if isinstance(each, dict) else each for each in made.tools
    ]
    tools = json.dumps(functions, ensure_ascii=False) if functions else ""
    return {"conversations": turns, "system": system, "tools": tools}


def _system(made: Conversation) -> tuple[str, list[dict[str, Any]]]:
    """The system prompt, and the messages after it."""
    said = list(made.messages)
    return (said.pop(0).get("content") or "" if said[0]["role"] == "system" else ""), said


def _turn(message: Mapping[str, Any]) -> dict[str, str]:
    text, role = message.get("content") or "", message["role"]
    if role != "assistant":
        names = {"tool": "observation", "user": "human"}
        return {"from": names.get(role, role), "value": text}
    said = _spoken(message)
    if not (calls := _calls(message)):
        return {"from": "gpt", "value": said}
    called = json.dumps(calls[0] if len(calls) == 1 else calls, ensure_ascii=False)
    return {
        "from": "function_call",
        "value": f"{said}<tool_call>{called}</tool_call>" if said else called,
    }


def _calls(message: Mapping[str, Any]) -> list[dict[str, Any]]:
    functions = [call["function"] for call in message.get("tool_calls") or ()]
    return [{"name": each["name"], "arguments": each["arguments"]} for each in functions]


def _spoken(message: Mapping[str, Any]) -> str:
    """What a message of the assistant says, its reasoning before it."""
    reasoning = message.get("reasoning")
    return (THINKING.format(reasoning) if reasoning else "") + (message.get("content") or "")
