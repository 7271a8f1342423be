"""A training set from a query: attempts to rows, frozen as an artifact.

In: SQL that names attempts. Out: `rows.parquet` (ids, turns, values, log probabilities) or
`rows.jsonl` (conversations), `held_out` beside it, `dropped.parquet` (attempt, reason) and a
manifest. The same attempts and settings give the same id.
"""

import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from tutti.storage import BrokenSpans, Catalog, artifact_id, content_hash, query
from tutti.storage import catalog as cat
from tutti.tasks.training.job import JobError, TrainingData
from tutti.tasks.training.sets.guards import HeldOut
from tutti.tasks.training.sets.sequences import NOT_TRAINED, recorded_calls, sequences_of

AT_ONCE = 200
"""Attempts whose calls are in memory at the same time."""
CALLS = (
    "select call_id, attempt_id, token_ids, logprobs, prompt_token_ids, weights_at_start "
    "from calls where attempt_id in (select unnest($ids)) and role = 'orchestrator' "
    "and status = 'ok' order by attempt_id, step, sent_at"
)
MESSAGES = (
    "select attempt_id, role, content, reasoning, tool_calls, tool_call_id, name from messages "
    "where attempt_id in (select unnest($ids)) order by attempt_id, position"
)
ROW = pa.schema(
    [
        ("name", pa.string()),
        ("ids", pa.list_(pa.int32())),
        ("turns", pa.list_(pa.int32())),
        ("values", pa.list_(pa.float32())),
        ("logprobs", pa.list_(pa.float32())),
        ("wanted", pa.bool_()),
    ]
)


@dataclass(frozen=True)
class TrainingSet:
    """A frozen training set."""

    set_id: str
    rows: Path
    held_out: Path | None
    manifest: Mapping[str, Any]
    """Counts: attempts, sequences, tokens, breaks, dropped by reason."""


@dataclass(frozen=True)
class _Chosen:
    """An attempt that the query names."""

    attempt_id: str
    weight: float = 1.0
    wanted: bool | None = None


def build_set(data: TrainingData, ends: frozenset[int], catalog: Catalog) -> TrainingSet:
    """The training set of a query; an existing one is reused. `ends`: ids that end a turn.

    Raises JobError where the query fails or nothing is left to train on, and StoreError.
    """
    assert data.query is not None, "a set of attempts has a query"
    chosen = _asked(data.query, catalog)
    ids = [each.attempt_id for each in chosen]
    attempts = {
        row["attempt_id"]: row
        for row in query(
            "select attempt_id, task_id, status from attempts "
            "where attempt_id in (select unnest($ids))",
            catalog.home,
            {"ids": ids},
        )
    }
    held_out = HeldOut.of(query("select task_id, split, question from tasks", catalog.home),
                          data.splits)  # fmt: skip
    dropped = {
        each.attempt_id: (
            held_out.reason(attempts[each.attempt_id])
            if each.attempt_id in attempts
            else "no such attempt"
        )
        for each in chosen
    }
    kept = [each for each in chosen if dropped[each.attempt_id] is None]
    reasons = {name: why for name, why in dropped.items() if why is not None}
    made = _recorded if data.tokens == "recorded" else _conversations
    rows, counts = made(kept, ends, catalog, reasons)
    if not rows:
        raise JobError(f"data.from: nothing is left to train on: {_why(reasons)}")
    aside = _aside({row["name"]: attempts[row["name"]]["task_id"] for row in rows}, data)
    counts |= {"attempts": len(chosen), "dropped": dict(Counter(reasons.values()))}
    settings = data.model_dump(mode="json", exclude={"query"})
    set_id = artifact_id("training_set", [content_hash(rows), settings], [])
    return _freeze(set_id, rows, aside, reasons, counts | {"query": data.query}, catalog)


def conversation_set(file: Path, catalog: Catalog) -> TrainingSet:
    """The training set of a file of conversations. Raises JobError with file and line."""
    try:
        lines = file.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise JobError(f"data.file: {file}: cannot be read: {error}") from None
    rows = []
    for number, line in enumerate(lines, 1):
        try:
            row = json.loads(line)
            assert isinstance(row["messages"], list)
        except (json.JSONDecodeError, KeyError, TypeError, AssertionError):
            raise JobError(f'{file}:{number}: not {{"messages": [...]}}') from None
        rows.append(row)
    if not rows:
        raise JobError(f"data.file: {file}: no conversation in it")
    set_id = artifact_id("training_set", rows, [])
    return _freeze(set_id, rows, set(), {}, {"sequences": len(rows), "file": str(file)}, catalog)


def _asked(sql: str, catalog: Catalog) -> list[_Chosen]:
    try:
        found = query(sql, catalog.home)
    except Exception as error:  # whatever DuckDB says of somebody's statement
        raise JobError(f"data.from: {error}") from None
    if not found:
        raise JobError("data.from: the query gives no row")
    if {"chosen", "rejected"} <= found[0].keys():
        pairs = [(row["chosen"], row["rejected"]) for row in found]
        return [_Chosen(name, wanted=nth == 0) for pair in pairs for nth, name in enumerate(pair)]
    if "attempt_id" not in found[0]:
        raise JobError(f"data.from: gives {', '.join(found[0])}; it must give attempt_id")
    chosen = [
        _Chosen(row["attempt_id"], _number(row.get("weight"), nth), row.get("wanted"))
        for nth, row in enumerate(found)
    ]
    twice = [name for name, n in Counter(each.attempt_id for each in chosen).items() if n > 1]
    if twice:
        raise JobError(f"data.from: gives {twice[0]} more than once; it would be learned twice")
    return chosen


