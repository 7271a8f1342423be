"""Formats of whole messages, in the form of OpenAI's API: openai, verl and prime-rl.

Arguments of calls are JSON text, because objects of many shapes do not fit a column. No format of
these has a label: conversations that are not wanted are left out.
"""

import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import pyarrow as pa

from tutti.tasks.training.exports.conversation import (
    SIDES,
    Conversation,
    ExportedFiles,
    ExportRefused,
)

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
TOOLS = "conversations without their tools: verl reads tools from its own configuration"


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
    notes[TOOLS] += sum(bool(each.tools) for each in kept)
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
