"""Export in NeMo-Skills' layout: a file of rows a seed, and ``metrics.json``.

In: a connection of `storage.connect` and cells of one set-up. Out: below a folder
``eval-results/<benchmark>/output-rs{S}.jsonl`` (``output.jsonl`` of tasks tried once) and
``eval-results/metrics.json``, with a block ``<benchmark>-<subset>`` for each subset. How to run::

    tutti export nemo-skills --sweep demo --out DIR

Its programs join the files of a benchmark line by line. So every file has the same tasks in the
same order: those with as many counted trials (view `counted`) as the cell has at most. The others
are left out, and counted: a lost attempt is no wrong answer.
"""

import json
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from datetime import UTC, datetime
from itertools import groupby
from pathlib import Path
from typing import IO, Any

import duckdb

from tutti.tasks.exchange.fields import compact
from tutti.tasks.exchange.imported import ImportedAttempt, Row
from tutti.tasks.exchange.nemo_skills.metrics import LETTERS, BenchmarkMetrics
from tutti.tasks.exchange.stored import stored_trials

RESULTS, METRICS = "eval-results", "metrics.json"
BY_LETTER = "simpleqa_judge"
JUDGES = frozenset({"judge", "hle_judge", "frames_judge", "toolorchestra_judge", BY_LETTER})
"""Scorers whose verdict is a judge's: `judgement` in the rows, `judge_correct` in the metrics (of
SimpleQA its three verdicts)."""
CHOSEN_SQL = """
with by_task as (
    select task_id, list(attempt_id) as attempts from counted where cell_id = $cell
    group by task_id
)
select task_id, attempts, len(attempts) = max(len(attempts)) over () as is_whole from by_task
"""
VERDICTS_SQL = """
select attempt_id, is_right, headline_score, answer from counted where cell_id = $cell
"""
EARLIEST = datetime.min.replace(tzinfo=UTC)
"""In place of the time of a score that has none."""
SUBSETS_SQL = """
select t.task_id, min(coalesce(if(s.attribute is null, null,
                          json_extract_string(t.slots, s.attribute)),
                      t.slots ->> 'subset_for_metrics')) as subset
from tasks t left join (select artifact_id, detail ->> '$.subsets' as attribute from artifacts) s
         on s.artifact_id = t.task_set_id
where t.task_set_id = (select task_set_id from cells where cell_id = $cell) group by t.task_id
"""
NO_ROLE_SQL = """
select count(*) from messages where role is null and attempt_id in (select unnest($attempts))
"""
MEASURE_SQL = "select measure from headlines where cell_id = $cell"


@dataclass
class WrittenRun:
    """What was written of one set-up."""

    files: list[Path] = field(default_factory=list)
    rows: int = 0
    left_out: dict[str, int] = field(default_factory=dict)
    """By benchmark, tasks with fewer counted trials than others; only where there are some."""
    without_role: dict[str, int] = field(default_factory=dict)
    """By benchmark, messages that a client sent without a role, which are left out; likewise."""


@dataclass(frozen=True)
class _CellRows:
    """What of a cell is written, and what its rows say besides the attempt."""

    benchmark: str
    verdicts: dict[str, tuple[bool, float, str | None]]
    """By attempt whether it is right, its headline score, and the answer that was read."""
    subsets: dict[str, str]
    is_mean: bool
    seeds: int

    def names(self) -> list[str]:
        if self.seeds == 1:
            return ["output.jsonl"]
        return [f"output-rs{seed}.jsonl" for seed in range(self.seeds)]


