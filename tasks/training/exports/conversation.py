"""A frozen training set as conversations, in the form of OpenAI's API. Sets of recorded ids give
the messages of their attempts from the store; ids are never converted back to text."""

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

COLUMNS = ["name", "values", "turns", "wanted", "pair"]
FILES = (("rows", False), ("held_out", True), ("conversations", False))
"""Files of a set, and whether their rows are held out. `conversations` is in sets of older versions
of `tutti improve`."""
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
    tools: Sequence[Any] = ()
    wanted: bool | None = None
    is_held_out: bool = False
    origin: Mapping[str, Any] = field(default_factory=dict)
    """`task_id`, `benchmark`, `family`, `answer`, `split` of its attempt, as far as known."""


def conversations_of(set_id: str, catalog: Catalog, notes: Counter[str]) -> list[Conversation]:
    """The conversations of a training set; `notes` counts what they do not carry. Conversations
    from a file are checked again, because their set may be older than a held-out task.

    Raises ExportRefused for an id that is no training set with rows, a set of pairs, and attempts
    without messages.
    """
    known = catalog.artifact(set_id)
    if known is None or not set_id.startswith("training_set:"):
        raise ExportRefused(f"{set_id}: no such training set; `tutti lineage` names a checkpoint's")
    folder = Path(known["path"] or "")
    every: list[Conversation] = []
    for name, is_held_out in FILES:
        if (file := folder / f"{name}.jsonl").is_file():
            every += _from_file(file, is_held_out, notes)
        if (file := folder / f"{name}.parquet").is_file():
            every += _from_attempts(file, is_held_out, catalog, notes)
    if not every:
        raise ExportRefused(f"{set_id}: {folder} holds no rows; train on it again to build it")
    guard = HeldOut.of(catalog.home, known["detail"].get("splits", ("train",)))
    texts = {str(n): list(said_in(each.messages)) for n, each in enumerate(every) if not each.name}
    copies = guard.of_texts(texts)
    notes.update(f"conversations left out: {why}" for why in copies.values())
    every = [each for n, each in enumerate(every) if str(n) not in copies]
    if not every:
        raise ExportRefused(f"{set_id}: every conversation copies a held-out text")
    names = [each.name for each in every if each.name]
    rows = query(ORIGINS, catalog.home, {"ids": names}) if names else []
    origins = {row["attempt_id"]: row for row in rows}
    return [replace(each, origin=origins.get(each.name, {})) for each in every]


def _from_file(file: Path, is_held_out: bool, notes: Counter[str]) -> Iterator[Conversation]:
    for line in file.read_text(encoding="utf-8").splitlines():
        row = json.loads(line)
        weights = [each.pop("weight", 1.0) for each in row["messages"]]
        _check_row(row, weights, notes)
        name, tools = row.get("name") or "", row.get("tools") or ()
        yield Conversation(row["messages"], name, tools, row.get("wanted"), is_held_out)


def _from_attempts(
    file: Path, is_held_out: bool, catalog: Catalog, notes: Counter[str]
) -> Iterator[Conversation]:
    """Yield each attempt of a set of recorded ids once, with its messages."""
    wanted: dict[str, bool | None] = {}
    for row in pq.read_table(file, columns=COLUMNS).to_pylist():
        trained = zip(row["values"], row["turns"], strict=True)
        _check_row(row, [value for value, turn in trained if turn >= 0], notes)
        if row["name"] in wanted:
            notes["further sequences of an attempt (its messages are written once)"] += 1
        wanted.setdefault(row["name"], row["wanted"])
    notes["attempts without their log probabilities and token ids"] += len(wanted)
    names = list(wanted)
    for place, rows in rows_by_attempt(MESSAGES, names, catalog.home):
        name = names[place]
        if not rows:
            raise ExportRefused(f"{name}: the store has no messages of this attempt")
        messages = [message_of(each) for each in rows]
        yield Conversation(messages, name, (), wanted[name], is_held_out)


def _check_row(row: Mapping[str, Any], weights: Sequence[float], notes: Counter[str]) -> None:
    if row.get("pair") is not None:
        raise ExportRefused(
            "a set of pairs compares whole attempts, which no format of these has; export a set "
            "of its chosen attempts (objective sft), or of labelled ones (kto)"
        )
    if any(weight != 1.0 for weight in weights):
        notes["conversations or sequences without their weights (each counts 1)"] += 1
