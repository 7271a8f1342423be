"""ATIF trajectories (Agent Trajectory Interchange Format v1) and Harbor's job folders.

Import in: a trajectory's JSON file, a folder of ``*trajectory*.json``, or a Harbor trial or job
(``<trial>/result.json``, ``<trial>/agent/trajectory.json``). Out: an `ImportedAttempt` each. A
Harbor trial has a random name: the number `trial` is its hash, the same when the job grows.
Subagents' trajectories are reported and not imported. Export: one ``*.trajectory.json`` per
attempt, version 1.7; values without a field in ATIF are under `extra.tutti`, and read there.
Source: github.com/laude-institute/harbor, docs/rfcs/0001-trajectory-format.md and its models.
"""

import json
import re
from collections.abc import Callable, Iterator
from datetime import datetime
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import Any

from tutti.storage import COUNTED, content_hash
from tutti.tasks.exchange.base.chat import content, last_reply
from tutti.tasks.exchange.base.fields import (
    LOGPROBS,
    POSITIVE,
    TOKENS,
    Fields,
    RecordRefused,
    compact,
    detail_text,
    document,
    parsed,
    seconds,
    take,
)
from tutti.tasks.exchange.base.imported import (
    Cell,
    ImportedAttempt,
    ImportedItem,
    ImportIssue,
    Row,
    json_text,
)

LIMITS = (
    *("AgentTimeoutError", "ContextWindowExceededError", "OutputTokenExceededError"),
    *("ContextLengthExceededError", "OutputLengthExceededError"),
)
REFUSALS = ("AgentSafetyRefusalError", "ContentPolicyViolationError")
VERIFIER_FAULTS = (
    *("VerifierTimeoutError", "RewardFileNotFoundError", "RewardFileEmptyError"),
    "VerifierOutputParseError",
)
STATUS_OF = dict.fromkeys(LIMITS, "limit") | dict.fromkeys(REFUSALS, "model_error")
STATUS_OF |= dict.fromkeys(VERIFIER_FAULTS, "scorer_error") | {"CancelledError": "cancelled"}
"""Harbor's table of causes (models/trial/error_policy.py); others are infrastructure errors."""
SCHEMA_VERSION = "ATIF-v1.7"
METRICS = ("prompt_tokens", "cached_tokens", "completion_tokens", "cost_usd", "logprobs")
TOTALS = {name: f"total_{name}" for name in METRICS[:-1]}
SPENT = {
    "prompt_tokens": "n_input_tokens",
    "cached_tokens": "n_cache_tokens",
    "completion_tokens": "n_output_tokens",
    "cost_usd": "cost_usd",
}


def read(path: Path, run: str) -> Iterator[ImportedItem]:
    """The trials under `path`; `run` names the run of trajectories without a job."""
    if path.is_file() and path.name != "result.json":
        yield from _taken(document(path), partial(_single, run=run, name=path.stem))
        return
    folder = path if path.is_dir() else path.parent
    inside: set[Path] = set()
    for file in sorted(folder.rglob("result.json")):
        result = document(file)
        if isinstance(result, ImportIssue):
            yield result
        elif "task_name" in result:  # a job's own result.json has none
            inside.add(file.parent)
            yield from _taken(result, partial(_harbor_trial, folder=file.parent))
    for file in sorted(folder.rglob("*trajectory*.json")):
        if inside.isdisjoint(file.parents):
            name = file.relative_to(folder).as_posix()
            yield from _taken(document(file), partial(_single, run=run, name=name))


def _taken(
    found: Fields | ImportIssue, make: Callable[[Fields], ImportedAttempt]
) -> Iterator[ImportedItem]:
    def read(fields: Fields) -> list[ImportedItem]:
        try:
            return [make(fields)]
        except (TypeError, ValueError, KeyError, AttributeError) as error:
            # Values that tutti wrote under extra are used, but may have been edited.
            fields.refuse("extra.tutti", f"is not as tutti wrote it ({error})")

    return take([found], read)


