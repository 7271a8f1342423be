"""Export to ATIF: one ``*.trajectory.json`` per attempt, version 1.7.

In: attempts. Out: files that Harbor's validator accepts. Values without a field in ATIF (scores,
times of calls, the cell) are written under `extra.tutti`, from which `atif.read` restores them.
"""

import json
import re
from collections.abc import Iterator
from datetime import datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any

from tutti.storage import content_hash
from tutti.tasks.exchange.fields import compact, parsed
from tutti.tasks.exchange.imported import ImportedAttempt, Row
from tutti.tasks.exchange.rows import json_text

SCHEMA_VERSION = "ATIF-v1.7"
METRICS = ("prompt_tokens", "cached_tokens", "completion_tokens", "cost_usd", "logprobs")
TOTALS = {name: f"total_{name}" for name in METRICS[:-1]}


def write(trials: Iterator[ImportedAttempt], folder: Path) -> list[Path]:
    """Write one trajectory per attempt into `folder`."""
    agent = {"name": "tutti", "version": version("tutti")}
    paths = []
    for trial in trials:
        words = f"{trial.cell.benchmark}-{trial.task_id}-t{trial.trial}-a{trial.attempt}"
        slug = re.sub(r"[^A-Za-z0-9.-]+", "-", words)[:120]
        key = trial.origin or [trial.cell.run, trial.task_id, trial.trial, trial.attempt]
        path = folder / f"{slug}_{content_hash(key)}.trajectory.json"
        path.write_text(json.dumps(trajectory(trial, agent), default=_text, indent=1))
        paths.append(path)
    return paths


def trajectory(trial: ImportedAttempt, agent: Row) -> Row:
    """The trial as an ATIF document."""
    cell, outcome = trial.cell, trial.outcome
    runs: dict[Any, list[Row]] = {}
    for run in trial.tool_runs:
        runs.setdefault(run.get("step"), []).append(run)
    linked = {message.get("call_id") for message in trial.messages}
    steps = [*_steps(trial, runs)] or [
        {"source": "system", "message": "", "extra": _ours(no_message=True)}
    ]
    point = {n: getattr(cell, n) for n in ("benchmark", "model", "policy", "concurrency", "repeat")}
    place = {"task_id": trial.task_id, "trial": trial.trial, "attempt": trial.attempt}
    totals = {TOTALS[name]: outcome[name] for name in TOTALS if outcome.get(name) is not None}
    kept = {name: value for name, value in outcome.items() if name not in TOTALS}
    return {
        "schema_version": SCHEMA_VERSION,
        "session_id": trial.origin or f"{trial.task_id}/{trial.trial}/{trial.attempt}",
        "agent": {**agent, "model_name": cell.model},
        "steps": [{"step_id": number, **step} for number, step in enumerate(steps, 1)],
        "final_metrics": {**totals, "total_steps": len(steps)},
        "extra": _ours(
            **point,
            **place,
            cell_id=cell.detail.get("cell_id"),
            attempt_id=trial.origin or None,
            outcome=kept,
            scores=trial.scores or None,
            # Without a message: a judge's calls, tools whose result was not read.
            calls=[c for c in trial.calls if c.get("call_id") not in linked] or None,
            tool_runs=[run for some in runs.values() for run in some] or None,
        ),
    }


def _ours(**values: Any) -> Row:
    return {"tutti": compact(**values)}


def _text(value: Any) -> str:
    return value.isoformat() if isinstance(value, datetime) else str(value)


def _steps(trial: ImportedAttempt, runs: dict[Any, list[Row]]) -> Iterator[Row]:
    """Steps of the messages; removes from `runs` those that have a message."""
    calls = {call["call_id"]: call for call in trial.calls if "call_id" in call}
    step: Row | None = None
    number = 0
    for message in trial.messages:
        role = message.get("role")
        if role == "tool":
            if step is None:  # a result without a request still needs a step
                step = {"source": "system", "message": "", "extra": _ours(no_message=True)}
            results = step.setdefault("observation", {"results": []})["results"]
            results.append(_result(message, step, runs.get(number, [])))
            continue
        if step is not None:
            yield step
        if role == "assistant":
            call = calls.get(message.get("call_id", ""))
            number = call.get("step", number + 1) if call else number + 1
            step = _agent_step(message, call)
        else:
            known = role in ("user", "system")
            step = {"source": role if known else "user", "message": message.get("content") or ""}
            step |= {} if known else {"extra": _ours(role=role)}
    if step is not None:
        yield step


def _agent_step(message: Row, call: Row | None) -> Row:
    asked = message.get("tool_calls") or []
    tool_calls, texts = [], []
    for place, row in enumerate(asked):
        text = row.get("arguments") or ""
        found = parsed(text)
        arguments = found if isinstance(found, dict) else {"text": text}
        texts.append(text if json_text(arguments) != text else None)
        names = {"tool_call_id": row.get("id") or f"call-{place}"}
        names["function_name"] = row.get("name") or ""
        tool_calls.append({**names, "arguments": arguments})
    ours: Row = {"no_call": True if call is None else None}
    if any(text is not None for text in texts):
        ours["arguments"] = [row.get("arguments") or "" for row in asked]
    step: Row = {"source": "agent", "message": message.get("content") or ""}
    step |= compact(reasoning_content=message.get("reasoning"), tool_calls=tool_calls or None)
    if call is not None:
        step |= compact(timestamp=call.get("ended_at") or call.get("sent_at"))
        step |= compact(model_name=call.get("model"))
        metrics = {name: call[name] for name in METRICS if call.get(name) is not None}
        metrics |= compact(completion_token_ids=call.get("token_ids"))
        step |= {"metrics": metrics} if metrics else {}
        step["llm_call_count"] = 1
        ours["call"] = {
            name: value
            for name, value in call.items()
            if name not in METRICS and name not in ("token_ids", "prompt_spans")
        }
    return step | {"extra": _ours(**ours)}


def _result(message: Row, step: Row, runs: list[Row]) -> Row:
    id, name = message.get("tool_call_id"), message.get("name")
    known = {call["tool_call_id"] for call in step.get("tool_calls", ())}
    run = next((run for run in runs if run.get("name") == name), None)
    if run is not None:
        runs.remove(run)
    ours: Row = {"name": name, "no_run": True if run is None else None}
    ours["tool_call_id"] = None if id in known else id
    if run is not None:
        same = run.get("result") == message.get("content")
        ours["run"] = {n: v for n, v in run.items() if n != "result" or not same}
    source = {"source_call_id": id} if id in known else {}
    return {**source, "content": message.get("content") or "", "extra": _ours(**ours)}