def _number(value: Any, nth: int) -> float:
    if value is None:
        return 1.0
    try:
        return float(value)
    except (TypeError, ValueError):
        raise JobError(f"data.from: row {nth + 1}: weight {value!r} is no number") from None


def _recorded(
    chosen: Sequence[_Chosen], ends: frozenset[int], catalog: Catalog, reasons: dict[str, str]
) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    """Rows of recorded ids; `reasons` gets those that have none."""
    rows: list[dict[str, Any]] = []
    breaks: Counter[str] = Counter()
    truncated = 0
    for each, calls in _with(CALLS, chosen, catalog):
        try:
            recorded = recorded_calls(calls)
        except BrokenSpans as error:
            recorded, reasons[each.attempt_id] = None, f"broken spans: {error}"
        if not recorded:
            reasons.setdefault(each.attempt_id, "no token ids were recorded")
            continue
        found = sequences_of(recorded, ends)
        truncated += found.truncated
        breaks += found.breaks
        if not found.sequences:
            reasons[each.attempt_id] = "every answer was cut"
        for sequence in found.sequences:
            values = [0.0 if turn == NOT_TRAINED else each.weight for turn in sequence.turns]
            row: dict[str, Any] = {
                "name": each.attempt_id,
                "ids": sequence.ids,
                "turns": sequence.turns,
            }
            row |= {"values": values, "logprobs": sequence.logprobs, "wanted": each.wanted}
            rows.append(row)
    counts = {
        "sequences": len(rows),
        "tokens": sum(len(row["ids"]) for row in rows),
        "trained_tokens": sum(turn != NOT_TRAINED for row in rows for turn in row["turns"]),
        "truncated_calls": truncated,
        "breaks": dict(breaks),
    }
    return rows, counts


def _conversations(
    chosen: Sequence[_Chosen], ends: frozenset[int], catalog: Catalog, reasons: dict[str, str]
) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    """Rows of messages, for the trainer to tokenise; `reasons` gets those that have none."""
    rows = []
    for each, messages in _with(MESSAGES, chosen, catalog):
        said = [_message(message, each.weight) for message in messages]
        if not any(message["role"] == "assistant" for message in said):
            reasons[each.attempt_id] = "no messages were recorded"
            continue
        rows.append({"name": each.attempt_id, "messages": said, "wanted": each.wanted})
    return rows, {"sequences": len(rows)}


def _message(row: Mapping[str, Any], weight: float) -> dict[str, Any]:
    """A message in the form of chat templates: arguments as objects."""
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
    return said | ({"weight": weight} if row["role"] == "assistant" else {})


def _arguments(text: str | None) -> Any:
    try:
        return json.loads(text or "{}")
    except json.JSONDecodeError:
        return text  # as the model wrote it


def _with(
    sql: str, chosen: Sequence[_Chosen], catalog: Catalog
) -> Iterable[tuple[_Chosen, list[dict[str, Any]]]]:
    """Each attempt with its rows of a table, read some attempts at a time."""
    for first in range(0, len(chosen), AT_ONCE):
        some = chosen[first : first + AT_ONCE]
        found: dict[str, list[dict[str, Any]]] = {}
        for row in query(sql, catalog.home, {"ids": [each.attempt_id for each in some]}):
            found.setdefault(row["attempt_id"], []).append(row)
        yield from ((each, found.get(each.attempt_id, [])) for each in some)


def _aside(tasks: Mapping[str, str], data: TrainingData) -> set[str]:
    """Attempts whose tasks are kept aside: all of a task, so that none is on both sides."""
    every = sorted(set(tasks.values()))
    count = round(len(every) * data.held_out_share)
    held = set(Random(f"held out {len(every)}").sample(every, count))
    return {name for name, task_id in tasks.items() if task_id in held}


def _freeze(
    set_id: str,
    rows: Sequence[dict[str, Any]],
    aside: set[str],
    reasons: Mapping[str, str],
    manifest: dict[str, Any],
    catalog: Catalog,
) -> TrainingSet:
    folder = catalog.home.artifact_folder(set_id)
    suffix = ".jsonl" if "messages" in rows[0] else ".parquet"
    file, held_out = folder / f"rows{suffix}", folder / f"held_out{suffix}"
    if catalog.artifact(set_id) is None or not file.is_file():
        with cat.store_boundary(catalog.home):
            folder.mkdir(parents=True, exist_ok=True)
            _write([row for row in rows if row.get("name") not in aside], file)
            if aside:
                _write([row for row in rows if row["name"] in aside], held_out)
            table = {"attempt_id": [*reasons], "reason": [*reasons.values()]}
            pq.write_table(pa.table(table), folder / "dropped.parquet")
            (folder / "manifest.json").write_text(json.dumps(manifest, indent=1))
        catalog.enter_artifact(set_id, manifest, [], folder)
    return TrainingSet(set_id, file, held_out if aside else None, manifest)


def _write(rows: Sequence[dict[str, Any]], file: Path) -> None:
    if file.suffix == ".parquet":
        pq.write_table(pa.Table.from_pylist(list(rows), ROW), file)
        return
    with file.open("w", encoding="utf-8") as out:
        out.writelines(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)


def _why(reasons: Mapping[str, str]) -> str:
    counts = Counter(reasons.values()).most_common(3)
    return "; ".join(f"{n} x {why}" for why, n in counts)
