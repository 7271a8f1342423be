"""A frozen training set as conversations.

In: a set's id. Out: messages in the form of OpenAI's API. Sets of recorded ids give the messages
of their attempts from the store; ids are never turned back into text.
"""

import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from tutti.errors import UsageError
from tutti.storage import Catalog, query
from tutti.tasks.leaks import said_in
from tutti.tasks.training.sets.build import MESSAGES, message_of
from tutti.tasks.training.sets.chosen import rows_by_attempt
from tutti.tasks.training.sets.guards import HeldOut

SIDES = (("train", False), ("held_out", True))
"""What files are called, and whether their conversations are held out."""
COLUMNS = ["name", "values", "turns", "wanted", "pair"]
OLD_NAME = "conversations"
"""Name of the file in sets of `tutti improve`."""
ExportedFiles = dict[str, Any]
"""By name: a table of Parquet, or what JSON has."""
ORIGINS = (
    "select a.attempt_id, a.task_id, a.benchmark, any_value(t.family) as family, "
    "any_value(t.answer) as answer, any_value(t.split) as split from attempts a "
    "left join cells c using (cell_id) left join tasks t on t.task_id = a.task_id "
    "and (c.task_set_id is null or t.task_set_id = c.task_set_id) "
    "where a.attempt_id in (select unnest($ids)) group by all"
)


class ExportRefused(UsageError):
    """A training set cannot be exported; the message says why."""


@dataclass(frozen=True)
class Conversation:
    """One conversation of a training set."""

    messages: Sequence[dict[str, Any]]
    """In the form of OpenAI's API, with `reasoning`; arguments of calls are objects where they are
    JSON, else text."""
    name: str = ""
    """Its attempt, where it has one."""
    tools: Sequence[Any] = ()
    wanted: bool | None = None
    is_held_out: bool = False
    origin: Mapping[str, Any] = field(default_factory=dict)
    """`task_id`, `benchmark`, `family`, `answer`, `split` of its attempt, as far as known."""


def conversations_of(set_id: str, catalog: Catalog, notes: Counter[str]) -> list[Conversation]:
    """The conversations of a training set; `notes` counts what they do not carry. Those of a file
    are compared again: their set may be older than a held-out task.

    Raises ExportRefused for an id that is no training set with rows, a set of pairs, and attempts
    without messages.
    """
    known = catalog.artifact(set_id)
    if known is None or not set_id.startswith("training_set:"):
        raise ExportRefused(f"{set_id}: no such training set; `tutti lineage` names a checkpoint's")
    folder = Path(known["path"] or "")
    made: list[Conversation] = []
    for name, is_held_out in (("rows", False), ("held_out", True)):
        for file in (folder / f"{name}.jsonl", folder / f"{name}.parquet"):
            if file.is_file():
                made += _read(file, is_held_out, catalog, notes)
    if not made and (folder / f"{OLD_NAME}.jsonl").is_file():
        made = list(_said(folder / f"{OLD_NAME}.jsonl", False, notes))
    if not made:
        raise ExportRefused(f"{set_id}: {folder} holds no rows; train on it again to build it")
    guard = HeldOut.of(catalog.home, known["detail"].get("splits", ("train",)))
    said = {str(n): list(said_in(each.messages)) for n, each in enumerate(made) if not each.name}
    copies = guard.of_texts(said)
    notes.update(f"conversations left out: {why}" for why in copies.values())
    kept = [each for n, each in enumerate(made) if str(n) not in copies]
    if not kept:
        raise ExportRefused(f"{set_id}: every conversation copies a held-out text")
    return kept


def _read(
    file: Path, is_held_out: bool, catalog: Catalog, notes: Counter[str]
) -> list[Conversation]:
    if file.suffix == ".jsonl":
        made = list(_said(file, is_held_out, notes))
    else:
        made = list(_attempts(file, is_held_out, catalog, notes))
    names = [each.name for each in made if each.name]
    found = query(ORIGINS, catalog.home, {"ids": names}) if names else []
    origins = {row["attempt_id"]: row for row in found}
    return [replace(each, origin=origins.get(each.name, {})) for each in made]


def _said(file: Path, is_held_out: bool, notes: Counter[str]) -> Iterator[Conversation]:
    """Of a file of conversations."""
    with file.open(encoding="utf-8") as lines:
        for line in lines:
            row = json.loads(line)
            _refuse_pairs(row)
            weights = [each.get("weight", 1.0) for each in row["messages"]]
            _count_weights(weights, notes)
            messages = [
                {key: value for key, value in each.items() if key != "weight"}
                for each in row["messages"]
            ]
            name, tools = row.get("name") or "", row.get("tools") or ()
            yield Conversation(messages, name, tools, row.get("wanted"), is_held_out)


def _attempts(
    file: Path, is_held_out: bool, catalog: Catalog, notes: Counter[str]
) -> Iterator[Conversation]:
    """Of recorded ids: each attempt once, with its messages."""
    rows: dict[str, dict[str, Any]] = {}
    for row in pq.read_table(file, columns=COLUMNS).to_pylist():
        _refuse_pairs(row)
        trained = zip(row["values"], row["turns"], strict=True)
        _count_weights([value for value, turn in trained if turn >= 0], notes)
        if row["name"] in rows:
            notes["further sequences of an attempt (its messages are written once)"] += 1
        rows.setdefault(row["name"], row)
    notes["attempts without their log probabilities and token ids"] += len(rows)
    names = list(rows)
    for place, messages in rows_by_attempt(MESSAGES, names, catalog.home):
        name = names[place]
        if not messages:
            raise ExportRefused(f"{name}: the store has no messages of this attempt")
        said = [message_of(each) for each in messages]
        yield Conversation(said, name, (), rows[name]["wanted"], is_held_out)


def _refuse_pairs(row: Mapping[str, Any]) -> None:
    if row.get("pair") is not None:
        raise ExportRefused(
            "a set of pairs compares whole attempts, which no format of these has; export a set "
            "of its chosen attempts (objective sft), or of labelled ones (kto)"
        )


def _count_weights(weights: Sequence[float], notes: Counter[str]) -> None:
    if any(weight != 1.0 for weight in weights):
        notes["conversations or sequences without their weights (each counts 1)"] += 1
