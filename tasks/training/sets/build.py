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
from tutti.tasks.training.job import JobError, TrainingData
from tutti.tasks.training.sets.chosen import (
    Chosen,
    chosen_by,
    counts_of,
    in_pairs,
    read_sequences,
    row_of,
    rows_by_attempt,
    same_turns,
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
"""Attempts of no task set: all that was said is compared."""
SAME_TURNS = "sdpo"
OTHER_TOKENS = "ids of another tokenizer"


def build_set(
    data: TrainingData,
    ends: frozenset[int],
    catalog: Catalog,
    objective: str = "sft",
    base: Path | None = None,
) -> TrainingSet:
    """The training set of a query; an existing one is reused. `ends`: ids that end a turn; `base`:
    the model whose ids recorded ones must be.

    Raises JobError where the query fails, gives what the objective cannot train on, or leaves
    nothing to train on, and StoreError.
    """
    assert data.query is not None, "a set of attempts has a query"
    chosen = chosen_by(data.query, objective, catalog)
    attempts = _attempts(chosen, catalog)
    guard = HeldOut.asked_by(data, catalog.home)
    reasons = _left_out(chosen, attempts, guard, catalog.home)
    unknown = 0
    if data.tokens == "recorded" and base is not None:
        unknown = _other_tokens(attempts, base, catalog, reasons)
    kept = [each for each in chosen if each.attempt_id not in reasons]
    made = _recorded if data.tokens == "recorded" else _conversations
    rows, counts = made(kept, ends, catalog, reasons)
    task_of = {row["name"]: attempts[row["name"]]["task_id"] for row in rows}
    if in_pairs(chosen):
        rows = whole_pairs(rows, task_of, reasons)
        rows = same_turns(rows, reasons) if objective == SAME_TURNS else rows
    if not rows:
        raise JobError(f"data.from: nothing is left to train on: {_why(reasons)}")
    named = len({each.attempt_id for each in chosen})
    counts = {
        **counts,
        **_sizes(rows),
        "attempts": named,
        "unknown_tokenizer": unknown,
        "dropped": dict(Counter(reasons.values())),
        "guards": guard.guards,
    }
    names = {row["name"] for row in rows}
    parents = parents_of([attempts[name] for name in sorted(names)], catalog)
    aside = _aside([task_of[row["name"]] for row in rows], data.held_out_share)
    settings = data.model_dump(mode="json", exclude={"query", "embedder"})
    set_id = artifact_id("training_set", [content_hash(rows), settings], parents)
    frozen = FrozenRows(set_id, rows, aside, parents, reasons)
    return freeze(frozen, counts | {"query": data.query}, catalog)


def left_out(data: TrainingData, objective: str, catalog: Catalog) -> Counter[str]:
    """How much of a query or a file may not be trained on, by reason; no embedder is asked. Raises
    JobError."""
    guard = HeldOut.of(catalog.home, data.splits)
    if data.file is not None:
        return Counter(_copies(_conversations_in(data.file), guard).values())
    assert data.query is not None, "either a file or a query"
    chosen = chosen_by(data.query, objective, catalog)
    return Counter(_left_out(chosen, _attempts(chosen, catalog), guard, catalog.home).values())


def conversation_set(data: TrainingData, catalog: Catalog) -> TrainingSet:
    """The training set of a file of conversations. Raises JobError with file and line, or where
    nothing is left to train on."""
    assert data.file is not None, "a set of conversations has a file"
    every, guard = _conversations_in(data.file), HeldOut.asked_by(data, catalog.home)
    rows, reasons = _without_copies(every, guard, "data.file: ")
    # The same conversation twice is on one side.
    aside = _aside([content_hash(row) for row in rows], data.held_out_share)
    share = [data.held_out_share] if data.held_out_share else []
    set_id = artifact_id("training_set", [*rows, *share], [])
    counts = {"sequences": len(rows), "conversations": len(every), "file": str(data.file)}
    counts |= {"splits": list(data.splits)}
    counts |= {"dropped": dict(Counter(reasons.values())), "guards": guard.guards}
    return freeze(FrozenRows(set_id, rows, aside, reasons=reasons), counts, catalog)


def made_conversations(
    rows: Sequence[dict[str, Any]], parents: Sequence[str], catalog: Catalog
) -> TrainingSet:
    """The training set of conversations that a program made from `parents`. Raises JobError where
    there are none."""
    if not rows:
        raise JobError("no conversations to train on, because no task passed the gates")
    guard = HeldOut.of(catalog.home)
    kept, reasons = _without_copies({f"line {n}": row for n, row in enumerate(rows, 1)}, guard)
    set_id = artifact_id("training_set", kept, list(parents))
    counts = {"sequences": len(kept), "dropped": dict(Counter(reasons.values()))}
    frozen = FrozenRows(set_id, kept, [False] * len(kept), parents, reasons)
    return freeze(frozen, counts | {"guards": guard.guards}, catalog)


def _conversations_in(file: Path) -> dict[str, dict[str, Any]]:
    """The rows of a file, by their lines. Raises JobError."""
    try:
        lines = file.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise JobError(f"data.file: {file}: cannot be read: {error}") from None
    if not lines:
        raise JobError(f"data.file: {file}: no conversation in it")
    return {f"line {n}": _conversation(file, n, line) for n, line in enumerate(lines, 1)}


def _copies(rows: Mapping[str, Mapping[str, Any]], guard: HeldOut) -> dict[str, str]:
    """Conversations in which a message copies a held-out text, and why."""
    return guard.of_texts({name: list(said_in(row["messages"])) for name, row in rows.items()})


def _without_copies(
    every: Mapping[str, dict[str, Any]], guard: HeldOut, where: str = ""
) -> tuple[list[dict[str, Any]], dict[str, str]]:
    """Conversations that may be trained on, and why others may not. Raises JobError if none may."""
    reasons = _copies(every, guard)
    rows = [row for name, row in every.items() if name not in reasons]
    if not rows:
        raise JobError(f"{where}nothing is left to train on: {_why(reasons)}")
    return rows, reasons


def _conversation(file: Path, number: int, line: str) -> dict[str, Any]:
    form = JobError(f'{file}:{number}: not {{"messages": [{{"role": …, "content": …}}, …]}}')
    try:
        row: dict[str, Any] = json.loads(line)
        messages = row["messages"]
        known = isinstance(messages, list) and all(isinstance(each, dict) for each in messages)
        if not known or not all("role" in each for each in messages):
            raise form
    except (json.JSONDecodeError, KeyError, TypeError):
        raise form from None
    if not any(each["role"] == "assistant" for each in messages):
        raise JobError(f"{file}:{number}: no message of the role assistant, so nothing to learn")
    return row


def _attempts(chosen: Sequence[Chosen], catalog: Catalog) -> dict[str, dict[str, Any]]:
    ids = sorted({each.attempt_id for each in chosen})
    return {row["attempt_id"]: row for row in query(ATTEMPTS, catalog.home, {"ids": ids})}


def _left_out(
    chosen: Sequence[Chosen],
    attempts: Mapping[str, Mapping[str, Any]],
    guard: HeldOut,
    home: Home,
) -> dict[str, str]:
    """Attempts that may not be trained on, and why."""
    said = {
        row["attempt_id"]: row["said"] or []
        for row in query(PROGRAMS, home, {"ids": sorted(attempts)})
    }
    found = guard.of_attempts(attempts.values(), said)
    why = {each.attempt_id: "no such attempt" for each in chosen if each.attempt_id not in attempts}
    return why | found


def _other_tokens(
    attempts: Mapping[str, Mapping[str, Any]],
    base: Path,
    catalog: Catalog,
    reasons: dict[str, str],
) -> int:
    """Leave out attempts of models with other tokens; how many are of models with unknown ones."""
    foreign = foreign_engines((row["engine_id"] for row in attempts.values()), base, catalog)
    unknown = 0
    for name, row in attempts.items():
        is_foreign = foreign.get(row["engine_id"])
        if is_foreign:
            reasons.setdefault(name, OTHER_TOKENS)
        unknown += is_foreign is None and name not in reasons
    return unknown


def _recorded(
    chosen: Sequence[Chosen], ends: frozenset[int], catalog: Catalog, reasons: dict[str, str]
) -> tuple[list[dict[str, Any]], Mapping[str, Any]]:
    """Rows of recorded ids; `reasons` gets those that have none."""
    rows: list[dict[str, Any]] = []
    every: list[AttemptSequences] = []
    names = [each.attempt_id for each in chosen]
    for place, found in read_sequences(names, ends, catalog.home, reasons):
        each = chosen[place]
        every.append(found)
        for sequence in found.sequences:
            values = [0.0 if turn == NOT_TRAINED else each.weight for turn in sequence.turns]
            row = row_of(each.attempt_id, sequence, values)
            rows.append(row | {"wanted": each.wanted, "pair": each.pair})
    return rows, counts_of(every)


def _sizes(rows: Sequence[Mapping[str, Any]]) -> dict[str, int]:
    if "messages" in rows[0]:
        return {"sequences": len(rows)}
    trained = sum(turn != NOT_TRAINED for row in rows for turn in row["turns"])
    tokens = sum(len(row["ids"]) for row in rows)
    return {"sequences": len(rows), "tokens": tokens, "trained_tokens": trained}


def _conversations(
    chosen: Sequence[Chosen], ends: frozenset[int], catalog: Catalog, reasons: dict[str, str]
) -> tuple[list[dict[str, Any]], Mapping[str, Any]]:
    """Rows of messages, for the trainer to tokenise; `reasons` gets those that have none."""
    rows = []
    names = [each.attempt_id for each in chosen]
    for place, messages in rows_by_attempt(MESSAGES, names, catalog.home):
        each = chosen[place]
        said = [message_of(message, each.weight) for message in messages]
        if not any(message["role"] == "assistant" for message in said):
            reasons[each.attempt_id] = "no messages were recorded"
            continue
        if any(message["role"] is None for message in said):
            reasons[each.attempt_id] = "a message has no role"
            continue
        row: dict[str, Any] = {"name": each.attempt_id, "messages": said}
        rows.append(row | {"wanted": each.wanted, "pair": each.pair})
    return rows, {}


def message_of(row: Mapping[str, Any], weight: float | None = None) -> dict[str, Any]:
    """A row of `messages` in the form of chat templates: arguments as objects, and the weight of
    the assistant's turns where one is given."""
    said: dict[str, Any] = {"role": row["role"], "content": row["content"] or ""}
    for name in ("reasoning", "tool_call_id", "name"):
        if row[name]:
            said[name] = row[name]
    if row["tool_calls"]:
        said["tool_calls"] = [
            {"id": call["id"], "type": "function",
             "function": {"name": call["name"], "arguments": _arguments(call["arguments"])}}
            for call in row["tool_calls"]
        ]  # fmt: skip
    weighs = weight is not None and row["role"] == "assistant"
    return said | ({"weight": weight} if weighs else {})


def _arguments(text: str | None) -> Any:
    try:
        return json.loads(text or "{}")
    except json.JSONDecodeError:
        return text  # as the model wrote it


def _aside(tasks: Sequence[str], share: float) -> list[bool]:
    """Which rows are kept aside, by their tasks: all of a task, so that none is on both sides.

    At least one task is, and one is not, where there are two.
    """
    every = sorted(set(tasks))
    if share == 0 or len(every) < 2:
        return [False] * len(tasks)
    count = min(max(1, round(len(every) * share)), len(every) - 1)
    held = set(Random(f"held out {len(every)}").sample(every, count))
    return [task_id in held for task_id in tasks]


def _why(reasons: Mapping[str, str]) -> str:
    counts = Counter(reasons.values()).most_common(3)
    return "; ".join(f"{n} x {why}" for why, n in counts)
