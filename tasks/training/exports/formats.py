"""Formats of conversations: LLaMA-Factory's, and those of messages in the form of OpenAI's API.

LLaMA-Factory's are alpaca and sharegpt, with labels of KTO and `dataset_info.json`. Alpaca has
instruction, input, output, history and system: turns of a user and the model in alternation.
ShareGPT has calls of tools as `function_call` and their results as `observation`. A turn with text
and a call is written as the text and the call in ``<tool_call>`` marks; several results in a row
are joined, as LLaMA-Factory joins them where it reads OpenAI's format. Source: LLaMA-Factory 0.9.5,
data/README.md, data/parser.py, data/converter.py, data/formatter.py.

Of openai, verl and prime-rl, arguments of calls are JSON text, because objects of many shapes do
not fit a column. None of these has a label: conversations that are not wanted are left out.
"""

import json
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import pyarrow as pa

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
ALPACA_TOOLS = "conversations left out: tools (sharegpt carries them)"
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
        return ALPACA_TOOLS
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


FUNCTION = pa.struct([("name", pa.string()), ("arguments", pa.string())])
CALL = pa.struct([("id", pa.string()), ("type", pa.string()), ("function", FUNCTION)])
FIELDS = {
    "role": pa.string(),
    "content": pa.string(),
    "reasoning_content": pa.string(),
    "tool_calls": pa.list_(CALL),
    "tool_call_id": pa.string(),
    "name": pa.string(),
}
RULE = pa.struct([("style", pa.string()), ("ground_truth", pa.string())])
EXTRA = pa.struct([("split", pa.string()), ("index", pa.int64()), ("task_id", pa.string())])
UNWANTED = "conversations left out: not wanted (this format has no label)"
NO_ANSWER = "conversations without a row in rl.parquet: no known task and answer"
VERL_TOOLS = "conversations without their tools: verl reads tools from its own configuration"


def openai(made: Sequence[Conversation], notes: Counter[str]) -> ExportedFiles:
    """OpenAI's fine-tuning format: a JSON object a line with `messages` and `tools`. What `tutti
    train sft --file` reads, and NeMo-RL's openai_format. Raises ExportRefused."""
    return {
        f"{side}.jsonl": [
            {"messages": _messages(each)} | ({"tools": list(each.tools)} if each.tools else {})
            for each in some
        ]
        for side, some in _sides(_wanted(made, notes))
    }


def prime_rl(made: Sequence[Conversation], notes: Counter[str]) -> ExportedFiles:
    """A folder a side with Parquet of `messages` and `tools` (JSON text): the form that prime-rl's
    scripts/export_sft.py makes of finished rollouts; `data.name` of its configuration is the
    folder. Raises ExportRefused."""
    kept = _wanted(made, notes)
    schema = pa.schema([("messages", _message_type(kept)), ("tools", pa.string())])
    files = ExportedFiles()
    for side, some in _sides(kept):
        rows = [
            {"messages": _messages(each), "tools": json.dumps(list(each.tools), ensure_ascii=False)}
            for each in some
        ]
        files[f"{side}/train.parquet"] = pa.Table.from_pylist(rows, schema)
    return files


def verl(made: Sequence[Conversation], notes: Counter[str]) -> ExportedFiles:
    """`sft.parquet`, which verl's MultiTurnSFTDataset reads, and `rl.parquet`, which its
    RLHFDataset and reward functions read: a row a task, where the store knows the task's answer.

    Source: verl 0.9.1, utils/dataset/, docs/preparation/prepare_data. Raises ExportRefused.
    """
    kept = _wanted(made, notes)
    notes[VERL_TOOLS] += sum(bool(each.tools) for each in kept)
    type = _message_type(kept)
    fields = {"data_source": pa.string(), "prompt": type, "ability": pa.string()}
    asked = pa.schema(fields | {"reward_model": RULE, "extra_info": EXTRA})
    files = ExportedFiles()
    for side, some in _sides(kept):
        name = "" if side == "train" else f"{side}_"
        rows = [{"messages": _messages(each)} for each in some]
        files[f"{name}sft.parquet"] = pa.Table.from_pylist(rows, pa.schema({"messages": type}))
        if prompts := _prompts(some, notes):
            files[f"{name}rl.parquet"] = pa.Table.from_pylist(prompts, asked)
    return files


def _prompts(made: Sequence[Conversation], notes: Counter[str]) -> list[dict[str, Any]]:
    """One row a task: what was said before the model spoke."""
    rows: dict[str, dict[str, Any]] = {}
    for each in made:
        origin = each.origin
        task_id, answer = origin.get("task_id"), origin.get("answer")
        if task_id is None or answer is None:
            notes[NO_ANSWER] += 1
            continue
        first = next(n for n, said in enumerate(each.messages) if said["role"] == "assistant")
        row = {
            "data_source": origin.get("benchmark"),
            "prompt": _messages(each)[:first],
            "ability": origin.get("family"),
            "reward_model": {"style": "rule", "ground_truth": answer},
            "extra_info": {"split": origin.get("split"), "index": len(rows), "task_id": task_id},
        }
        rows.setdefault(task_id, row)
    return list(rows.values())


def _wanted(made: Sequence[Conversation], notes: Counter[str]) -> list[Conversation]:
    """Those that a format without labels can carry; the others are counted. Raises ExportRefused
    where none is left to train on."""
    kept = [each for each in made if each.wanted is not False]
    notes[UNWANTED] += len(made) - len(kept)
    if not any(not each.is_held_out for each in kept):
        raise ExportRefused(f"nothing is left to export: {notes[UNWANTED]} x {UNWANTED}")
    return kept


def _sides(made: Sequence[Conversation]) -> Iterator[tuple[str, list[Conversation]]]:
    for side, is_held_out in SIDES:
        if some := [each for each in made if each.is_held_out == is_held_out]:
            yield side, some


def _message_type(made: Sequence[Conversation]) -> pa.DataType:
    """The type of the messages: fields that none of them has are left out, as templates ask
    whether a field is there."""
    used = {key for each in made for message in _messages(each) for key in message}
    return pa.list_(pa.struct([(name, type) for name, type in FIELDS.items() if name in used]))


def _messages(made: Conversation) -> list[dict[str, Any]]:
    """The messages with the arguments of their calls as text, and no empty fields but content."""
    return [_wire(each) for each in made.messages]


def _wire(message: Mapping[str, Any]) -> dict[str, Any]:
    calls = [
        {"id": call.get("id"), "type": "function",
         "function": {"name": call["function"]["name"], "arguments": _text(call["function"])}}
        for call in message.get("tool_calls") or ()
    ]  # fmt: skip
    made = {"role": message["role"], "content": message.get("content") or ""}
    made |= {"reasoning_content": message.get("reasoning"), "tool_calls": calls or None}
    made |= {name: message.get(name) for name in ("tool_call_id", "name")}
    return {name: value for name, value in made.items() if value is not None}


def _text(function: Mapping[str, Any]) -> str:
    given = function["arguments"]
    return given if isinstance(given, str) else json.dumps(given, ensure_ascii=False)
