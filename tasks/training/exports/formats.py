"""Formats of conversations: LLaMA-Factory's, and those of messages in the form of OpenAI's API.

A format is ``format(conversations, notes) -> {file: its content}``: a table of Parquet, or JSON. It
counts in `notes` what it cannot carry, and raises ExportRefused if nothing is left.

In ShareGPT a turn with text and a call is the text and the call in ``<tool_call>`` marks;
consecutive results are joined, as LLaMA-Factory joins them when it reads OpenAI's format. Source:
LLaMA-Factory 0.9.5, data/README.md, data/parser.py, data/converter.py, data/formatter.py.

In openai, verl and prime-rl, arguments of calls are JSON text, because objects of many shapes do
not fit a column. None of these formats has a label, so unwanted conversations are left out.
"""

import json
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import pyarrow as pa

from tutti.tasks.training.exports.conversation import Conversation, ExportRefused

Files = dict[str, Any]
Conversations = Sequence[Conversation]
THINKING = "<think>\n{}\n</think>\n\n"
COLUMNS = {
    "alpaca": {
        "prompt": "instruction",
        "query": "input",
        "response": "output",
        "system": "system",
        "history": "history",
    },
    "sharegpt": {"messages": "conversations", "system": "system", "tools": "tools"},
}
SHAREGPT_TAGS = {
    "role_tag": "from",
    "content_tag": "value",
    "user_tag": "human",
    "assistant_tag": "gpt",
    "observation_tag": "observation",
    "function_tag": "function_call",
    "system_tag": "system",
}
SPEAKERS = {"human": "user", "observation": "user", "gpt": "model", "function_call": "model"}
BETWEEN_RESULTS = "\n</tool_response>\n<tool_response>\n"


class _LeftOut(Exception):
    """A conversation that a format cannot carry; the message says why."""


def alpaca(conversations: Conversations, notes: Counter[str]) -> Files:
    """Return the files of Alpaca's format. Raises ExportRefused."""
    info = {"formatting": "alpaca", "columns": COLUMNS["alpaca"]}
    return _with_info(conversations, notes, _alpaca_row, info)


def sharegpt(conversations: Conversations, notes: Counter[str]) -> Files:
    """Return the files of ShareGPT's format. Raises ExportRefused."""
    info = {"formatting": "sharegpt", "columns": COLUMNS["sharegpt"], "tags": SHAREGPT_TAGS}
    return _with_info(conversations, notes, _sharegpt_row, info)


def _with_info(
    conversations: Conversations,
    notes: Counter[str],
    convert: Callable[[Conversation], dict[str, Any]],
    info: dict[str, Any],
) -> Files:
    labelled = any(each.wanted is not None for each in conversations)
    if labelled:
        info = info | {"columns": info["columns"] | {"kto_tag": "label"}}
    entries, files = {}, Files()
    for side, some in _sides(conversations):
        rows = []
        for each in some:
            try:
                row = convert(each)
            except _LeftOut as why:
                notes[f"conversations left out: {why}"] += 1
                continue
            rows.append(row | ({"label": each.wanted is not False} if labelled else {}))
        if rows:
            entries[side] = {"file_name": f"{side}.json", **info}
            files[f"{side}.json"] = rows
    if "train" not in entries:
        counts = "; ".join(f"{n} x {note}" for note, n in notes.items() if n)
        raise ExportRefused(f"nothing is left to export: {counts}")
    return files | {"dataset_info.json": entries}


