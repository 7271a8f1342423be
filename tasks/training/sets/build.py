"""A training set from a query: attempts to rows, frozen as an artifact.

In: SQL that names attempts, or a file of conversations. Out: `rows.parquet` (ids, turns, values,
log probabilities) or `rows.jsonl` (conversations), `held_out` beside it, `dropped.parquet` (attempt
or line, reason) and a manifest. The same attempts and settings give the same id.
"""

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from random import Random
from typing import Any

from tutti.storage import Catalog, Home, artifact_id, content_hash, query
from tutti.tasks.leaks import said_in
from tutti.tasks.training.jobs.job import JobError, TrainingData
from tutti.tasks.training.sets.chosen import (
    Chosen,
    chosen_by,
    counts_of,
    read_sequences,
    row_of,
    rows_by_attempt,
    whole_pairs,
)
from tutti.tasks.training.sets.frozen import FrozenRows, TrainingSet, freeze, parents_of
from tutti.tasks.training.sets.guards import HeldOut, foreign_engines
from tutti.tasks.training.sets.sequences import NOT_TRAINED, AttemptSequences

MESSAGES = (
    "select attempt_id, role, content, reasoning, tool_calls, tool_call_id, name from messages "
    "where attempt_id in (select unnest($ids)) order by attempt_id, position"
)
ATTEMPTS = (
    "select attempt_id, task_id, status, cell_id, engine_id, attempt_id in "
    "(select attempt_id from counted where status = 'scorer_error') as is_repaired from attempts "
    "where attempt_id in (select unnest($ids))"
)
"""Repaired: a scorer failed on it, and it was scored since."""
PROGRAMS = """
select a.attempt_id, list(m.content order by m.position) filter (m.content is not null) as said
from attempts a left join messages m on m.attempt_id = a.attempt_id
where a.attempt_id in (select unnest($ids)) and a.source = 'gateway'
    and a.task_id not in (select task_id from tasks)
group by a.attempt_id
"""
"""Attempts of no task set: all their messages are compared."""
OTHER_TOKENS = "ids of another tokenizer"
Rows = list[dict[str, Any]]


def build_set(
    data: TrainingData,
    ends: frozenset[int],
    catalog: Catalog,
    objective: str = "sft",
    base: Path | None = None,
) -> TrainingSet:
    """Build the training set of a query, or reuse an existing one. `ends`: ids that end a turn;
    `base`: the model that recorded ids must come from.

    Raises JobError if the query fails, if the objective cannot train on its rows, or if nothing is
    left to train on, and StoreError.
    """
    assert data.query is not None, "a set of attempts has a query"
    chosen = chosen_by(data.query, objective, catalog)
    attempts = _attempts(chosen, catalog)
    guard = HeldOut.asked_by(data, catalog.home)
    reasons = _left_out(chosen, attempts, guard, catalog.home)
    unknown = 0
    if data.tokens == "recorded" and base is not None:
        engines = (row["engine_id"] for row in attempts.values())
        foreign = foreign_engines(engines, base, catalog)
        for name, row in attempts.items():
            if foreign.get(row["engine_id"]):
                reasons.setdefault(name, OTHER_TOKENS)
            unknown += foreign.get(row["engine_id"]) is None and name not in reasons
    kept = [each for each in chosen if each.attempt_id not in reasons]
    if data.tokens == "recorded":
        rows, counts = _recorded(kept, ends, catalog.home, reasons)
    else:
        rows, counts = _conversations(kept, catalog.home, reasons), {}
    task_of = {row["name"]: attempts[row["name"]]["task_id"] for row in rows}
    if chosen[0].pair is not None:
        rows = whole_pairs(rows, task_of, objective, reasons)
    if not rows:
        raise JobError(f"data.from: nothing is left to train on: {_why(reasons)}")
    counts |= {
        "sequences": len(rows),
        **_tokens(rows),
        "attempts": len({each.attempt_id for each in chosen}),
        "unknown_tokenizer": unknown,
        "dropped": dict(Counter(reasons.values())),
        "guards": guard.guards,
        "query": data.query,
    }
    names = sorted({row["name"] for row in rows})
    parents = parents_of([attempts[name] for name in names], catalog)
    aside = _aside([task_of[row["name"]] for row in rows], data.held_out_share)
    settings = data.model_dump(mode="json", exclude={"query", "embedder"})
    set_id = artifact_id("training_set", [content_hash(rows), settings], parents)
    return freeze(FrozenRows(set_id, rows, aside, parents, reasons), counts, catalog)


