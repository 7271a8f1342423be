"""ATIF trajectories (Agent Trajectory Interchange Format v1) and Harbor's job folders.

Import in: a trajectory's JSON file, a Harbor trial or job folder (``<trial>/result.json`` and
``<trial>/agent/trajectory.json``), or a folder of ``*trajectory*.json``. Out: one
`ImportedAttempt` per trajectory.
Source: github.com/laude-institute/harbor, docs/rfcs/0001-trajectory-format.md and its models.

Harbor gives a trial a random name where the store needs a number. `trial` is a hash of that name,
so that trials keep their numbers when the job folder grows. Subagents' trajectories are reported
and not imported.

Export: one ``*.trajectory.json`` per attempt, version 1.7, which Harbor's validator accepts. Values
without a field in ATIF (scores, times of calls, the cell) are under `extra.tutti`, and read there.
"""

import json
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import datetime
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import Any

from tutti.storage import COUNTED, content_hash
from tutti.tasks.exchange.chat import content, last_said
from tutti.tasks.exchange.fields import (
    LOGPROBS,
    POSITIVE,
    TOKENS,
    Fields,
    RecordRefused,
    compact,
    detail_text,
    document,
    parsed,
    take,
)
from tutti.tasks.exchange.imported import (
    Cell,
    ImportedAttempt,
    ImportedItem,
    ImportIssue,
    Row,
    json_text,
)

Make = Callable[[Fields], ImportedAttempt]
LIMITS = (
    *("AgentTimeoutError", "ContextWindowExceededError", "OutputTokenExceededError"),
    *("ContextLengthExceededError", "OutputLengthExceededError"),
)
REFUSALS = ("AgentSafetyRefusalError", "ContentPolicyViolationError")
VERIFIER_FAULTS = (
    *("VerifierTimeoutError", "RewardFileNotFoundError", "RewardFileEmptyError"),
    "VerifierOutputParseError",
)
MEASURED = (
    *("prompt_tokens", "cached_tokens", "completion_tokens", "cost_usd"),
    *("token_ids", "logprobs"),
)
STATUS_OF = dict.fromkeys(LIMITS, "limit") | dict.fromkeys(REFUSALS, "model_error")
STATUS_OF |= dict.fromkeys(VERIFIER_FAULTS, "scorer_error") | {"CancelledError": "cancelled"}
"""Harbor's table of causes (models/trial/error_policy.py); others are infrastructure errors."""


def read(path: Path, run: str) -> Iterator[ImportedItem]:
    """The trials under `path`; `run` names the run of trajectories without a job."""
    if path.is_file() and path.name != "result.json":
        yield from _standalone(path, run, path.stem)
        return
    folder = path if path.is_dir() else path.parent
    inside: set[Path] = set()
    for result in sorted(folder.rglob("result.json")):
        found = document(result)
        if isinstance(found, ImportIssue):
            yield found
        elif "task_name" in found:  # a job's own result.json has none
            inside.add(result.parent)
            yield from _taken(found, partial(_harbor_trial, folder=result.parent))
    for file in sorted(folder.rglob("*trajectory*.json")):
        if inside.isdisjoint(file.parents):
            yield from _standalone(file, run, file.relative_to(folder).as_posix())


def _taken(found: Fields | ImportIssue, make: Make) -> Iterator[ImportedItem]:
    def read(fields: Fields) -> list[ImportedItem]:
        try:
            return [make(fields)]
        except (TypeError, ValueError, KeyError, AttributeError) as error:
            # Values that tutti wrote under extra are used, but may have been edited.
            fields.refuse("extra.tutti", f"is not as tutti wrote it ({error})")

    return take([found], read)


def _standalone(file: Path, run: str, name: str) -> Iterator[ImportedItem]:
    return _taken(document(file), partial(_bare_trial, run=run, name=name))


def _bare_trial(fields: Fields, run: str, name: str) -> ImportedAttempt:
    taken = _steps(fields)
    ours = fields.inner("extra").inner("tutti")
    agent = fields.inner("agent")
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
    trial.trial = ours.place("trial", 0)
    trial.attempt = ours.place("attempt", 1, POSITIVE)
    trial.origin = ours.identity("attempt_id") or ""
    trial.scores = [dict(row.data) for row in ours.each("scores")]
    read_here = {"status": "ok", "stop_reason": "ended", **taken.times()}
    trial.outcome = _totals(fields) | (dict(ours.inner("outcome").data) or read_here)
    taken.calls += [dict(row.data) for row in ours.each("calls")]
    taken.tool_runs += [dict(row.data) for row in ours.each("tool_runs")]
    for row in (trial.outcome, *trial.scores, *taken.calls, *taken.tool_runs):
        _read_times(row)
    return taken.fill(trial)