def _single(fields: Fields, run: str, name: str) -> ImportedAttempt:
    ours, agent = fields.inner("extra.tutti"), fields.inner("agent")
    cell = Cell(
        run=ours.identity("cell_id") or run,
        benchmark=ours.identity("benchmark") or "atif",
        model=ours.identity("model") or agent.identity("model_name") or "unknown",
        policy=ours.identity("policy"),
        concurrency=ours.read("concurrency", POSITIVE),
        repeat=ours.count("repeat") or 0,
        detail={"agent": agent.data},
    )
    own = fields.identity("trajectory_id") or fields.identity("session_id")
    trial = ImportedAttempt(cell, ours.identity("task_id") or own or name, file=fields.file)
    times = _add_steps(fields, trial)
    trial.trial = ours.place("trial", 0)
    trial.attempt = ours.place("attempt", 1, POSITIVE)
    trial.origin = ours.identity("attempt_id") or ""
    trial.scores = [_with_times(row.data) for row in ours.each("scores")]
    trial.calls += [_with_times(row.data) for row in ours.each("calls")]
    trial.tool_runs += [_with_times(row.data) for row in ours.each("tool_runs")]
    default = {"status": "ok", "stop_reason": "ended", **times}
    outcome = _with_times(ours.inner("outcome").data) or default
    trial.outcome = _sums(fields.inner("final_metrics"), TOTALS) | outcome
    if not trial.origin:
        trial.outcome = compact(answer=last_reply(trial.messages)) | trial.outcome
    return trial


def _harbor_trial(result: Fields, folder: Path) -> ImportedAttempt:
    task = result.needed("task_name", result.identity("task_name"))
    name = result.identity("trial_name") or folder.name
    trajectory = _trajectory(folder, result)
    model = result.identity("agent_info.model_info.name")
    model = model or (trajectory.identity("agent.model_name") if trajectory else None)
    agent, release = result.identity("agent_info.name"), result.identity("agent_info.version")
    cell = Cell(
        run=result.identity("config.job_id") or folder.parent.name,
        benchmark=result.identity("source") or "harbor",
        model=model or "unknown",
        detail={"agent": agent, "version": release},
    )
    trial = ImportedAttempt(cell, task, int(content_hash(name), 16) % 2**31, file=result.file)
    times: Row = {}
    if trajectory is not None:
        try:
            times = _add_steps(trajectory, trial)
        except RecordRefused:
            trial.messages, trial.calls, trial.tool_runs = [], [], []
            result.problem("", "the trial is taken without its trajectory")
        trial.outcome = _sums(trajectory.inner("final_metrics"), TOTALS)
        result.problems += trajectory.problems
    spent = _sums(result.inner("agent_result"), SPENT)
    answer = compact(answer=last_reply(trial.messages))
    trial.outcome = answer | trial.outcome | spent | times | _ending(result)
    _add_rewards(result, trial)
    return trial


def _trajectory(folder: Path, result: Fields) -> Fields | None:
    """The trial's trajectory; for a trial in several steps, that of its last step."""
    files = sorted(
        [*folder.glob("agent/trajectory.json"), *folder.glob("steps/*/agent/traj*.json")]
    )
    for file in files[:-1]:
        result.problem("steps", f"{file} is left out: a trial's last step is taken")
    found = document(files[-1]) if files else None
    if found is None:
        result.problem("", f"no agent/trajectory.json in {folder}: the outcome alone is taken")
    elif isinstance(found, ImportIssue):
        result.problems.append(found)
        return None
    return found


def _sums(sums: Fields, names: dict[str, str]) -> Row:
    """Tokens and cost; `names` are the fields of the columns."""
    return compact(
        **{c: sums.amount(n) if c == "cost_usd" else sums.count(n) for c, n in names.items()}
    )


def _ending(result: Fields) -> Row:
    started = result.time("agent_execution.started_at") or result.time("started_at")
    ended = result.time("agent_execution.finished_at") or result.time("finished_at")
    row = compact(started_at=started, ended_at=ended, working_s=seconds(started, ended))
    if "exception_info" not in result:
        return row | {"status": "ok", "stop_reason": "ended"}
    kind = result.text("exception_info.exception_type") or "unknown"
    message = result.text("exception_info.exception_message")
    row |= {"status": STATUS_OF.get(kind, "infra_error"), "stop_reason": kind}
    return row | compact(error_type=kind, error_message=message)


def _add_rewards(result: Fields, trial: ImportedAttempt) -> None:
    for row in result.inner("verifier_result.rewards").score_rows():
        correct = row["value"] == 1 if 0 <= row["value"] <= 1 else None
        trial.scores.append(row | {"correct": correct})
    main = [row for row in trial.scores if row["scorer"] == "reward"] or trial.scores
    if trial.outcome["status"] not in COUNTED:
        trial.scores = []  # an infrastructure failure is not a wrong answer
    elif main:
        trial.outcome |= {"score": main[0]["value"], "correct": main[0]["correct"]}