def left_out(data: TrainingData, objective: str, catalog: Catalog) -> Counter[str]:
    """Count the attempts or lines that may not be trained on, by reason, without an embedder.
    Raises JobError."""
    guard = HeldOut.of(catalog.home, data.splits)
    if data.file is not None:
        return Counter(_copies(_conversations_in(data.file), guard).values())
    assert data.query is not None, "either a file or a query"
    chosen = chosen_by(data.query, objective, catalog)
    return Counter(_left_out(chosen, _attempts(chosen, catalog), guard, catalog.home).values())


def conversation_set(data: TrainingData, catalog: Catalog) -> TrainingSet:
    """Build the training set of a file of conversations. Raises JobError with file and line, or if
    nothing is left to train on."""
    assert data.file is not None, "a set of conversations has a file"
    every, guard = _conversations_in(data.file), HeldOut.asked_by(data, catalog.home)
    counts = {"conversations": len(every), "file": str(data.file), "splits": list(data.splits)}
    return _freeze_conversations(every, guard, catalog, counts, data.held_out_share)


def made_conversations(
    rows: Sequence[dict[str, Any]], parents: Sequence[str], catalog: Catalog
) -> TrainingSet:
    """Build the training set of conversations that a program generated from `parents`. Raises
    JobError if there are none."""
    if not rows:
        raise JobError("no conversations to train on, because no task passed the gates")
    every = {f"line {n}": row for n, row in enumerate(rows, 1)}
    return _freeze_conversations(every, HeldOut.of(catalog.home), catalog, {}, parents=parents)


def _freeze_conversations(
    every: Mapping[str, dict[str, Any]],
    guard: HeldOut,
    catalog: Catalog,
    counts: Mapping[str, Any],
    share: float = 0.0,
    parents: Sequence[str] = (),
) -> TrainingSet:
    """Freeze the conversations that copy no held-out text. Raises JobError if there are none."""
    reasons = _copies(every, guard)
    rows = [row for name, row in every.items() if name not in reasons]
    if not rows:
        raise JobError(f"conversations: nothing is left to train on: {_why(reasons)}")
    # The same conversation twice is on one side.
    aside = _aside([content_hash(row) for row in rows], share)
    set_id = artifact_id("training_set", [*rows, *([share] if share else [])], list(parents))
    known = {"dropped": dict(Counter(reasons.values())), "guards": guard.guards}
    manifest = {"sequences": len(rows), **counts, **known}
    return freeze(FrozenRows(set_id, rows, aside, parents, reasons), manifest, catalog)


def _conversations_in(file: Path) -> dict[str, dict[str, Any]]:
    """Return the rows of a file by line. Raises JobError."""
    try:
        lines = file.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise JobError(f"data.file: {file}: cannot be read: {error}") from None
    if not lines:
        raise JobError(f"data.file: {file}: no conversation in it")
    rows = {}
    for n, line in enumerate(lines, 1):
        try:
            rows[f"line {n}"] = row = json.loads(line)
            messages = row["messages"]
            roles = [each["role"] for each in messages if isinstance(messages, list)]
        except (ValueError, KeyError, TypeError):
            form = '{"messages": [{"role": …, "content": …}, …]}'
            raise JobError(f"{file}:{n}: not {form}") from None
        if "assistant" not in roles:
            raise JobError(f"{file}:{n}: no message of the role assistant, so nothing to learn")
    return rows


def _copies(rows: Mapping[str, Mapping[str, Any]], guard: HeldOut) -> dict[str, str]:
    """Return the conversations with a message that copies a held-out text, and the reason."""
    return guard.of_texts({name: list(said_in(row["messages"])) for name, row in rows.items()})


def _attempts(chosen: Sequence[Chosen], catalog: Catalog) -> dict[str, dict[str, Any]]:
    ids = sorted({each.attempt_id for each in chosen})
    return {row["attempt_id"]: row for row in query(ATTEMPTS, catalog.home, {"ids": ids})}


