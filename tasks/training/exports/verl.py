"""verl's data: `sft.parquet` of whole conversations, and `rl.parquet` of prompts to roll out.

`sft.parquet` is what its MultiTurnSFTDataset reads (`messages`); `rl.parquet` what its RLHFDataset
and reward functions read, one row a task, where the store knows the task's answer. Source: verl
0.9.1, utils/dataset/, docs/preparation/prepare_data.
"""

from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa

from tutti.tasks.training.exports.conversation import Conversation, wanted_of
from tutti.tasks.training.exports.wire import message_type, wire, write_rows

NO_ANSWER = "conversations without a row in rl.parquet: no known task and answer"
TOOLS = "conversations without their tools: verl reads tools from its own configuration"
NAMES = {False: "", True: "held_out_"}
SOURCE = (("style", pa.string()), ("ground_truth", pa.string()))
EXTRA = (("split", pa.string()), ("index", pa.int64()), ("task_id", pa.string()))


def write(made: Sequence[Conversation], folder: Path, notes: Counter[str]) -> list[Path]:
    """Write them, and those that are held out beside. Raises ExportRefused."""
    kept = wanted_of(made, notes)
    notes[TOOLS] += sum(bool(each.tools) for each in kept)
    said = message_type(kept)
    files = []
    for is_held_out, name in NAMES.items():
        side = [each for each in kept if each.is_held_out == is_held_out]
        rows = [{"messages": [wire(each) for each in one.messages]} for one in side]
        if rows:
            schema = pa.schema([("messages", said)])
            files.append(write_rows(rows, schema, folder / f"{name}sft.parquet"))
        if prompts := _prompts(side, notes):
            files.append(write_rows(prompts, _rl_schema(said), folder / f"{name}rl.parquet"))
    return files


def _rl_schema(messages: pa.DataType) -> pa.Schema:
    return pa.schema(
        [
            ("data_source", pa.string()),
            ("prompt", messages),
            ("ability", pa.string()),
            ("reward_model", pa.struct(list(SOURCE))),
            ("extra_info", pa.struct(list(EXTRA))),
        ]
    )


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
        known = {"split": origin.get("split"), "index": len(rows), "task_id": task_id}
        row = {
            "data_source": origin.get("benchmark"),
            "prompt": [wire(said) for said in each.messages[:first]],
            "ability": origin.get("family"),
            "reward_model": {"style": "rule", "ground_truth": answer},
            "extra_info": known,
        }
        rows.setdefault(task_id, row)
    return list(rows.values())
