"""Builds a sample of an Inspect log from the attempts at one sample of the store.

The last attempt is the sample; earlier ones are its retries after errors. Calls become model events
and tool runs become tool events. Where the store has only messages, both are derived from them and
marked as synthetic, so that the viewer shows a transcript and an import does not read them as
calls.
"""

import json
import math
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any, get_args

from inspect_ai.event import ModelEvent, ToolEvent
from inspect_ai.log import EvalError, EvalRetryError, EvalSample, EvalSampleLimit, condense_sample
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

from tutti.tasks.exchange.imported import ImportedAttempt, Row
from tutti.tasks.exchange.rows import json_text

NO_TIME = datetime(1970, 1, 1, tzinfo=UTC)
LIMITS = {"turns": "turn", "tokens": "token", "money": "cost", "length": "token"}
STOPS = {"length": "max_tokens", "tool_call": "tool_calls"}
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
    """An `EvalSample`, condensed as inspect_ai writes it."""
    last = attempts[-1]
    messages = [_message(row, place) for place, row in enumerate(last.messages)]
    replies = [message for message in messages if message.role == "assistant"]
    usage = usage_from(last.outcome)
    ours = {
        "attempt_ids": [trial.origin for trial in attempts],
        "trial": last.trial,
        "attempt": last.attempt,
        "outcome": {n: last.outcome[n] for n in OUTCOME_FIELDS if n in last.outcome},
    }
    retries = [
        EvalRetryError(
            message=_fault(trial), traceback="", traceback_ansi="", events=_events(trial)
        )
        for trial in attempts[:-1]
    ]
    sample = EvalSample(
        id=last.task_id,
        epoch=last.trial + 1,
        input=_input(messages),
        target=last.target or "",
        messages=messages,
        output=ModelOutput.from_message(replies[-1]) if replies else ModelOutput(),
        scores=_scores(last),
        metadata={"tutti": ours},
        events=_events(last, messages),
        model_usage={} if usage is None else {last.cell.model: usage},
        started_at=_iso(last.outcome.get("started_at")),
        completed_at=_iso(last.outcome.get("ended_at")),
        total_time=_seconds(last.outcome),
        working_time=last.outcome.get("working_s"),
        error=_error(last),
        error_retries=retries or None,
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


def _input(messages: list[Any]) -> Any:
    """The sample's input: text if it was a single question."""
    begun = []
    for message in messages:
        if message.role in ("assistant", "tool"):
            break
        begun.append(message)
    asked = [message for message in begun if message.role == "user"]
    return asked[0].text if len(asked) == 1 else begun


def _iso(value: datetime | None) -> str | None:
    return None if value is None else value.isoformat()


def _seconds(outcome: Row) -> float | None:
    began, ended = outcome.get("started_at"), outcome.get("ended_at")
    return None if began is None or ended is None else (ended - began).total_seconds()


def _fault(trial: ImportedAttempt) -> str:
    outcome = trial.outcome
    names = ("error_message", "error_type", "stop_reason", "status")
    return str(next((outcome[name] for name in names if outcome.get(name)), None))


def _error(trial: ImportedAttempt) -> Any:
    if trial.outcome.get("status") not in ("infra_error", "scorer_error", "cancelled"):
        return None
    return EvalError(message=_fault(trial), traceback="", traceback_ansi="")


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
        number = math.nan if row.get("value") is None else row["value"]
        scores[name] = Score(
            value=_score_value(detail["value"]) if "value" in detail else number,
            answer=row.get("answer"),
            explanation=detail.get("explanation"),
            reason=detail.get("reason"),
            metadata={**(detail.get("metadata") or {}), "tutti": ours},
        )
    if not scores and trial.outcome.get("score") is not None:
        answer = trial.outcome.get("answer")
        scores["score"] = Score(value=trial.outcome["score"], answer=answer)
    return scores or None


def _score_value(value: Any) -> Any:
    """A value of a type that Inspect allows: a scalar, or a list or dict of scalars."""
    if isinstance(value, list):
        return [_scalar(member) for member in value]
    if isinstance(value, dict):
        return {name: _scalar(member) for name, member in value.items()}
    return _scalar(value)


def _scalar(value: Any) -> Any:
    if value is None:
        return math.nan
    return value if isinstance(value, str | int | float) else json_text(value)


def _events(trial: ImportedAttempt, messages: list[Any] | None = None) -> list[Any]:
    if messages is None:
        messages = [_message(row, place) for place, row in enumerate(trial.messages)]
    began = trial.outcome.get("started_at") or NO_TIME
    events = _Events(trial, messages, began)
    return list(events.recorded() if trial.calls else events.made_up())


class _Events:
    """Model and tool events of one attempt, in the order of its steps."""

    def __init__(self, trial: ImportedAttempt, messages: list[Any], began: datetime) -> None:
        self.trial, self.messages, self.began = trial, messages, began
        self.place_of = {
            row["call_id"]: place
            for place, row in enumerate(trial.messages)
            if row.get("call_id") is not None
        }
        self.runs: dict[int | None, list[Row]] = {}
        for run in trial.tool_runs:
            self.runs.setdefault(run.get("step"), []).append(run)

    def recorded(self) -> Iterator[Any]:
        """Events of the calls and tool runs in the store."""
        for call in self.trial.calls:
            place = self.place_of.get(call.get("call_id"))
            yield self._model_event(call, place, made_up=False)
            if place is not None:
                yield from self._tool_events(self.runs.pop(call.get("step"), []), place)
        for runs in list(self.runs.values()):
            yield from self._tool_events(runs, None)

    def made_up(self) -> Iterator[Any]:
        """Synthetic events made from the messages; tool runs are taken from the store if it has
        them."""
        step = 0
        for place, message in enumerate(self.messages):
            if message.role == "assistant":
                step += 1
                yield self._model_event({"model": self.trial.cell.model}, place, made_up=True)
                yield from self._tool_events(self.runs.pop(step, []), place)
            elif message.role == "tool" and not self.trial.tool_runs:
                run = {"name": message.function, "result": message.text, "made_up": True}
                run["id"] = message.tool_call_id
                yield self._tool_event(run, self._asked(message.tool_call_id))
        for runs in list(self.runs.values()):
            yield from self._tool_events(runs, None)

    def _asked(self, id: str | None) -> Any:
        calls = (c for m in self.messages for c in getattr(m, "tool_calls", None) or ())
        return next((call for call in calls if call.id == id), None)

    def _model_event(self, call: Row, place: int | None, made_up: bool) -> Any:
        model = call.get("model") or self.trial.cell.model
        reason = call.get("finish_reason") or "stop"
        choices = []
        if place is not None:
            stop: Any = STOPS.get(reason, reason)
            stop = stop if stop in ("stop", "max_tokens", "tool_calls", *STOPS) else "unknown"
            choices = [ChatCompletionChoice(message=self.messages[place], stop_reason=stop)]
        output = ModelOutput(
            model=model, choices=choices, usage=usage_from(call), time=call.get("latency_s")
        )
        failed = call.get("status") not in (None, "ok")
        sent = call.get("sent_at") or self.began
        ours = {n: call[n] for n in CALL_FIELDS if call.get(n) is not None}
        ours = {n: _iso(v) if isinstance(v, datetime) else v for n, v in ours.items()}
        role = call.get("role")
        return ModelEvent(
            uuid=call.get("call_id"),
            model=model,
            role={"orchestrator": None, "judge": "grader"}.get(role, role) if role else None,
            input=[] if place is None else self.messages[:place],
            tools=[],
            tool_choice="auto",
            config=GenerateConfig(),
            output=output,
            error=f"{call['status']} {call.get('http_status') or ''}".strip() if failed else None,
            timestamp=sent,
            working_start=max((sent - self.began).total_seconds(), 0.0),
            completed=call.get("ended_at"),
            metadata={"tutti": {"made_up": True} if made_up else ours},
        )

    def _tool_events(self, runs: list[Row], place: int | None) -> Iterator[Any]:
        message = None if place is None else self.messages[place]
        asked = list(getattr(message, "tool_calls", None) or ())
        for run in runs:
            call = next((c for c in asked if c.function == run.get("name")), None)
            if call is not None:
                asked.remove(call)
            yield self._tool_event(run, call)

    def _tool_event(self, run: Row, call: Any) -> Any:
        started = run.get("started_at") or self.began
        text = run.get("arguments")
        arguments = call.arguments if text is None and call else _arguments(text)
        failed = run.get("status") not in (None, "ok")
        kind: Any = run.get("error_type") or run.get("status")
        kind = kind if kind in TOOL_ERRORS else "unknown"
        names = ("step", "status", "error_type", "cost_usd", "arguments")
        ours = {n: run[n] for n in names if run.get(n) is not None}
        return ToolEvent(
            id=(call.id if call else run.get("id")) or f"run-{run.get('step')}",
            function=run.get("name") or "",
            arguments=arguments if arguments is not None else {"text": text or ""},
            result=run.get("result") or "",
            error=ToolCallError(kind, run.get("result") or "") if failed else None,
            timestamp=started,
            working_start=max((started - self.began).total_seconds(), 0.0),
            completed=run.get("ended_at"),
            metadata={"tutti": {"made_up": True} if run.get("made_up") else ours},
        )