def write_run(
    connection: duckdb.DuckDBPyConnection, cells: Sequence[tuple[str, str]], folder: Path
) -> WrittenRun:
    """Write the cells, (id, benchmark) each, of one set-up below `folder`, which is made.

    A benchmark without a counted attempt has no files. Each file is renamed into place whole.
    """
    written, metrics = WrittenRun(), dict[str, Any]()
    for cell_id, benchmark in cells:
        chosen, left_out = _chosen(connection, cell_id, benchmark)
        if left_out:
            written.left_out[benchmark] = left_out
        if not chosen.verdicts:
            continue
        place = folder / RESULTS / benchmark.replace("/", "-")
        place.mkdir(parents=True, exist_ok=True)
        attempts = {"attempts": list(chosen.verdicts)}
        ((without_role,),) = connection.execute(NO_ROLE_SQL, attempts).fetchall()
        if without_role:
            written.without_role[benchmark] = without_role
        for name, found in _write_rows(connection, cell_id, chosen, place).items():
            metrics[name] = found.blocks()
        written.files += [place / name for name in chosen.names()]
        written.rows += len(chosen.verdicts)
    if metrics:
        path = folder / RESULTS / METRICS
        _replace(path, json.dumps(metrics, indent=2) + "\n")
        written.files.append(path)
    return written


def _chosen(
    connection: duckdb.DuckDBPyConnection, cell_id: str, benchmark: str
) -> tuple[_CellRows, int]:
    """What of the cell is written, and how many tasks are left out."""
    found = connection.execute(CHOSEN_SQL, {"cell": cell_id}).fetchall()
    whole = [attempts for _, attempts, is_whole in found if is_whole]
    named = connection.execute(SUBSETS_SQL, {"cell": cell_id}).fetchall()
    measure = connection.execute(MEASURE_SQL, {"cell": cell_id}).fetchone()
    attempts = {attempt for attempts in whole for attempt in attempts}
    read = connection.execute(VERDICTS_SQL, {"cell": cell_id}).fetchall()
    rows = _CellRows(
        benchmark,
        {name: (right, score, answer) for name, right, score, answer in read if name in attempts},
        {task_id: subset for task_id, subset in named if subset},
        measure is not None and measure[0] == "mean score",
        max(map(len, whole), default=0),
    )
    return rows, len(found) - len(whole)


def _write_rows(
    connection: duckdb.DuckDBPyConnection, cell_id: str, chosen: _CellRows, folder: Path
) -> dict[str, BenchmarkMetrics]:
    """Write the seeds' files; returns the metrics of the benchmark and of its subsets."""
    metrics = {chosen.benchmark: BenchmarkMetrics()}
    paths = [folder / name for name in chosen.names()]
    unfinished = [path.with_suffix(".tmp") for path in paths]
    with ExitStack() as stack:
        streams: list[IO[str]] = [stack.enter_context(path.open("w")) for path in unfinished]
        for rows in _tasks(connection, cell_id, chosen):
            subset = rows[0].get("subset_for_metrics")
            metrics[chosen.benchmark].add(rows)
            if subset is not None:
                name = f"{chosen.benchmark}-{subset}"
                metrics.setdefault(name, BenchmarkMetrics()).add(rows)
            for stream, row in zip(streams, rows, strict=True):
                kept = {key: value for key, value in row.items() if key != "judge_correct"}
                stream.write(json.dumps(kept, ensure_ascii=False) + "\n")
    for path, target in zip(unfinished, paths, strict=True):
        path.replace(target)
    return metrics


def _tasks(
    connection: duckdb.DuckDBPyConnection, cell_id: str, chosen: _CellRows
) -> Iterator[list[Row]]:
    """The rows of each task, one a seed."""
    trials = stored_trials(connection.cursor(), cells=[cell_id])
    kept = (trial for trial in trials if trial.origin in chosen.verdicts)
    for task_id, some in groupby(kept, key=lambda trial: trial.task_id):
        subset = chosen.subsets.get(task_id)
        yield [_row(trial, chosen) | compact(subset_for_metrics=subset) for trial in some]