def _alpaca_row(conversation: Conversation) -> dict[str, Any]:
    system, messages = _system(conversation)
    if conversation.tools or any(
        each["role"] == "tool" or each.get("tool_calls") for each in messages
    ):
        raise _LeftOut("tools (sharegpt carries them)")
    while messages and messages[-1]["role"] != "assistant":
        messages.pop()
    roles = [each["role"] for each in messages]
    if not roles or roles != ["user", "assistant"] * (len(roles) // 2):
        raise _LeftOut("user and assistant do not alternate")
    texts = [_text(each) for each in messages]
    *history, (instruction, output) = zip(texts[::2], texts[1::2], strict=True)
    row = {"instruction": instruction, "input": "", "output": output, "system": system}
    return row | {"history": [list(pair) for pair in history]}


def _sharegpt_row(conversation: Conversation) -> dict[str, Any]:
    system, messages = _system(conversation)
    turns: list[dict[str, str]] = []
    for message in messages:
        turn = _turn(message)
        if turn["from"] == "observation" and turns and turns[-1]["from"] == "observation":
            turns[-1]["value"] += BETWEEN_RESULTS + turn["value"]
        else:
            turns.append(turn)
    while turns and SPEAKERS.get(turns[-1]["from"]) != "model":  # it ended after a tool
        turns.pop()
    speakers = [SPEAKERS.get(turn["from"]) for turn in turns]
    if not turns or speakers != ["user", "model"] * (len(turns) // 2):
        raise _LeftOut("their turns do not alternate")
    functions = [
        each.get("function", each) if isinstance(each, dict) else each
        for each in conversation.tools
    ]
    tools = json.dumps(functions, ensure_ascii=False) if functions else ""
    return {"conversations": turns, "system": system, "tools": tools}


def _system(conversation: Conversation) -> tuple[str, list[dict[str, Any]]]:
    """The system prompt, and the messages after it."""
    first, *others = conversation.messages
    if first["role"] == "system":
        return first.get("content") or "", others
    return "", [first, *others]


def _turn(message: Mapping[str, Any]) -> dict[str, str]:
    text, role = _text(message), message["role"]
    if role != "assistant":
        return {"from": {"tool": "observation", "user": "human"}.get(role, role), "value": text}
    calls = [
        {name: call["function"][name] for name in ("name", "arguments")}
        for call in message.get("tool_calls") or ()
    ]
    if any(isinstance(call["arguments"], str) for call in calls):
        raise _LeftOut("arguments of a call are no JSON")
    if not calls:
        return {"from": "gpt", "value": text}
    called = json.dumps(calls[0] if len(calls) == 1 else calls, ensure_ascii=False)
    value = f"{text}<tool_call>{called}</tool_call>" if text else called
    return {"from": "function_call", "value": value}


def _text(message: Mapping[str, Any]) -> str:
    """Return the model's reasoning in a message, followed by its content."""
    reasoning = message.get("reasoning") if message["role"] == "assistant" else None
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


def openai(conversations: Conversations, notes: Counter[str]) -> Files:
    """Return OpenAI's fine-tuning format: a JSON object per line with `messages` and `tools`, which
    `tutti train sft --file` and NeMo-RL's openai_format read. Raises ExportRefused."""
    return {
        f"{side}.jsonl": [
            {"messages": _messages(each)} | ({"tools": list(each.tools)} if each.tools else {})
            for each in some
        ]
        for side, some in _sides(_wanted(conversations, notes))
    }


def prime_rl(conversations: Conversations, notes: Counter[str]) -> Files:
    """Return a folder per side with Parquet of `messages` and `tools` (JSON text), the form that
    prime-rl's scripts/export_sft.py makes of finished rollouts; `data.name` of its configuration is
    the folder. Raises ExportRefused."""
    kept = _wanted(conversations, notes)
    schema = pa.schema([("messages", _message_type(kept)), ("tools", pa.string())])
    files = Files()
    for side, some in _sides(kept):
        rows = [
            {"messages": _messages(each), "tools": json.dumps(list(each.tools), ensure_ascii=False)}
            for each in some
        ]
        files[f"{side}/train.parquet"] = pa.Table.from_pylist(rows, schema)
    return files


def verl(conversations: Conversations, notes: Counter[str]) -> Files:
    """Return `sft.parquet`, which verl's MultiTurnSFTDataset reads, and `rl.parquet`, which its
    RLHFDataset and reward functions read, with a row per task whose answer is in the store.

    Source: verl 0.9.1, utils/dataset/, docs/preparation/prepare_data. Raises ExportRefused.
    """
    kept = _wanted(conversations, notes)
    notes[VERL_TOOLS] += sum(bool(each.tools) for each in kept)
    type = _message_type(kept)
    fields = {"data_source": pa.string(), "prompt": type, "ability": pa.string()}
    schema = pa.schema(fields | {"reward_model": RULE, "extra_info": EXTRA})
    files = Files()
    for side, some in _sides(kept):
        name = "" if side == "train" else f"{side}_"
        rows = [{"messages": _messages(each)} for each in some]
        files[f"{name}sft.parquet"] = pa.Table.from_pylist(rows, pa.schema({"messages": type}))
        if prompts := _prompts(some, notes):
            files[f"{name}rl.parquet"] = pa.Table.from_pylist(prompts, schema)
    return files


def _prompts(conversations: Conversations, notes: Counter[str]) -> list[dict[str, Any]]:
    """Return one row per task: the messages before the model's first."""
    rows: dict[str, dict[str, Any]] = {}
    for each in conversations:
        origin = each.origin
        task_id, answer = origin.get("task_id"), origin.get("answer")
        if task_id is None or answer is None:
            notes[NO_ANSWER] += 1
            continue
        roles = [message["role"] for message in each.messages]
        row = {
            "data_source": origin.get("benchmark"),
            "prompt": _messages(each)[: roles.index("assistant")],
            "ability": origin.get("family"),
            "reward_model": {"style": "rule", "ground_truth": answer},
            "extra_info": {"split": origin.get("split"), "index": len(rows), "task_id": task_id},
        }
        rows.setdefault(task_id, row)
    return list(rows.values())


def _wanted(conversations: Conversations, notes: Counter[str]) -> list[Conversation]:
    """Return the conversations that a format without labels can carry, and count the others. Raises
    ExportRefused if none is left to train on."""
    kept = [each for each in conversations if each.wanted is not False]
    notes[UNWANTED] += len(conversations) - len(kept)
    if all(each.is_held_out for each in kept):
        raise ExportRefused(f"nothing is left to export: {notes[UNWANTED]} x {UNWANTED}")
    return kept


def _sides(conversations: Conversations) -> Iterator[tuple[str, list[Conversation]]]:
    """Yield file names, and the conversations for training or the held-out ones."""
    for side, is_held_out in (("train", False), ("held_out", True)):
        if some := [each for each in conversations if each.is_held_out == is_held_out]:
            yield side, some


def _message_type(conversations: Conversations) -> pa.DataType:
    """Return the type of the messages. Fields that no message has are left out, because templates
    test whether a field exists."""
    used = {key for each in conversations for message in _messages(each) for key in message}
    return pa.list_(pa.struct([(name, type) for name, type in FIELDS.items() if name in used]))


def _messages(conversation: Conversation) -> list[dict[str, Any]]:
    """Return the messages with call arguments as text; empty fields except content are left out."""
    messages = []
    for each in conversation.messages:
        calls = [
            {"id": call.get("id"), "type": "function", "function": _function(**call["function"])}
            for call in each.get("tool_calls") or ()
        ]
        message = {"role": each["role"], "content": each.get("content") or ""}
        message |= {"reasoning_content": each.get("reasoning"), "tool_calls": calls or None}
        message |= {name: each.get(name) for name in ("tool_call_id", "name")}
        messages.append({name: value for name, value in message.items() if value is not None})
    return messages


def _function(name: str, arguments: Any, **_: Any) -> dict[str, str]:
    is_text = isinstance(arguments, str)
    text = arguments if is_text else json.dumps(arguments, ensure_ascii=False)
    return {"name": name, "arguments": text}
