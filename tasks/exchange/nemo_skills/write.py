"""Export in NeMo-Skills' layout: one file of rows per seed, and ``metrics.json``.

In: a connection of `storage.connect` and cells of one set-up. Out: in a folder
``eval-results/<benchmark>/output-rs{S}.jsonl`` (``output.jsonl`` for tasks tried once) and
``eval-results/metrics.json``. Its programs join the files line by line, so every file has the same
tasks: those with as many counted trials as the cell's maximum; the others are counted.
"""

import json
import math
from collections import Counter, defaultdict
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from datetime import UTC, datetime
from itertools import groupby
from pathlib import Path
from statistics import fmean, stdev
from typing import IO, Any

import duckdb

from tutti.storage import replacing
from tutti.tasks.exchange.base.fields import compact
from tutti.tasks.exchange.base.imported import ImportedAttempt, Row
from tutti.tasks.exchange.base.stored import stored_trials

Block = dict[str, Any]
SCORES = ("symbolic_correct", "judge_correct")
TIMES = {"generation_start_time", "generation_end_time"}
LETTERS = {"correct": "A", "incorrect": "B", "not_attempted": "C"}
"""SimpleQA's verdicts, as its judge writes them in `judgement`."""


class BenchmarkMetrics:
    """The figures of one benchmark's rows by NeMo-Skills' own definitions, for ``metrics.json``.

    In: the rows of one task, one per seed, task after task. Out: the blocks ``pass@k``,
    ``pass@1[avg-of-k]`` and ``majority@k``. Scores are percentages there; those in ``…_statistics``
    are shares. They differ from tutti's (`tutti.tasks.scoring.metrics`):

    - pass@k is unbiased over all n seeds if a task's scores are 0 and 1; else the highest of the
     first k.
    - avg-of-k and majority@k are of the first k seeds, not of all subsets. A vote is for a pair of
     answer and score. Rows without an answer have no vote; a tie gives the mean of its scores.
    - SimpleQA's verdicts A, B and C are three scores; a vote is for a verdict. F1 and the accuracy
     of attempted answers come from each block's shares.
    - std_dev_across_runs is between the seeds' means over the same tasks, so it does not show how
     the score varies between tasks; there is no interval.
    """

    def __init__(self) -> None:
        self._entries, self._tokens, self._seeds = 0, 0.0, 0
        self._sums: dict[str, dict[str, float]] = defaultdict(lambda: defaultdict(float))
        self._scores: defaultdict[str, list[list[float]]] = defaultdict(list)
        self._starts: list[float] = []
        self._ends: list[float] = []

    def add(self, rows: Sequence[Row]) -> None:
        """Add one task's rows, in the order of the seeds. ValueError for another number of them."""
        if self._seeds not in (0, len(rows)):
            raise ValueError(f"{len(rows)} rows of a task, {self._seeds} of those before")
        self._seeds = len(rows)
        self._entries += 1
        self._tokens += sum(row.get("num_generated_tokens", 0) for row in rows) / len(rows)
        timed = [row for row in rows if row.keys() >= TIMES]
        self._starts += [row["generation_start_time"] for row in timed]
        self._ends += [row["generation_end_time"] for row in timed]
        self._scores["reasoning_tokens"].append([_tokens(row)[0] for row in rows])
        self._scores["answer_tokens"].append([_tokens(row)[1] for row in rows])
        letters = [row.get("judgement") for row in rows]
        if all(letter in LETTERS.values() for letter in letters):
            for name, wanted in LETTERS.items():
                self._add_scores(name, [float(letter == wanted) for letter in letters], letters)
            return
        answers = [row.get("predicted_answer") for row in rows]
        for name in SCORES:
            if all(name in row for row in rows):
                self._add_scores(name, [float(row[name]) for row in rows], answers)
        for k in range(1, len(rows) + 1):
            silent = [answer is None for answer in answers[:k]]
            self._sums[f"pass@{k}"]["no_answer"] += all(silent)
            if k > 1:
                self._sums[_averaged(k)]["no_answer"] += sum(silent) / k
                self._sums[f"majority@{k}"]["no_answer"] += all(silent)

    def blocks(self) -> dict[str, Block]:
        """The blocks by name; empty without rows."""
        common: Block = {"num_entries": self._entries}
        if self._tokens > 0:
            common["avg_tokens"] = int(self._tokens / self._entries)
        if self._starts:
            common["gen_seconds"] = int(max(self._ends) - min(self._starts))
        found: dict[str, Block] = {}
        for name, sums in self._sums.items():
            found[name] = common | {k: 100.0 * value / self._entries for k, value in sums.items()}
            if LETTERS.keys() <= sums.keys():  # SimpleQA's further figures, in percent
                correct = found[name]["correct"]
                given = correct + found[name]["incorrect"]
                accuracy = 100.0 * correct / given if given else 0.0
                f1 = 2 * accuracy * correct / (accuracy + correct) if accuracy + correct else 0.0
                found[name] |= {"f1": f1, "accuracy_given_attempted": accuracy}
        for name, scores in self._scores.items():
            for k in range(2, self._seeds + 1):
                found[_averaged(k)][f"{name}_statistics"] = _statistics([s[:k] for s in scores])
        return found

    def _add_scores(
        self, name: str, scores: Sequence[float], answers: Sequence[str | None]
    ) -> None:
        self._scores[name].append(list(scores))
        for k in range(1, len(scores) + 1):
            self._sums[f"pass@{k}"][name] += _pass_at(scores, k)
            if k > 1:
                self._sums[_averaged(k)][name] += fmean(scores[:k])
                self._sums[f"majority@{k}"][name] += _majority(scores[:k], answers[:k])