def _harbor_trial(result: Fields, folder: Path) -> ImportedAttempt:
    task = result.needed("task_name", result.identity("task_name"))
    name = result.identity("trial_name") or folder.name
    agent = result.inner("agent_info")
    config = result.inner("config")
    fields, taken = _trajectory(folder, result), _StepRows()
    if fields is not None:
        try:
            taken = _steps(fields)
        except RecordRefused:
            result.problem("", "the trial is taken without its trajectory")
        result.problems += fields.problems
    model = agent.inner("model_info").identity("name")
    model = model or (fields.inner("agent").identity("model_name") if fields else None)
    detail = {"agent": agent.identity("name"), "version": agent.identity("version")}
    cell = Cell(
        run=config.identity("job_id") or folder.parent.name,
        benchmark=result.identity("source") or "harbor",
        model=model or "unknown",
        detail=detail,
    )
    trial = ImportedAttempt(cell, task, int(content_hash(name), 16) % 2**31, file=result.file)
    trial.outcome = (
        (_totals(fields) if fields else {})
        | _sums(result.inner("agent_result"), SPENT_FIELDS, "cost_usd")
        | taken.times()
    )
    trial.outcome |= _ended(result)
    _reward(result, trial)
    return taken.fill(trial)


def _trajectory(folder: Path, result: Fields) -> Fields | None:
    """The trial's trajectory; for a trial in several steps, that of its last step."""
    files = sorted(
        [*folder.glob("agent/trajectory.json"), *folder.glob("steps/*/agent/traj*.json")]
    )
    if not files:
        result.problem("", f"no agent/trajectory.json in {folder}: the outcome alone is taken")
        return None
    for file in files[:-1]:
        result.problem("steps", f"{file} is left out: a trial's last step is taken")
    found = document(files[-1])
    if isinstance(found, ImportIssue):
        result.problems.append(found)
        return None
    return found


TOTAL_FIELDS = ("total_prompt_tokens", "total_cached_tokens", "total_completion_tokens")
SPENT_FIELDS = ("n_input_tokens", "n_cache_tokens", "n_output_tokens")


def _sums(sums: Fields, names: tuple[str, ...], cost: str) -> Row:
    counts = dict(zip(METRICS, map(sums.count, names), strict=False))
    return compact(**counts, cost_usd=sums.amount(cost))


def _totals(fields: Fields) -> Row:
    return _sums(fields.inner("final_metrics"), TOTAL_FIELDS, "total_cost_usd")


def _ended(result: Fields) -> Row:
    times = result.inner("agent_execution")
    row = compact(
        started_at=times.time("started_at") or result.time("started_at"),
        ended_at=times.time("finished_at") or result.time("finished_at"),
    )
    if row.keys() >= {"started_at", "ended_at"}:
        row["working_s"] = (row["ended_at"] - row["started_at"]).total_seconds()
    fault = result.inner("exception_info")
    if "exception_info" not in result:
        return row | {"status": "ok", "stop_reason": "ended"}
    kind = fault.text("exception_type") or "unknown"
    row |= {"status": STATUS_OF.get(kind, "infra_error"), "stop_reason": kind}
    return row | compact(error_type=kind, error_message=fault.text("exception_message"))


def _reward(result: Fields, trial: ImportedAttempt) -> None:
    rewards = result.inner("verifier_result").inner("rewards")
    for name in rewards.data:
        value = rewards.number(name)
        if value is not None:
            correct = value == 1 if 0 <= value <= 1 else None
            trial.scores.append({"scorer": name, "value": value, "correct": correct})
    main = [row for row in trial.scores if row["scorer"] == "reward"] or trial.scores
    if trial.outcome["status"] not in COUNTED:
        trial.scores = []  # an infrastructure failure is not a wrong answer
    elif main:
        trial.outcome |= {"score": main[0]["value"], "correct": main[0]["correct"]}


@dataclass
class _StepRows:
    messages: list[Row] = field(default_factory=list)
    calls: list[Row] = field(default_factory=list)
    tool_runs: list[Row] = field(default_factory=list)
    at: list[Any] = field(default_factory=list)

    def times(self) -> Row:
        """Its start and end times."""
        return {"started_at": min(self.at), "ended_at": max(self.at)} if self.at else {}

    def fill(self, trial: ImportedAttempt) -> ImportedAttempt:
        """Add the rows to an attempt."""
        trial.messages, trial.calls, trial.tool_runs = self.messages, self.calls, self.tool_runs
        if not trial.origin:
            trial.outcome = compact(answer=last_said(self.messages)) | trial.outcome
        return trial


