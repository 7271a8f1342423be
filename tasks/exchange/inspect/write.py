"""Export to Inspect: one `.eval` file per cell, so that ``inspect view`` shows the trajectories.

In: attempts, grouped by cell. Out: files in inspect_ai's format (a zip with `header.json`,
`summaries.json` and a JSON file per sample, format version 2). They are written sample by sample,
so that a cell of any size fits in memory. Values without a field in Inspect are under
`metadata.tutti`. Token ids and log probabilities of calls and retrievals are not exported.

The last of the attempts at a sample is the sample; earlier ones are its retries after errors.
"""

import json
import math
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from itertools import groupby, takewhile
from pathlib import Path
from typing import Any, get_args
from zipfile import ZIP_DEFLATED, ZipFile

from inspect_ai.event import ModelEvent, ToolEvent
from inspect_ai.log import (
    EvalConfig,
    EvalDataset,
    EvalError,
    EvalLog,
    EvalMetric,
    EvalResults,
    EvalRetryError,
    EvalSample,
    EvalSampleLimit,
    EvalScore,
    EvalSpec,
    EvalStats,
    condense_sample,
)
from inspect_ai.model import (
    ChatCompletionChoice,
    ChatMessageAssistant,
    ChatMessageSystem,
    ChatMessageTool,
    ChatMessageUser,
    ContentReasoning,
    ContentText,
    GenerateConfig,
    ModelOutput,
    ModelUsage,
)
from inspect_ai.scorer import Score
from inspect_ai.tool import ToolCall, ToolCallError

from tutti.tasks.exchange.base.imported import Cell, ImportedAttempt, Row, json_text

NO_TIME = datetime(1970, 1, 1, tzinfo=UTC)  # Inspect requires a time even if it is unknown
LIMITS = {"turns": "turn", "tokens": "token", "money": "cost", "length": "token"}
ROLES = {"orchestrator": None, "judge": "grader"}
STOPS = {"length": "max_tokens", "tool_call": "tool_calls"}
STOPS |= {stop: stop for stop in ("stop", "max_tokens", "tool_calls")}
TOOL_ERRORS = ("parsing", "timeout", "permission", "file_not_found", "limit", "cancelled")
CALL_FIELDS = (
    *("call_id", "endpoint", "admitted_at", "first_token_at", "held_s", "ttft_s"),
    *("finish_reason", "status", "http_status", "retry", "cost_usd", "params", "prompt_hash"),
)
"""Columns of a call that Inspect has no field for, or none of the same meaning."""
OUTCOME_FIELDS = (
    *("status", "stop_reason", "error_type", "error_message", "answer", "score", "correct"),
    *("held_s", "working_s", "cost_usd", "steps", "calls", "tool_calls"),
)


def eval_sample(attempts: list[ImportedAttempt]) -> Any:
    """Return an `EvalSample`, condensed as inspect_ai writes it."""
    last = attempts[-1]
    outcome = last.outcome
    messages = [_message(row, place) for place, row in enumerate(last.messages)]
    replies = [message for message in messages if message.role == "assistant"]
    begun = list(takewhile(lambda message: message.role not in ("assistant", "tool"), messages))
    questions = [message for message in begun if message.role == "user"]
    usage = usage_from(outcome)
    began, ended = outcome.get("started_at"), outcome.get("ended_at")
    sample = EvalSample(
        id=last.task_id,
        epoch=last.trial + 1,
        input=questions[0].text if len(questions) == 1 else begun,
        target=last.target or "",
        messages=messages,
        output=ModelOutput.from_message(replies[-1]) if replies else ModelOutput(),
        scores=_scores(last),
        metadata={
            "tutti": {
                "attempt_ids": [trial.origin for trial in attempts],
                "trial": last.trial,
                "attempt": last.attempt,
                "outcome": {n: outcome[n] for n in OUTCOME_FIELDS if n in outcome},
            }
        },
        events=_events(last, messages),
        model_usage={} if usage is None else {last.cell.model: usage},
        started_at=_iso(began),
        completed_at=_iso(ended),
        total_time=(ended - began).total_seconds() if began and ended else None,
        working_time=outcome.get("working_s"),
        error=EvalError(message=_failure(last), traceback="", traceback_ansi="")
        if outcome.get("status") in ("infra_error", "scorer_error", "cancelled")
        else None,
        error_retries=[
            EvalRetryError(
                message=_failure(trial), traceback="", traceback_ansi="", events=_events(trial)
            )
            for trial in attempts[:-1]
        ]
        or None,
        limit=_limit(last),
        uuid=last.origin or None,
    )
    return condense_sample(sample)