def _averaged(k: int) -> str:
    return f"pass@1[avg-of-{k}]"


def _tokens(row: Row) -> tuple[float, float]:
    """Tokens of reasoning and of the answer; all are the answer's if a row has only their sum."""
    reasoning, answer = row.get("num_reasoning_tokens", 0), row.get("num_answer_tokens", 0)
    if not reasoning and not answer:
        answer = row.get("num_generated_tokens", 0)
    return float(reasoning), float(answer)


def _pass_at(scores: Sequence[float], k: int) -> float:
    if any(score not in (0, 1) for score in scores):
        return max(scores[:k])
    n, wrong = len(scores), sum(score == 0 for score in scores)
    return 1 - math.comb(wrong, k) / math.comb(n, k)


def _majority(scores: Sequence[float], answers: Sequence[str | None]) -> float:
    votes = Counter(
        (answer, score) for answer, score in zip(answers, scores, strict=True) if answer is not None
    )
    most = max(votes.values(), default=0)
    return fmean(score for (_, score), n in votes.items() if n == most) if votes else 0.0


def _statistics(scores: Sequence[Sequence[float]]) -> Block:
    """The statistics of scores, as shares and not percentages."""
    runs = [fmean(run) for run in zip(*scores, strict=True)]
    across = stdev(runs)
    return {
        "avg": fmean(fmean(each) for each in scores),
        "std_dev_across_runs": across,
        "avg_sample_std_dev": fmean(stdev(each) for each in scores),
        "std_err_across_runs": across / math.sqrt(len(runs)),
    }


RESULTS, METRICS = "eval-results", "metrics.json"
BY_LETTER = "simpleqa_judge"
JUDGES = frozenset({"judge", "hle_judge", "frames_judge", "toolorchestra_judge", BY_LETTER})
"""Scorers whose verdict is a judge's: `judgement` in the rows, `judge_correct` in metrics."""
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
    files: list[Path] = field(default_factory=list)
    rows: int = 0
    left_out: dict[str, int] = field(default_factory=dict)
    """By benchmark, tasks with fewer counted trials than others; only where there are some."""
    without_role: dict[str, int] = field(default_factory=dict)
    """By benchmark, messages that a client sent without a role, which are left out; likewise."""


@dataclass(frozen=True)
class _CellRows:
    benchmark: str
    verdicts: dict[str, tuple[bool, float, str | None]]
    """By attempt whether it is right, its headline score, and the answer that was read."""
    subsets: dict[str, str]
    is_mean: bool
    names: list[str]
    """The files, one per seed."""


def write_run(
    connection: duckdb.DuckDBPyConnection, cells: Sequence[tuple[str, str]], folder: Path
) -> WrittenRun:
    """Write the cells, (id, benchmark) each, of one set-up below `folder`, which is made. A
    benchmark without a counted attempt has no files. Each file is renamed into place whole."""
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
        written.files += [place / name for name in chosen.names]
        written.rows += len(chosen.verdicts)
    if metrics:
        path = folder / RESULTS / METRICS
        with replacing(path) as unfinished:
            unfinished.write_text(json.dumps(metrics, indent=2) + "\n")
        written.files.append(path)
    return written