def _left_out(
    chosen: Sequence[Chosen],
    attempts: Mapping[str, Mapping[str, Any]],
    guard: HeldOut,
    home: Home,
) -> dict[str, str]:
    """Return the attempts that may not be trained on, and the reason."""
    programs = query(PROGRAMS, home, {"ids": sorted(attempts)})
    said = {row["attempt_id"]: row["said"] or [] for row in programs}
    why = {each.attempt_id: "no such attempt" for each in chosen if each.attempt_id not in attempts}
    return why | guard.of_attempts(attempts.values(), said)


def _recorded(
    chosen: Sequence[Chosen], ends: frozenset[int], home: Home, reasons: dict[str, str]
) -> tuple[Rows, dict[str, Any]]:
    """Return rows of recorded ids, and counts; attempts without ids are added to `reasons`."""
    rows: Rows = []
    every: list[AttemptSequences] = []
    names = [each.attempt_id for each in chosen]
    for place, sequences in read_sequences(names, ends, home, reasons):
        each = chosen[place]
        every.append(sequences)
        for sequence in sequences.sequences:
            values = [0.0 if turn == NOT_TRAINED else each.weight for turn in sequence.turns]
            row = row_of(each.attempt_id, sequence, values)
            rows.append(row | {"wanted": each.wanted, "pair": each.pair})
    return rows, counts_of(every)


def _tokens(rows: Sequence[Mapping[str, Any]]) -> dict[str, int]:
    if "messages" in rows[0]:
        return {}
    trained = sum(turn != NOT_TRAINED for row in rows for turn in row["turns"])
    return {"tokens": sum(len(row["ids"]) for row in rows), "trained_tokens": trained}


def _conversations(chosen: Sequence[Chosen], home: Home, reasons: dict[str, str]) -> Rows:
    """Rows of messages for the trainer to tokenise; `reasons` gets attempts without messages."""
    rows: Rows = []
    names = [each.attempt_id for each in chosen]
    for place, found in rows_by_attempt(MESSAGES, names, home):
        each = chosen[place]
        messages = [message_of(message, each.weight) for message in found]
        roles = {message["role"] for message in messages}
        if "assistant" not in roles:
            reasons[each.attempt_id] = "no messages were recorded"
        elif None in roles:
            reasons[each.attempt_id] = "a message has no role"
        else:
            row = {"name": each.attempt_id, "messages": messages}
            rows.append(row | {"wanted": each.wanted, "pair": each.pair})
    return rows


def message_of(row: Mapping[str, Any], weight: float | None = None) -> dict[str, Any]:
    """Convert a row of `messages` to the form of chat templates, with arguments as objects and
    `weight`, if given, on assistant turns."""
    message: dict[str, Any] = {"role": row["role"], "content": row["content"] or ""}
    message |= {n: row[n] for n in ("reasoning", "tool_call_id", "name") if row[n]}
    if row["tool_calls"]:
        message["tool_calls"] = [
            {"id": call["id"], "type": "function",
             "function": {"name": call["name"], "arguments": _arguments(call["arguments"])}}
            for call in row["tool_calls"]
        ]  # fmt: skip
    if weight is not None and row["role"] == "assistant":
        message["weight"] = weight
    return message


def _arguments(text: str | None) -> Any:
    try:
        return json.loads(text or "{}")
    except json.JSONDecodeError:
        return text  # as the model wrote it


def _aside(tasks: Sequence[str], share: float) -> list[bool]:
    """Return which rows are held out. All rows of a task are on one side; with two or more tasks,
    each side has at least one."""
    every = sorted(set(tasks))
    if share == 0 or len(every) < 2:
        return [False] * len(tasks)
    count = min(max(1, round(len(every) * share)), len(every) - 1)
    held = set(Random(f"held out {len(every)}").sample(every, count))
    return [task_id in held for task_id in tasks]


def _why(reasons: Mapping[str, str]) -> str:
    counts = Counter(reasons.values()).most_common(3)
    return "; ".join(f"{n} x {why}" for why, n in counts)