def usage_from(row: Row) -> Any:
    """Tokens of a call or an attempt as `ModelUsage`; None if unknown."""
    prompt, cached = row.get("prompt_tokens"), row.get("cached_tokens")
    completion = row.get("completion_tokens") or 0
    if prompt is None:
        return None
    return ModelUsage(
        input_tokens=prompt - (cached or 0),
        input_tokens_cache_read=cached,
        output_tokens=completion,
        total_tokens=prompt + completion,
        total_cost=row.get("cost_usd"),
    )


def _iso(value: datetime | None) -> str | None:
    return None if value is None else value.isoformat()


def _failure(trial: ImportedAttempt) -> str:
    names = ("error_message", "error_type", "stop_reason", "status")
    return str(next((trial.outcome[name] for name in names if trial.outcome.get(name)), None))


def _limit(trial: ImportedAttempt) -> Any:
    if trial.outcome.get("status") != "limit":
        return None
    reason = str(trial.outcome.get("stop_reason"))
    known = get_args(EvalSampleLimit.model_fields["type"].annotation)
    kind = LIMITS.get(reason, reason)
    # The limit is not a column of ours; Inspect requires a number.
    return EvalSampleLimit(type=kind if kind in known else "custom", limit=0, reason=reason)


def _message(row: Row, place: int) -> Any:
    role, text = row.get("role"), row.get("content") or ""
    content: Any = text
    if row.get("reasoning") is not None:
        content = [ContentReasoning(reasoning=row["reasoning"]), ContentText(text=text)]
    common = {"id": f"message-{place}", "content": content}
    if role == "assistant":
        calls, texts = _tool_calls(row.get("tool_calls") or [])
        metadata = {"tutti": {"arguments": texts}} if texts else None
        return ChatMessageAssistant(**common, tool_calls=calls or None, metadata=metadata)
    if role == "tool":
        names = {"tool_call_id": row.get("tool_call_id"), "function": row.get("name")}
        return ChatMessageTool(**common, **names)
    if role == "system":
        return ChatMessageSystem(**common)
    # Roles that Inspect lacks (developer, function) are shown as the user's.
    return ChatMessageUser(**common, metadata=None if role == "user" else {"tutti": {"role": role}})


def _tool_calls(rows: list[Row]) -> tuple[list[Any], list[str]]:
    """Tool calls, and the texts of arguments that are not in JSON's canonical form."""
    calls, texts = [], [row.get("arguments") or "" for row in rows]
    for row, text in zip(rows, texts, strict=True):
        arguments = _arguments(text)
        fault = None if arguments is not None else "the arguments are no JSON object"
        given = {"text": text} if arguments is None else arguments
        name = row.get("name") or ""
        calls.append(ToolCall(row.get("id") or "", name, given, parse_error=fault))
    same = all(json_text(call.arguments) == text for call, text in zip(calls, texts, strict=True))
    return calls, [] if same else texts


def _arguments(text: str | None) -> dict[str, Any] | None:
    try:
        found = json.loads(text or "")
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) else None


def _scores(trial: ImportedAttempt) -> dict[str, Any] | None:
    scores: dict[str, Any] = {}
    for row in trial.scores:
        detail = _arguments(row.get("detail")) or {}
        name = row.get("scorer") or "score"
        if name.split("/")[0] in scores and "/" in name:
            continue  # one value of several: the scorer's own row has all of them
        extra = ("correct", "scorer_version")
        ours = {key: row[key] for key in extra if row.get(key) is not None}
        ours |= {"scored_at": _iso(row["scored_at"])} if row.get("scored_at") else {}
        value = detail["value"] if "value" in detail else row.get("value")
        if isinstance(value, list):
            value = [_scalar(member) for member in value]
        elif isinstance(value, dict):
            value = {key: _scalar(member) for key, member in value.items()}
        else:
            value = _scalar(value)
        scores[name] = Score(
            value=value,
            answer=row.get("answer"),
            explanation=detail.get("explanation"),
            reason=detail.get("reason"),
            metadata={**(detail.get("metadata") or {}), "tutti": ours},
        )
    if not scores and trial.outcome.get("score") is not None:
        answer = trial.outcome.get("answer")
        scores["score"] = Score(value=trial.outcome["score"], answer=answer)
    return scores or None


