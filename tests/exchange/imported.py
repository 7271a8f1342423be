"""Helpers of the importers' tests: files of records, imported attempts, and mutations."""

import json
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from hypothesis import strategies as st

from tutti.storage.write.encode import to_arrow
from tutti.tasks.exchange.base.imported import (
    ImportedAttempt,
    ImportedItem,
    ImportedRecords,
    ImportIssue,
)

Record = dict[str, Any]


def write_lines(path: Path, records: Iterable[Any]) -> Path:
    """Write a JSON Lines file of `records`; bytes and text are written as lines unchanged."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(b"".join(line_of(record) + b"\n" for record in records))
    return path


def line_of(record: Any) -> bytes:
    """Return one line without its line end."""
    if isinstance(record, bytes):
        return record
    return record.encode() if isinstance(record, str) else json.dumps(record).encode()


def write_json(path: Path, record: Any) -> Path:
    """Write a JSON document."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(record))
    return path


def taken(imported: Iterable[ImportedItem]) -> tuple[list[ImportedAttempt], list[ImportIssue]]:
    """Return the attempts, each of which fits the store's tables, and the issues."""
    trials: list[ImportedAttempt] = []
    problems: list[ImportIssue] = []
    for item in imported:
        assert not isinstance(item, ImportedRecords)
        if isinstance(item, ImportIssue):
            problems.append(item)
        else:
            check_fits(item)
            trials.append(item)
    return trials, problems


def check_fits(trial: ImportedAttempt) -> None:
    """Check that the store's tables accept the attempt's rows and that its calls and messages
    belong together."""
    ids = {"attempt_id": "a"}
    to_arrow("attempts", [{**trial.outcome, **ids, "trial": trial.trial, "task_id": trial.task_id}])
    for name in ("messages", "calls", "tool_runs", "retrievals", "scores"):
        to_arrow(name, [{**row, **ids} for row in getattr(trial, name)])
    call_ids = [row["call_id"] for row in trial.calls]
    assert len(set(call_ids)) == len(call_ids)
    assert {row["call_id"] for row in trial.messages if row.get("call_id")} <= set(call_ids)
    assert trial.outcome["status"] in STATUSES
    if trial.outcome["status"] == "infra_error":
        assert not trial.scores and trial.outcome.get("score") is None
    json.dumps(dict(trial.cell.detail))


STATUSES = ("ok", "limit", "model_error", "infra_error", "scorer_error", "cancelled")


def keys(trials: Iterable[ImportedAttempt]) -> list[tuple[Any, ...]]:
    """Return the identifying values of attempts, by which the next import recognises them."""
    return [(t.cell, t.task_id, t.trial, t.attempt) for t in trials]


def said(problems: Iterable[ImportIssue]) -> list[tuple[int | None, str]]:
    """Return the line and field of each issue."""
    return [(problem.line, problem.field) for problem in problems]


def changed(record: Record, path: str, value: Any) -> Record:
    """Return a copy of `record` with `value` at the dotted `path`; DROP removes the field."""
    copy = json.loads(json.dumps(record))
    *parents, last = path.split(".")
    holder = copy
    for name in parents:
        holder = holder[int(name)] if isinstance(holder, list) else holder[name]
    place: Any = int(last) if isinstance(holder, list) else last
    if value is DROP:
        del holder[place]
    else:
        holder[place] = value
    whole: Record = copy
    return whole


DROP = object()

ODD_VALUES: st.SearchStrategy[Any] = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(st.characters(), max_size=6)
    | st.sampled_from(["\ud800", "NaN", "", "\0", 2**64, -1, -0.5, 1e308, "2026-13-45"]),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.text(max_size=4) | st.just("role"), inner, max_size=3)
    ),
    max_leaves=5,
)


@st.composite
def mutations(draw: st.DrawFn, record: Record) -> Record:
    """Draw a copy of `record` with one value replaced or removed."""
    paths = list(paths_of(record))
    return changed(record, draw(st.sampled_from(paths)), draw(st.just(DROP) | ODD_VALUES))


@st.composite
def mutated_lines(draw: st.DrawFn, record: Record) -> bytes:
    """Draw `record` as a line with a value replaced, or with bytes removed, inserted or changed."""
    if draw(st.booleans()):
        return line_of(draw(mutations(record)))
    line = line_of(record)
    start = draw(st.integers(0, len(line)))
    end = draw(st.integers(start, min(len(line), start + 40)))
    return line[:start] + draw(st.binary(max_size=3)) + line[end:]


def paths_of(value: Any, path: str = "") -> Iterable[str]:
    """Return the dotted path of every value in `value`."""
    members = value.items() if isinstance(value, dict) else enumerate(value)
    for name, inner in members:
        here = f"{path}.{name}" if path else str(name)
        yield here
        if isinstance(inner, dict | list):
            yield from paths_of(inner, here)


def check_others_are_kept(
    read: Callable[[Path, str], Iterable[ImportedItem]],
    path: Path,
    records: list[Record],
    line: bytes,
) -> None:
    """Check that with `line` in place of the second record, no other line's attempt is lost or
    changed."""
    write_lines(path, records)
    whole, problems = taken(read(path, "run"))
    assert not problems
    write_lines(path, [records[0], line, *records[2:]])
    found, _ = taken(read(path, "run"))
    lost = whole[1].task_id
    kept = [trial for trial in found if trial.task_id != lost]
    for trial in (trial for trial in whole if trial.task_id != lost):
        same = [other for other in kept if other.task_id == trial.task_id]
        assert [(t.trial, t.outcome, t.messages) for t in same] == [
            (trial.trial, trial.outcome, trial.messages)
        ]