def _add_steps(fields: Fields, trial: ImportedAttempt) -> Row:
    """Add messages, calls and tool runs of a trajectory; return its start and end."""
    release = fields.needed("schema_version", fields.identity("schema_version"))
    if not release.startswith("ATIF-v1."):
        fields.refuse("schema_version", f"{release!r} is not ATIF-v1.x")
    if not fields.array("steps"):
        fields.refuse("steps", "a trajectory needs steps")
    if fields.array("subagent_trajectories"):
        fields.problem("subagent_trajectories", "subagents' trajectories are left out")
    if fields.text("continued_trajectory_ref"):
        fields.problem("continued_trajectory_ref", "the continuation is not taken")
    model = fields.identity("agent.model_name")
    times = [_add_step(step, trial, model) for step in fields.each("steps")]
    known = [*filter(None, times)]
    return {"started_at": min(known), "ended_at": max(known)} if known else {}


def _add_step(step: Fields, trial: ImportedAttempt, model: str | None) -> datetime | None:
    source = step.needed("source", step.identity("source"))
    if source not in ("system", "user", "agent"):
        step.refuse("source", f"{source!r} is not system, user or agent")
    at, ours = step.time("timestamp"), step.inner("extra.tutti").data
    calls = []
    for call in step.each("tool_calls"):
        name = None  # tutti writes no text for a call without a tool
        if call.get("function_name") != "":
            name = call.needed("function_name", call.identity("function_name"))
        arguments = json_text(call.inner("arguments").data)
        calls.append({"id": call.identity("tool_call_id"), "name": name, "arguments": arguments})
    for call_row, text in zip(calls, ours.get("arguments") or (), strict=False):
        call_row["arguments"] = text
    role = ours.get("role") or {"agent": "assistant"}.get(source, source)
    row: Row = {"role": role, "content": content(step, "message")}
    row |= compact(reasoning=step.text("reasoning_content"), tool_calls=calls or None)
    if source == "agent" and step.flag("is_copied_context") is not True:
        row |= compact(call_id=_add_call(step, trial, at, model))
    if not ours.get("no_message"):
        trial.messages.append(row)
    for result in step.each("observation.results"):
        _add_result(result, trial, {call["id"]: call for call in calls})
    return at


def _add_call(
    step: Fields, trial: ImportedAttempt, at: datetime | None, model: str | None
) -> str | None:
    """Add the model's call of an agent's step; return its id, None for a step without a model."""
    ours = step.inner("extra.tutti").data
    inferences = step.count("llm_call_count")
    if inferences == 0 or ours.get("no_call"):
        return None
    metrics = step.inner("metrics")
    measured = compact(
        prompt_tokens=metrics.count("prompt_tokens"),
        cached_tokens=metrics.count("cached_tokens"),
        completion_tokens=metrics.count("completion_tokens"),
        cost_usd=metrics.amount("cost_usd"),
        token_ids=metrics.read("completion_token_ids", TOKENS) or None,
        logprobs=metrics.read("logprobs", LOGPROBS) or None,
    )
    place = len(trial.calls) + 1
    row: Row = {"call_id": str(place), "role": "orchestrator", "step": place, "status": "ok"}
    settings = detail_text(
        inferences=inferences if inferences != 1 else None,
        reasoning_effort=step.get("reasoning_effort"),
    )
    row |= compact(model=step.identity("model_name") or model, ended_at=at, params=settings)
    # For a call that tutti made, only the metrics are better in its step.
    trial.calls.append(measured | (_with_times(ours.get("call") or {}) or row))
    call_id: str = trial.calls[-1]["call_id"]
    return call_id


def _add_result(result: Fields, trial: ImportedAttempt, calls: dict[Any, Row]) -> None:
    ours = result.inner("extra.tutti").data
    id = result.identity("source_call_id") or ours.get("tool_call_id")
    call = calls.get(id, {})
    if "subagent_trajectory_ref" in result:
        result.problem("subagent_trajectory_ref", "a subagent's trajectory is left out")
    text, name = content(result, "content"), call.get("name") or ours.get("name")
    row: Row = {"role": "tool", "content": text}
    trial.messages.append(row | compact(tool_call_id=id, name=name))
    if not ours.get("no_run"):
        run: Row = {"step": max(len(trial.calls), 1), "result": text, "status": "ok"}
        run |= compact(name=name, arguments=call.get("arguments"))
        trial.tool_runs.append(run | _with_times(ours.get("run") or {}))


def _with_times(data: Row) -> Row:
    fields = Fields(Path(), None, data)
    return {
        name: fields.time(name) if name.endswith("_at") and isinstance(value, str) else value
        for name, value in data.items()
    }