def _scalar(value: Any) -> Any:
    """A value of a type that Inspect allows inside lists and dicts."""
    if value is None:
        return math.nan
    return value if isinstance(value, str | int | float) else json_text(value)


def _events(trial: ImportedAttempt, messages: list[Any] | None = None) -> list[Any]:
    """Events of the calls and tool runs in the store, in the order of their steps."""
    if messages is None:
        messages = [_message(row, place) for place, row in enumerate(trial.messages)]
    began = trial.outcome.get("started_at") or NO_TIME
    places = {
        row["call_id"]: place
        for place, row in enumerate(trial.messages)
        if row.get("call_id") is not None
    }
    runs: dict[int | None, list[Row]] = {}
    for run in trial.tool_runs:
        runs.setdefault(run.get("step"), []).append(run)
    events: list[Any] = []
    for call in trial.calls:
        place = places.get(call.get("call_id"))
        reply = None if place is None else messages[place]
        call = {**call, "model": call.get("model") or trial.cell.model}
        events.append(_model_event(call, messages[: place or 0], reply, began))
        requests = list(getattr(reply, "tool_calls", None) or ())
        for run in runs.pop(call.get("step"), []) if reply is not None else ():
            request = next((r for r in requests if r.function == run.get("name")), None)
            requests = [each for each in requests if each is not request]
            events.append(_tool_event(run, request, began))
    return events + [_tool_event(run, None, began) for some in runs.values() for run in some]


def _model_event(call: Row, prompt: list[Any], reply: Any, began: datetime) -> Any:
    reason = call.get("finish_reason") or "stop"
    stop: Any = STOPS.get(reason, "unknown")
    choices = [ChatCompletionChoice(message=reply, stop_reason=stop)] if reply is not None else []
    output = ModelOutput(
        model=call["model"], choices=choices, usage=usage_from(call), time=call.get("latency_s")
    )
    failed = call.get("status") not in (None, "ok")
    sent = call.get("sent_at") or began
    ours = {n: call[n] for n in CALL_FIELDS if call.get(n) is not None}
    ours = {n: _iso(v) if isinstance(v, datetime) else v for n, v in ours.items()}
    return ModelEvent(
        uuid=call.get("call_id"),
        model=call["model"],
        role=ROLES.get(call.get("role", ""), call.get("role")),
        input=prompt,
        tools=[],
        tool_choice="auto",
        config=GenerateConfig(),
        output=output,
        error=f"{call['status']} {call.get('http_status') or ''}".strip() if failed else None,
        timestamp=sent,
        working_start=max((sent - began).total_seconds(), 0.0),
        completed=call.get("ended_at"),
        metadata={"tutti": ours},
    )


def _tool_event(run: Row, call: Any, began: datetime) -> Any:
    started = run.get("started_at") or began
    text = run.get("arguments")
    arguments = call.arguments if text is None and call else _arguments(text)
    failed = run.get("status") not in (None, "ok")
    kind: Any = run.get("error_type") or run.get("status")
    kind = kind if kind in TOOL_ERRORS else "unknown"
    names = ("step", "status", "error_type", "cost_usd", "arguments")
    ours = {n: run[n] for n in names if run.get(n) is not None}
    return ToolEvent(
        id=(call.id if call else None) or f"run-{run.get('step')}",
        function=run.get("name") or "",
        arguments=arguments if arguments is not None else {"text": text or ""},
        result=run.get("result") or "",
        error=ToolCallError(kind, run.get("result") or "") if failed else None,
        timestamp=started,
        working_start=max((started - began).total_seconds(), 0.0),
        completed=run.get("ended_at"),
        metadata={"tutti": ours},
    )


def write(trials: Iterator[ImportedAttempt], folder: Path) -> list[Path]:
    """Write one log per cell into `folder`."""
    cells = groupby(trials, key=lambda trial: (trial.cell, trial.cell.detail.get("cell_id")))
    return [_write_log(cell, of_cell, folder) for (cell, _), of_cell in cells]