def _chosen(
    connection: duckdb.DuckDBPyConnection, cell_id: str, benchmark: str
) -> tuple[_CellRows, int]:
    """Return the rows of the cell to write, and the number of tasks left out."""
    found = connection.execute(CHOSEN_SQL, {"cell": cell_id}).fetchall()
    whole = [attempts for _, attempts, is_whole in found if is_whole]
    named = connection.execute(SUBSETS_SQL, {"cell": cell_id}).fetchall()
    measure = connection.execute(MEASURE_SQL, {"cell": cell_id}).fetchone()
    attempts = {attempt for attempts in whole for attempt in attempts}
    read = connection.execute(VERDICTS_SQL, {"cell": cell_id}).fetchall()
    seeds = max(map(len, whole), default=0)
    names = ["output.jsonl"] if seeds == 1 else [f"output-rs{seed}.jsonl" for seed in range(seeds)]
    rows = _CellRows(
        benchmark,
        {name: (right, score, answer) for name, right, score, answer in read if name in attempts},
        {task_id: subset for task_id, subset in named if subset},
        measure is not None and measure[0] == "mean score",
        names,
    )
    return rows, len(found) - len(whole)


def _write_rows(
    connection: duckdb.DuckDBPyConnection, cell_id: str, chosen: _CellRows, folder: Path
) -> dict[str, BenchmarkMetrics]:
    metrics = {chosen.benchmark: BenchmarkMetrics()}
    paths = [folder / name for name in chosen.names]
    with ExitStack() as stack:
        unfinished = [stack.enter_context(replacing(path)) for path in paths]
        streams: list[IO[str]] = [stack.enter_context(path.open("w")) for path in unfinished]
        trials = stored_trials(connection.cursor(), cells=[cell_id])
        kept = (trial for trial in trials if trial.origin in chosen.verdicts)
        for task_id, some in groupby(kept, key=lambda trial: trial.task_id):
            subset = chosen.subsets.get(task_id)
            rows = [_row(trial, chosen) | compact(subset_for_metrics=subset) for trial in some]
            metrics[chosen.benchmark].add(rows)
            if subset is not None:
                name = f"{chosen.benchmark}-{subset}"
                metrics.setdefault(name, BenchmarkMetrics()).add(rows)
            for stream, row in zip(streams, rows, strict=True):
                row.pop("judge_correct", None)
                stream.write(json.dumps(row, ensure_ascii=False) + "\n")
    return metrics


def _row(trial: ImportedAttempt, chosen: _CellRows) -> Row:
    outcome = trial.outcome
    is_right, mean, answer = chosen.verdicts[trial.origin]
    value: bool | float = mean if chosen.is_mean else is_right
    messages = [message for message in trial.messages if "role" in message]
    texts = {
        role: [m.get("content") or "" for m in messages if m["role"] == role]
        for role in ("user", "assistant")
    }
    row: Row = {
        "id": trial.task_id,
        "problem": next(iter(texts["user"]), ""),
        "generation": next(reversed(texts["assistant"]), ""),
        "predicted_answer": answer,
        **compact(expected_answer=_expected(trial.target)),
    }
    judged = [score for score in trial.scores if score.get("correct") is not None]
    score = max(judged, key=lambda each: each.get("scored_at") or EARLIEST, default={})
    if score.get("scorer") in JUDGES:
        judgement = f"Judgement: {'Yes' if value else 'No'}"
        if score["scorer"] == BY_LETTER:
            verdict = json.loads(score.get("detail") or "{}").get("verdict")
            judgement = LETTERS.get(verdict, LETTERS["correct" if value else "incorrect"])
        row |= {"judgement": judgement, "judge_correct": value}
    else:
        row["symbolic_correct"] = value
    reasons = [
        call.get("finish_reason")
        for call in trial.calls
        if (call.get("role"), call.get("status")) == ("orchestrator", "ok")
    ]
    if len(texts["assistant"]) > 1:
        row["conversation"] = [_message(message) for message in messages]
        row["num_tool_calls"] = outcome.get("tool_calls") or 0
        row |= compact(finish_reason=reasons if all(reasons) and reasons else None)
    else:
        reasoning = [m.get("reasoning") for m in messages if m["role"] == "assistant"]
        row |= compact(finish_reason=next(reversed(reasons), None))
        row |= compact(reasoning_content=next(reversed(reasoning), None))
    started, ended = outcome.get("started_at"), outcome.get("ended_at")
    if started is not None and ended is not None:
        row["generation_start_time"] = started.timestamp()
        row["generation_end_time"] = ended.timestamp()
        row["generation_time"] = (ended - started).total_seconds()
    return row | compact(
        num_input_tokens=outcome.get("prompt_tokens"),
        num_generated_tokens=outcome.get("completion_tokens"),
        error="context_window_exceeded" if outcome.get("stop_reason") == "context" else None,
    )


def _expected(target: str | None) -> str | None:
    """Return the right answer: a scorer's target's ``answer``, if that is one text."""
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