def write(trials: Iterator[ImportedAttempt], folder: Path) -> list[Path]:
    """Write one trajectory per attempt into `folder`."""
    paths = []
    for trial in trials:
        words = f"{trial.cell.benchmark}-{trial.task_id}-t{trial.trial}-a{trial.attempt}"
        slug = re.sub(r"[^A-Za-z0-9.-]+", "-", words)[:120]
        key = trial.origin or [trial.cell.run, trial.task_id, trial.trial, trial.attempt]
        path = folder / f"{slug}_{content_hash(key)}.trajectory.json"
        path.write_text(json.dumps(trajectory(trial), default=_text, indent=1))
        paths.append(path)
    return paths


def trajectory(trial: ImportedAttempt) -> Row:
    """The trial as an ATIF document."""
    cell, outcome = trial.cell, trial.outcome
    runs: dict[Any, list[Row]] = {}
    for run in trial.tool_runs:
        runs.setdefault(run.get("step"), []).append(run)
    linked = {message.get("call_id") for message in trial.messages}
    steps = [*_written_steps(trial, runs)] or [_empty_step()]
    point = {n: getattr(cell, n) for n in ("benchmark", "model", "policy", "concurrency", "repeat")}
    totals = compact(**{total: outcome.get(name) for name, total in TOTALS.items()})
    return {
        "schema_version": SCHEMA_VERSION,
        "session_id": trial.origin or f"{trial.task_id}/{trial.trial}/{trial.attempt}",
        "agent": {"name": "tutti", "version": version("tutti"), "model_name": cell.model},
        "steps": [{"step_id": number, **step} for number, step in enumerate(steps, 1)],
        "final_metrics": {**totals, "total_steps": len(steps)},
        "extra": _ours(
            **point,
            task_id=trial.task_id,
            trial=trial.trial,
            attempt=trial.attempt,
            cell_id=cell.detail.get("cell_id"),
            attempt_id=trial.origin or None,
            outcome={name: value for name, value in outcome.items() if name not in TOTALS},
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


def _empty_step() -> Row:
    return {"source": "system", "message": "", "extra": _ours(no_message=True)}


def _written_steps(trial: ImportedAttempt, runs: dict[Any, list[Row]]) -> Iterator[Row]:
    """Steps of the messages; removes from `runs` those that have a message."""
    calls = {call["call_id"]: call for call in trial.calls if "call_id" in call}
    step: Row | None = None
    number = 0
    for message in trial.messages:
        role = message.get("role")
        if role == "tool":
            step = step or _empty_step()  # a result without a request still needs a step
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
    rows = message.get("tool_calls") or []
    texts = [row.get("arguments") or "" for row in rows]
    tool_calls = [
        {
            "tool_call_id": row.get("id") or f"call-{place}",
            "function_name": row.get("name") or "",
            "arguments": given if isinstance(given := parsed(text), dict) else {"text": text},
        }
        for place, (row, text) in enumerate(zip(rows, texts, strict=True))
    ]
    same = texts == [json_text(call["arguments"]) for call in tool_calls]
    ours: Row = {"no_call": True if call is None else None, "arguments": None if same else texts}
    step: Row = {"source": "agent", "message": message.get("content") or ""}
    step |= compact(reasoning_content=message.get("reasoning"), tool_calls=tool_calls or None)
    if call is not None:
        at = call.get("ended_at") or call.get("sent_at")
        step |= compact(timestamp=at, model_name=call.get("model"))
        metrics = compact(**{n: call.get(n) for n in METRICS})
        metrics |= compact(completion_token_ids=call.get("token_ids"))
        step |= {"metrics": metrics} if metrics else {}
        step["llm_call_count"] = 1
        left_out = (*METRICS, "token_ids", "prompt_spans")
        ours["call"] = {name: value for name, value in call.items() if name not in left_out}
    return step | {"extra": _ours(**ours)}


def _result(message: Row, step: Row, runs: list[Row]) -> Row:
    id, name = message.get("tool_call_id"), message.get("name")
    known = {call["tool_call_id"] for call in step.get("tool_calls", ())}
    run = next((run for run in runs if run.get("name") == name), None)
    ours: Row = {"name": name, "tool_call_id": None if id in known else id}
    if run is None:
        ours["no_run"] = True
    else:
        runs.remove(run)
        same = run.get("result") == message.get("content")
        ours["run"] = {n: v for n, v in run.items() if n != "result" or not same}
    source = {"source_call_id": id} if id in known else {}
    return {**source, "content": message.get("content") or "", "extra": _ours(**ours)}