def _write_log(cell: Cell, trials: Iterator[ImportedAttempt], folder: Path) -> Path:
    totals = _Totals(cell, str(cell.detail.get("cell_id") or cell.run))
    unnamed = folder / "log.part"
    with ZipFile(unnamed, "w", ZIP_DEFLATED) as archive:
        for _, attempts in groupby(trials, key=lambda trial: (trial.task_id, trial.trial)):
            of_sample = list(attempts)
            sample = eval_sample(of_sample)
            archive.writestr(f"samples/{sample.id}_epoch_{sample.epoch}.json", _json(sample))
            totals.add(sample, of_sample[-1])
        archive.writestr("summaries.json", f"[{','.join(totals.summaries)}]")
        archive.writestr("header.json", _json(totals.header()))
    # In Inspect's form: time, task and id with underscores between them.
    began = totals.began.strftime("%Y-%m-%dT%H-%M-%S-00-00")
    task = "-".join([cell.benchmark, cell.model, *totals.tags("c"), f"r{cell.repeat}"])
    task = re.sub(r"[^A-Za-z0-9.-]+", "-", task)[:120]
    return unnamed.rename(folder / f"{began}_{task}_{totals.cell_id.replace(':', '-')}.eval")


def _json(model: Any) -> str:
    return str(model.model_dump_json(exclude_none=True))


@dataclass
class _Totals:
    cell: Cell
    cell_id: str
    """For an imported cell without an id, its run."""
    summaries: list[str] = field(default_factory=list)
    sample_ids: dict[str, None] = field(default_factory=dict)
    epochs: int = 1
    times: list[datetime] = field(default_factory=list)
    """The earliest start and the latest end."""
    usage: Any = None
    sums: dict[str, list[float]] = field(default_factory=dict)
    """Maps each scorer to its scores."""
    failed: int = 0

    @property
    def began(self) -> datetime:
        return self.times[0] if self.times else NO_TIME

    def tags(self, load: str) -> list[str]:
        cell = self.cell
        known = [] if cell.concurrency is None else [f"{load}{cell.concurrency}"]
        return known if cell.policy is None else [cell.policy, *known]

    def add(self, sample: Any, last: ImportedAttempt) -> None:
        self.summaries.append(_json(sample.summary()))
        self.sample_ids[sample.id] = None
        self.epochs = max(self.epochs, sample.epoch)
        self.failed += sample.error is not None
        known = (last.outcome.get("started_at"), last.outcome.get("ended_at"))
        times = sorted([*self.times, *filter(None, known)])
        self.times = [times[0], times[-1]] if times else []
        spent = usage_from(last.outcome)
        if spent is not None:
            self.usage = spent if self.usage is None else self.usage + spent
        for row in last.scores:
            if row.get("value") is not None and sample.error is None:
                self.sums.setdefault(row["scorer"], []).append(row["value"])

    def header(self) -> Any:
        cell, began = self.cell, self.began.isoformat()
        point: Row = {name: getattr(cell, name) for name in ("policy", "concurrency", "repeat")}
        names = {"benchmark": cell.benchmark, "model": cell.model}
        ids = list(self.sample_ids)
        spec = EvalSpec(
            eval_id=self.cell_id,
            run_id=cell.run,
            created=began,
            task=cell.benchmark,
            task_id=self.cell_id,
            task_args=point,
            tags=[*self.tags("concurrency "), f"repeat {cell.repeat}"],
            dataset=EvalDataset(name=cell.benchmark, samples=len(ids), sample_ids=ids),
            model=cell.model,
            config=EvalConfig(epochs=self.epochs, max_samples=cell.concurrency),
            metadata={"tutti": {**point, **names, **cell.detail}},
        )
        scores = [
            EvalScore(
                name=scorer,
                scorer=scorer.split("/")[0],
                scored_samples=len(values),
                metrics={"mean": EvalMetric(name="mean", value=sum(values) / len(values))},
            )
            for scorer, values in self.sums.items()
        ]
        count = len(self.summaries)
        results = EvalResults(
            total_samples=count, completed_samples=count - self.failed, scores=scores
        )
        usage = {} if self.usage is None else {cell.model: self.usage}
        ended = (self.times[-1] if self.times else NO_TIME).isoformat()
        stats = EvalStats(started_at=began, completed_at=ended, model_usage=usage)
        return EvalLog(status="success", eval=spec, results=results, stats=stats)
