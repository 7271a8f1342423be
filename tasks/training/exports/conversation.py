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
from tutti.tasks.training.sets.guards import HeldOut
from tutti.tasks.training.sets.recorded import AT_ONCE

SIDES = (("rows", False), ("held_out", True))
COLUMNS = ["name", "values", "turns", "wanted", "pair"]
OLD_NAME = "conversations"
"""Name of the file in sets of `tutti improve`."""
ORIGINS = (
    "select a.attempt_id, a.task_id, a.benchmark, any_value(t.family) as family, "
    "any_value(t.answer) as answer, any_value(t.split) as split from attempts a "
    "left join tasks t on t.task_id = a.task_id "
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
    for name, is_held_out in SIDES:
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
        origins = _origins([each.name for each in made if each.name], catalog)
        return [_with_origin(each, origins) for each in made]
    return list(_attempts(file, is_held_out, catalog, notes))


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
    for row in pq.read_table(
        file, columns=["name", "values", "turns", "wanted", "pair"]
    ).to_pylist():
        _refuse_pairs(row)
        _count_weights(
            [v for v, t in zip(row["values"], row["turns"], strict=True) if t >= 0], notes
        )
        if row["name"] in rows:
            notes["further sequences of an attempt (its messages are written once)"] += 1
        rows.setdefault(row["name"], row)
    notes["attempts without their log probabilities and token ids"] += len(rows)
    names = list(rows)
    for first in range(0, len(names), AT_ONCE):
        some = names[first : first + AT_ONCE]
        found: dict[str, list[dict[str, Any]]] = {}
        for each in query(MESSAGES, catalog.home, {"ids": some}):
            found.setdefault(each["attempt_id"], []).append(message_of(each))
        origins = _origins(some, catalog)
        for name in some:
            if name not in found:
                raise ExportRefused(f"{name}: the store has no messages of this attempt")
            yield Conversation(
                found[name], name, (), rows[name]["wanted"], is_held_out, origins.get(name, {})
            )


def _origins(names: Sequence[str], catalog: Catalog) -> dict[str, dict[str, Any]]:
    found = query(ORIGINS, catalog.home, {"ids": list(names)}) if names else []
    return {row["attempt_id"]: row for row in found}


def _with_origin(made: Conversation, origins: Mapping[str, Mapping[str, Any]]) -> Conversation:
    return replace(made, origin=origins.get(made.name, {}))


def _refuse_pairs(row: Mapping[str, Any]) -> None:
    if row.get("pair") is not None:
        raise ExportRefused(
            "a set of pairs compares whole attempts, which no format of these has; export a set "
            "of its chosen attempts (objective sft), or of labelled ones (kto)"
        )


def _count_weights(weights: Sequence[float], notes: Counter[str]) -> None:
    if any(weight != 1.0 for weight in weights):
        notes["conversations or sequences without their weights (each counts 1)"] += 1


UNWANTED = "conversations left out: not wanted (this format has no label)"


def wanted_of(made: Sequence[Conversation], notes: Counter[str]) -> list[Conversation]:
    """Those that a format without labels can carry; the others are counted. Raises ExportRefused
    where none is left to train on."""
    kept = [each for each in made if each.wanted is not False]
    notes[UNWANTED] += len(made) - len(kept)
    if not any(not each.is_held_out for each in kept):
        raise ExportRefused(f"nothing is left to export: {notes[UNWANTED]} x {UNWANTED}")
    return kept