def _steps(fields: Fields) -> _StepRows:
    version = fields.needed("schema_version", fields.identity("schema_version"))
    if not version.startswith("ATIF-v1."):
        fields.refuse("schema_version", f"{version!r} is not ATIF-v1.x")
    if not fields.array("steps"):
        fields.refuse("steps", "a trajectory needs steps")
    model = fields.inner("agent").identity("model_name")
    for place, _ in enumerate(fields.array("subagent_trajectories")):
        fields.problem(f"subagent_trajectories.{place}", "a subagent's trajectory is left out")
    if fields.text("continued_trajectory_ref"):
        fields.problem("continued_trajectory_ref", "the continuation is another trajectory to us")
    taken = _StepRows()
    for step in fields.each("steps"):
        _add_step(step, taken, model)
    return taken


def _add_step(step: Fields, taken: _StepRows, model: str | None) -> None:
    source = step.needed("source", step.identity("source"))
    if source not in ("system", "user", "agent"):
        step.refuse("source", f"{source!r} is not system, user or agent")
    at = step.time("timestamp")
    taken.at += [at] if at else []
    ours = step.inner("extra").inner("tutti").data
    role = ours.get("role") or {"agent": "assistant"}.get(source, source)
    row: Row = {"role": role, "content": content(step, "message")}
    calls = [_tool_call(call) for call in step.each("tool_calls")]
    texts = ours.get("arguments") or [call["arguments"] for call in calls]
    calls = [call | {"arguments": text} for call, text in zip(calls, texts, strict=False)]
    row |= compact(reasoning=step.text("reasoning_content"), tool_calls=calls or None)
    made = source == "agent" and step.flag("is_copied_context") is not True
    if made and (call := _call(step, taken, at, model)):
        row["call_id"] = call["call_id"]
    if not ours.get("no_message"):
        taken.messages.append(row)
    _observe(step, taken, calls)


def _tool_call(call: Fields) -> Row:
    name = None  # tutti writes no text for a call without a tool
    if call.data.get("function_name") != "":
        name = call.needed("function_name", call.identity("function_name"))
    arguments = call.inner("arguments").data
    return {"id": call.identity("tool_call_id"), "name": name, "arguments": json_text(arguments)}


def _call(step: Fields, taken: _StepRows, at: Any, model: str | None) -> Row | None:
    """The model's call of an agent's step; None for a step without a model."""
    ours = step.inner("extra").inner("tutti").data
    inferences = step.count("llm_call_count")
    if inferences == 0 or ours.get("no_call"):
        return None
    metrics = step.inner("metrics")
    place = len(taken.calls) + 1
    row: Row = {"call_id": str(place), "role": "orchestrator", "step": place, "status": "ok"}
    row |= compact(
        model=step.identity("model_name") or model,
        ended_at=at,
        prompt_tokens=metrics.count("prompt_tokens"),
        cached_tokens=metrics.count("cached_tokens"),
        completion_tokens=metrics.count("completion_tokens"),
        cost_usd=metrics.amount("cost_usd"),
        token_ids=metrics.read("completion_token_ids", TOKENS) or None,
        logprobs=metrics.read("logprobs", LOGPROBS) or None,
        params=detail_text(
            inferences=inferences if inferences != 1 else None,
            reasoning_effort=step.data.get("reasoning_effort"),
        ),
    )
    if own := dict(ours.get("call") or {}):
        # For a call that tutti made, only the metrics are better in its step.
        row = {name: row[name] for name in MEASURED if name in row} | _read_times(own)
    taken.calls.append(row)
    return taken.calls[-1]


def _observe(step: Fields, taken: _StepRows, calls: list[Row]) -> None:
    asked = {call["id"]: call for call in calls}
    for result in step.inner("observation").each("results"):
        ours = result.inner("extra").inner("tutti").data
        id = result.identity("source_call_id") or ours.get("tool_call_id")
        call = asked.get(id, {})
        if "subagent_trajectory_ref" in result:
            result.problem("subagent_trajectory_ref", "a subagent's trajectory is left out")
        said = content(result, "content")
        name = call.get("name") or ours.get("name")
        row: Row = {"role": "tool", "content": said} | compact(tool_call_id=id, name=name)
        taken.messages.append(row)
        run: Row = {"step": max(len(taken.calls), 1), "result": said, "status": "ok"}
        run |= compact(name=name, arguments=call.get("arguments"))
        if not ours.get("no_run"):
            taken.tool_runs.append(run | _read_times(dict(ours.get("run") or {})))


def _read_times(row: Row) -> Row:
    for name, value in row.items():
        if name.endswith("_at") and isinstance(value, str):
            row[name] = Fields(Path(), None, row).time(name)
    return row


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
    steps = [*_written_steps(trial, runs)] or [
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


def _written_steps(trial: ImportedAttempt, runs: dict[Any, list[Row]]) -> Iterator[Row]:
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
