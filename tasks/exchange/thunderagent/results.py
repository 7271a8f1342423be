"""Import of task results of ThunderAgent's HLE example: `{id}.json`, or the log's lines.

In: JSON files of a run's folder and the log lines that mark a completed trial. Out: one
`ImportedAttempt` per task. Other files (summaries, ports) are skipped. Where a folder has no
results, the log's lines become attempts without messages.
"""

import json
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from tutti.tasks.exchange.imported import Cell, ImportedAttempt, ImportIssue, Row
from tutti.tasks.exchange.rows import json_text, shown

RESULT_FIELDS = {"id", "all_tool_responses", "all_message_responses", "correct", "status"}
REQUEST_FIELDS = {"vllm_model_configs", "cur_output_dir", "context_str", "problem", "answer", "eid"}
"""Fields of the request that a tool's response repeats; the rest is the tool's result."""
SCORER = "thunderagent-hle"


@dataclass(frozen=True)
class TrialEnd:
    """A log line that marks a completed trial."""

    file: Path
    line: int
    at: datetime
    said: dict[str, str]
    """Its `key=value` pairs: task_id, job_id, status, correct."""


def read_results(
    files: Sequence[Path], cell: Cell, marks: Sequence[TrialEnd]
) -> Iterator[ImportedAttempt | ImportIssue]:
    """One trial per result, ended at its mark; without results, one per mark."""
    ends = {mark.said.get("task_id"): mark.at for mark in marks}
    found = False
    for file in files:
        try:
            result = json.loads(file.read_bytes())
        except (ValueError, RecursionError) as error:
            yield ImportIssue(file, None, "", f"no JSON: {error}")
            continue
        if isinstance(result, dict) and result.keys() >= RESULT_FIELDS:
            found = True
            yield from _of_result(file, result, cell, ends.get(str(result["id"])))
    if not found:
        yield from _of_marks(cell, marks)


def _of_marks(cell: Cell, marks: Sequence[TrialEnd]) -> Iterator[ImportedAttempt]:
    seen: Counter[str] = Counter()
    for mark in marks:
        task_id = mark.said.get("task_id")
        if task_id is None:
            continue  # it counts as a trial, but of no task
        outcome = _outcome(mark.said.get("status"), mark.said.get("correct") == "True", True)
        place: dict[str, Any] = {"file": mark.file, "line": mark.line}
        ended = {"ended_at": mark.at}
        yield ImportedAttempt(cell, task_id, seen[task_id], outcome=outcome | ended, **place)
        seen[task_id] += 1


def _outcome(status: Any, correct: bool, answered: bool) -> Row:
    """The attempt's outcome. A tool failure ends the trial ("error") and is not a wrong answer."""
    if status == "error":
        return {"status": "infra_error", "stop_reason": "tool_error"}
    row: Row = {"status": "ok" if answered else "limit", "correct": correct}
    return row | {"stop_reason": "answer" if answered else "turns", "score": float(correct)}


def _of_result(
    file: Path, result: Row, cell: Cell, ended_at: datetime | None
) -> Iterator[ImportedAttempt | ImportIssue]:
    responses, problem = _turns(result, "all_tool_responses")
    said, other = _turns(result, "all_message_responses")
    for field, reason in (problem, other):
        if reason:
            yield ImportIssue(file, None, field, reason)
    trial = ImportedAttempt(cell, str(result["id"]), file=file)
    trial.messages.append({"role": "user", "content": str(result.get("problem", ""))})
    answer = None
    for turn in sorted(said.keys() | responses.keys()):
        message = said.get(turn)
        given = responses.get(turn)
        replies = [r for r in given if isinstance(r, dict)] if isinstance(given, list) else []
        _add_turn(trial, turn, message if isinstance(message, dict) else {}, replies)
        answer = next((r.get("pred") for r in replies if r.get("tool") == "answer"), answer)
    trial.outcome = _outcome(result["status"], result["correct"] is True, answer is not None)
    trial.outcome |= {"ended_at": ended_at, "steps": len(responses)}
    trial.outcome |= {"answer": None if answer is None else str(answer).strip()}
    if result.get("error_type"):
        trial.outcome["error_type"] = str(result["error_type"])
    if "score" in trial.outcome:
        score = {"scorer": SCORER, "value": trial.outcome["score"], "scored_at": ended_at}
        score |= {"correct": trial.outcome["correct"], "answer": trial.outcome["answer"]}
        trial.scores.append(score | {"detail": json_text({"expected": result.get("answer")})})
    yield trial


def _turns(result: Row, field: str) -> tuple[dict[int, Any], tuple[str, str]]:
    """The turns by number (`turn_3_response`), and the issues."""
    value = result[field]
    if not isinstance(value, dict):
        return {}, (field, f"{shown(value)} is no object")
    numbered = {name: re.fullmatch(r"turn_(\d+)_\w+", name) for name in value}
    turns = {int(match[1]): value[name] for name, match in numbered.items() if match}
    odd = [name for name, match in numbered.items() if not match]
    return turns, (field, f"{shown(odd)} are no turns" if odd else "")


def _add_turn(trial: ImportedAttempt, turn: int, message: Row, replies: list[Row]) -> None:
    """An assistant's message with its calls, and each executed tool's reply."""
    given = message.get("tool_calls")
    asked = [c for c in given if isinstance(c, dict)] if isinstance(given, list) else []
    calls = [
        {
            "id": f"turn_{turn}_{place}",
            "name": str(call.get("tool_name")),
            "arguments": json_text(call.get("tool_arguments")),
        }
        for place, call in enumerate(asked)
    ]
    content = message.get("content")
    said = {"role": "assistant", "content": None if content is None else str(content)}
    trial.messages.append(said | {"tool_calls": calls})
    for reply in replies:
        name = str(reply.get("tool"))
        # Of several calls only the first valid one is executed; a reply names only its tool.
        call = next((c for c in calls if c["name"] == name), None)
        kept = {key: value for key, value in reply.items() if key not in REQUEST_FIELDS}
        text = json_text(kept)
        failed = bool(reply.get("tool_error"))
        run = {"step": turn + 1, "name": name, "arguments": call and call["arguments"]}
        run |= {"result": text, "status": "infra_error" if failed else "ok"}
        run |= {"error_type": str(reply.get("tool_error_type") or "tool_error") if failed else None}
        trial.tool_runs.append(run)
        link = {"tool_call_id": call and call["id"], "name": name}
        trial.messages.append({"role": "tool", "content": text} | link)