def _row(trial: ImportedAttempt, chosen: _CellRows) -> Row:
    outcome = trial.outcome
    is_right, mean, answer = chosen.verdicts[trial.origin]
    value: bool | float = mean if chosen.is_mean else is_right
    trial.messages = [message for message in trial.messages if "role" in message]
    judged = [row for row in trial.scores if row.get("correct") is not None]
    score = max(judged, key=lambda row: row.get("scored_at") or EARLIEST, default={})
    row: Row = {"id": trial.task_id, "problem": _said(trial, "user", first=True)}
    row |= {"generation": _said(trial, "assistant", first=False)}
    row |= {"predicted_answer": answer}
    row |= compact(expected_answer=_expected(trial.target))
    if score.get("scorer") in JUDGES:
        row["judgement"] = _judgement(score, bool(value))
        row["judge_correct"] = value
    else:
        row["symbolic_correct"] = value
    reasons = [call.get("finish_reason") for call in trial.calls if _is_own(call)]
    if sum(message["role"] == "assistant" for message in trial.messages) > 1:
        row["conversation"] = [_message(message) for message in trial.messages]
        row["num_tool_calls"] = outcome.get("tool_calls") or 0
        row |= compact(finish_reason=reasons if all(reasons) and reasons else None)
    else:
        row |= compact(finish_reason=reasons[-1] if reasons else None)
        row |= compact(reasoning_content=_reasoning(trial))
    return row | _figures(outcome)


def _judgement(score: Row, is_correct: bool) -> str:
    if score.get("scorer") != BY_LETTER:
        return f"Judgement: {'Yes' if is_correct else 'No'}"
    verdict = json.loads(score.get("detail") or "{}").get("verdict")
    return LETTERS.get(verdict, LETTERS["correct" if is_correct else "incorrect"])


def _figures(outcome: Row) -> Row:
    started, ended = outcome.get("started_at"), outcome.get("ended_at")
    times: Row = {}
    if started is not None and ended is not None:
        times = {
            "generation_start_time": started.timestamp(),
            "generation_end_time": ended.timestamp(),
            "generation_time": (ended - started).total_seconds(),
        }
    return times | compact(
        num_input_tokens=outcome.get("prompt_tokens"),
        num_generated_tokens=outcome.get("completion_tokens"),
        error="context_window_exceeded" if outcome.get("stop_reason") == "context" else None,
    )


def _is_own(call: Row) -> bool:
    return call.get("role") == "orchestrator" and call.get("status") == "ok"


def _said(trial: ImportedAttempt, role: str, first: bool) -> str:
    texts = [m.get("content") or "" for m in trial.messages if m["role"] == role]
    return texts[0 if first else -1] if texts else ""


def _reasoning(trial: ImportedAttempt) -> str | None:
    found = [m.get("reasoning") for m in trial.messages if m["role"] == "assistant"]
    return found[-1] if found else None


def _expected(target: str | None) -> str | None:
    """The right answer: of a scorer's target its ``answer``, if that is one text."""
    if target is None or not target.startswith("{"):
        return target
    try:
        answer = json.loads(target).get("answer")
    except ValueError:
        return target
    if isinstance(answer, list) and len(answer) == 1:
        (answer,) = answer
    return answer if isinstance(answer, str) else None if answer is None else json.dumps(answer)


def _message(row: Row) -> Row:
    """In OpenAI's form."""
    calls = [
        {
            "id": call["id"],
            "type": "function",
            "function": {"name": call["name"], "arguments": call["arguments"]},
        }
        for call in row.get("tool_calls") or []
    ]
    found: Row = {"role": row["role"], "content": row.get("content")}
    found |= compact(name=row.get("name"), tool_call_id=row.get("tool_call_id"))
    found |= compact(reasoning_content=row.get("reasoning"))
    return found | ({"tool_calls": calls} if calls else {})


def _replace(path: Path, text: str) -> None:
    unfinished = path.with_suffix(".tmp")
    unfinished.write_text(text)
    unfinished.replace(path)
