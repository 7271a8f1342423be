"""Import of Inspect logs: one attempt for each sample and epoch of a `.eval` or `.json` log.

In: a log or a folder of logs. Out: `ImportedAttempt` and `ImportIssue` objects. inspect_ai itself
(the extra ``inspect``) reads the samples a few at a time, never the whole log. Sources:
inspect.aisi.org.uk, ``inspect_ai.log``. `inspect.write` writes such logs.
"""

import math
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any
from zipfile import BadZipFile, ZipFile, is_zipfile

import ijson
from inspect_ai.log import (
    EvalSample,
    read_eval_log,
    read_eval_log_sample_summaries,
    read_eval_log_samples_by_id,
    resolve_sample_attachments,
    resolve_sample_events_data,
)

from tutti.storage import foreign_error
from tutti.tasks.exchange.fields import POSITIVE, Fields, RecordRefused
from tutti.tasks.exchange.imported import (
    Cell,
    ImportedAttempt,
    ImportedItem,
    ImportIssue,
    Row,
    json_text,
    shown,
)

GRADES = {"C": 1.0, "P": 0.5, "I": 0.0, "N": 0.0}
"""Inspect's letters: correct, partial, incorrect, no answer."""
WORDS = {"yes": 1.0, "true": 1.0, "no": 0.0, "false": 0.0}


def content_of(content: Any) -> tuple[str, str | None, list[str]]:
    """Text, reasoning, and the kinds of other parts."""
    if isinstance(content, str):
        return content, None, []
    texts = [part.text for part in content if part.type == "text"]
    thoughts = [part for part in content if part.type == "reasoning"]
    others = [part.type for part in content if part.type not in ("text", "reasoning")]
    reasoning = "\n".join(part.reasoning or part.summary or "" for part in thoughts)
    return "\n".join(texts), reasoning if thoughts else None, others


def message_rows(messages: list[Any]) -> tuple[list[Row], list[tuple[int, str]]]:
    """Messages as rows (`_id` is Inspect's id), and position and kind of parts without a column."""
    rows, lost = [], []
    for place, message in enumerate(messages):
        text, reasoning, others = content_of(message.content)
        lost += [(place, kind) for kind in others]
        ours = (message.metadata or {}).get("tutti") or {}
        row: Row = {"role": ours.get("role", message.role), "content": text, "_id": message.id}
        if reasoning is not None:
            row["reasoning"] = reasoning
        if message.role == "assistant" and message.tool_calls:
            texts = ours.get("arguments") or [json_text(c.arguments) for c in message.tool_calls]
            row["tool_calls"] = [
                {"id": call.id, "name": call.function, "arguments": text}
                for call, text in zip(message.tool_calls, texts, strict=True)
            ]
        if message.role == "tool":
            row |= {"tool_call_id": message.tool_call_id, "name": message.function}
            if message.error is not None and not text:
                row["content"] = message.error.message
        rows.append(row)
    return rows, lost


def score_rows(sample: Any) -> list[Row]:
    """One row per scorer; for a scorer with several values one more row each, `name/key`. `detail`
    keeps the original value if the number does not represent it completely."""
    rows = []
    for name, score in (sample.scores or {}).items():
        value = score.value
        metadata = dict(score.metadata or {})
        ours = metadata.pop("tutti", {})
        detail: Row = {"target": sample.target or None, "explanation": score.explanation}
        detail |= {"metadata": metadata or None, "reason": score.reason}
        if isinstance(value, bool) or not isinstance(value, int | float):
            detail["value"] = value
        kept = {key: given for key, given in detail.items() if given is not None}
        row: Row = {"scorer": name, "answer": score.answer}
        row["detail"] = json_text(kept) if kept else None
        rows.append(row | _judged(value) | own_columns(ours))
        if isinstance(value, list | tuple):
            value = {str(place): member for place, member in enumerate(value)}
        if isinstance(value, dict):
            rows += [
                {"scorer": f"{name}/{key}", "answer": score.answer} | _judged(member)
                for key, member in value.items()
            ]
    return rows


def own_columns(ours: Mapping[str, Any]) -> Row:
    """Columns that our export stored under `metadata.tutti`, with times parsed."""
    return {name: time_of(value) if name.endswith("_at") else value for name, value in ours.items()}


def time_of(value: Any) -> Any:
    """A time that Inspect gives as text; None for none."""
    return datetime.fromisoformat(value) if isinstance(value, str) and value else value or None


def _judged(value: Any) -> Row:
    number = number_of(value)
    graded = number is not None and 0 <= number <= 1
    return {"value": number, "correct": number == 1 if graded else None}


def number_of(value: Any) -> float | None:
    """A score's value as a number; None if it is not one (NaN is Inspect's "not scored")."""
    if isinstance(value, str):
        if value in GRADES:
            return GRADES[value]
        if value.lower() in WORDS:
            return WORDS[value.lower()]
        try:
            value = float(value)
        except ValueError:
            return None
    if isinstance(value, bool | int | float) and math.isfinite(value):
        return float(value)
    return None


def usage_of(usage: Any) -> Row:
    """Tokens and cost. Inspect's input tokens exclude cached ones; our prompt tokens do not."""
    cached = usage.input_tokens_cache_read
    prompt = usage.input_tokens + (cached or 0) + (usage.input_tokens_cache_write or 0)
    row: Row = {"prompt_tokens": prompt, "cached_tokens": cached}
    return row | {"completion_tokens": usage.output_tokens, "cost_usd": usage.total_cost}


def tool_result(result: Any) -> str:
    """A tool's result as text."""
    if isinstance(result, str):
        return result
    if isinstance(result, list):
        return content_of(result)[0] or json_text([getattr(part, "type", None) for part in result])
    return str(getattr(result, "text", result))


Key = tuple[int | str, int]
"""Id and epoch of a sample."""
SAMPLES_AT_ONCE = 512  # every read begins with the directory of the whole zip
BYTES_AT_ONCE = 32_000_000  # of JSON; as objects it takes several times that
READ_ERRORS = (
    *(ValueError, TypeError, KeyError, IndexError, AttributeError, RuntimeError),
    *(OSError, EOFError, BadZipFile, zlib.error),
)
"""Exceptions of inspect_ai and its libraries for an invalid file."""
ROLES = ("orchestrator", "expert", "judge", "user", "teacher", "embedder")
ROLE_OF = {"grader": "judge", "critic": "judge", "monitor": "judge"}


def read(path: Path, run: str) -> Iterator[ImportedItem]:
    """The trials of one log, or of every log under a folder. `run` names the run of a log that has
    no id of its own."""
    logs = [path] if path.is_file() else sorted(p for p in path.rglob("*") if _may_be_log(p))
    for log in logs:
        yield from _read_log(log, run)


def _may_be_log(path: Path) -> bool:
    # Inspect keeps logs.json (a manifest) beside its logs; it is not a log.
    return path.suffix == ".eval" or (path.suffix == ".json" and path.name != "logs.json")


def _read_log(path: Path, run: str) -> Iterator[ImportedItem]:
    if path.suffix == ".eval" and not is_zipfile(path):
        yield ImportIssue(
            path, None, "", "is truncated or not an Inspect log: it is not a complete zip file"
        )
        return
    try:
        header = read_eval_log(path, header_only=True)
    except READ_ERRORS as error:
        yield ImportIssue(path, None, "", f"no Inspect log: {_said(error)}")
        return
    ours = Fields(path, None, header.eval.metadata or {}, path="eval.metadata").inner("tutti")
    cell = _cell(header, run, ours)
    yield from ours.problems
    for item in _samples(path):
        if isinstance(item, ImportIssue):
            yield item
            continue
        sample = _LoggedSample(path, cell, header.eval.model, item)
        try:
            yield from sample.trials()
        except RecordRefused:
            yield from sample.problems
        except READ_ERRORS as error:
            yield ImportIssue(path, None, f"samples.{item.id}.{item.epoch}", _said(error))


def _said(error: Exception) -> str:
    return " ".join(f"{type(error).__name__}: {error}".split())[:500]


def _samples(path: Path) -> Iterator[Any]:
    if path.suffix == ".json":
        yield from _json_samples(path)
        return
    try:
        keys = [(summary.id, summary.epoch) for summary in read_eval_log_sample_summaries(path)]
    except READ_ERRORS as error:
        yield ImportIssue(path, None, "summaries", _said(error))
        return
    for some in _in_portions(path, keys):
        yield from _read_some(path, some)


def _in_portions(path: Path, keys: list[Key]) -> Iterator[list[Key]]:
    """Keys of samples in groups that fit in memory."""
    with ZipFile(path) as archive:
        sizes = {info.filename: info.file_size for info in archive.infolist()}
    some: list[Key] = []
    held = 0
    for key in keys:
        size = sizes.get(f"samples/{key[0]}_epoch_{key[1]}.json", 0)
        if some and (held + size > BYTES_AT_ONCE or len(some) >= SAMPLES_AT_ONCE):
            yield some
            some, held = [], 0
        some.append(key)
        held += size
    if some:
        yield some


def _read_some(path: Path, keys: list[Key]) -> Iterator[Any]:
    try:
        yield from read_eval_log_samples_by_id(path, keys, resolve_attachments="full")
    except READ_ERRORS as error:
        if len(keys) == 1:
            (sample_id, epoch) = keys[0]
            yield ImportIssue(path, None, f"samples.{sample_id}.{epoch}", _said(error))
            return
        half = len(keys) // 2  # one of them is invalid: read them one by one
        yield from _read_some(path, keys[:half])
        yield from _read_some(path, keys[half:])


def _json_samples(path: Path) -> Iterator[Any]:
    """Samples of a log in JSON, parsed one by one."""
    try:
        with path.open("rb") as stream:
            for place, raw in enumerate(ijson.items(stream, "samples.item", use_float=True)):
                yield _json_sample(path, place, raw)
    except ijson.JSONError as error:
        yield ImportIssue(path, None, "samples", f"the rest cannot be read: {_said(error)}")


def _json_sample(path: Path, place: int, raw: Any) -> Any:
    """The sample at `place` of a log in JSON, or an ImportIssue where it is not valid."""
    try:
        sample = resolve_sample_events_data(EvalSample.model_validate(raw))
        return resolve_sample_attachments(sample, "full")
    except READ_ERRORS as error:
        return ImportIssue(path, None, f"samples.{place}", _said(error))


def _cell(header: Any, run: str, ours: Fields) -> Cell:
    """Each Inspect log is a cell; `ours` is what a log written by tutti says of its cell."""
    spec = header.eval
    title = f"{spec.task} {spec.model} {spec.created}"
    detail: Row = {
        "title": title,
        "status": header.status,
        "created": spec.created,
        "solver": spec.solver,
    }
    for name in ("task_args", "model_args", "model_base_url", "task_version", "packages"):
        detail[name] = getattr(spec, name)
    detail["config"] = spec.config.model_dump(exclude_none=True)
    detail["generate"] = header.plan.config.model_dump(exclude_none=True)
    if header.error is not None:
        detail["error"] = header.error.message
    return Cell(
        run=spec.eval_id or spec.run_id or run,
        benchmark=ours.identity("benchmark") or spec.task,
        model=ours.identity("model") or spec.model,
        policy=ours.identity("policy"),
        concurrency=ours.read("concurrency", POSITIVE) or spec.config.max_samples or None,
        repeat=ours.count("repeat") or 0,
        detail=detail,
    )


@dataclass
class _LoggedSample:
    """One sample of a log, read as one attempt and one more per retry after an error."""

    path: Path
    cell: Cell
    model: str
    sample: Any
    problems: list[ImportIssue] = field(default_factory=list)

    def trials(self) -> Iterator[ImportedItem]:
        """The attempts of the sample in order, then their issues. Raises RecordRefused."""
        retries = self.sample.error_retries or []
        where = f"samples.{self.sample.id}.{self.sample.epoch}.metadata"
        metadata = self.sample.metadata or {}
        ours = Fields(self.path, None, metadata, self.problems, where).inner("tutti")
        outcome, origins = ours.inner("outcome").data, ours.array("attempt_ids")
        if not all(isinstance(origin, str) for origin in origins):
            ours.refuse("attempt_ids", f"{shown(origins)} are not ids")
        for place, retry in enumerate(retries):
            failed = {"status": "infra_error", "stop_reason": "retried"}
            failed |= foreign_error(retry.message)
            trial = self._trial(place + 1, failed, retry.events or [])
            trial.origin = origins[place] if place < len(origins) else ""
            yield trial
        last = self._trial(
            len(retries) + 1, self._outcome(), self.sample.events, self.sample.messages
        )
        last.outcome |= outcome
        if last.outcome["status"] not in ("infra_error", "cancelled"):
            last.scores = score_rows(self.sample)
            last.outcome = last.outcome | _primary(last) | outcome
        last.trial = ours.place("trial", last.trial)
        last.attempt = ours.place("attempt", last.attempt, POSITIVE)
        target = self.sample.target
        last.target = (target if isinstance(target, str) else json_text(target)) or None
        last.origin = origins[-1] if origins else ""
        yield last
        yield from self.problems

    def _trial(
        self, attempt: int, outcome: Row, events: list[Any], messages: list[Any] | None = None
    ) -> ImportedAttempt:
        task_id, epoch = str(self.sample.id), self.sample.epoch - 1
        trial = ImportedAttempt(self.cell, task_id, epoch, attempt, outcome, file=self.path)
        _add_events(trial, events, self.model)
        asked = [event for event in events if event.event == "model"]
        if asked and not messages:
            # The last call of an aborted attempt has the conversation so far.
            said = [choice.message for choice in asked[-1].output.choices[:1]]
            messages = [*asked[-1].input, *said]
        trial.messages = self._messages(messages or [])
        _name_calls(trial.messages, trial.calls)
        return trial

    def _messages(self, messages: list[Any]) -> list[Row]:
        rows, lost = message_rows(messages)
        which = f"samples.{self.sample.id}.{self.sample.epoch}.messages"
        self.problems += [
            ImportIssue(self.path, None, f"{which}.{place}.content", f"{kind} has no column")
            for place, kind in lost
            if len(self.problems) < 20  # a conversation repeats its images in every call
        ]
        return rows

    def _outcome(self) -> Row:
        sample = self.sample
        row: Row = {
            "started_at": time_of(sample.started_at),
            "ended_at": time_of(sample.completed_at),
        }
        row |= {"working_s": sample.working_time, "status": "ok"}
        row["stop_reason"] = sample.output.stop_reason if sample.output.choices else None
        if sample.output.choices:
            row["answer"] = content_of(sample.output.choices[0].message.content)[0]
        usage = (sample.model_usage or {}).get(self.model)
        row |= usage_of(usage) if usage else {}
        if sample.limit is not None:
            row |= {"status": "limit", "stop_reason": sample.limit.type}
        if sample.invalidation is not None:
            row |= {"status": "cancelled", "stop_reason": "invalidated"}
        if sample.error is not None:
            cancelled = sample.error.message.startswith("CancelledError")
            row["status"] = "cancelled" if cancelled else "infra_error"
            row |= {"stop_reason": "error"} | foreign_error(sample.error.message)
        return row


def _primary(trial: ImportedAttempt) -> Row:
    """Score, correctness and answer from the first scorer with a number."""
    valued = [row for row in trial.scores if row["value"] is not None]
    if not valued:
        return {}
    found = {"score": valued[0]["value"], "correct": valued[0]["correct"]}
    return found | ({"answer": valued[0]["answer"]} if valued[0]["answer"] is not None else {})


def _name_calls(messages: list[Row], calls: list[Row]) -> None:
    """Set in each message the call that made it; the message's own id is used only here."""
    made_by = {call.pop("_message", None): call["call_id"] for call in calls}
    for message in messages:
        made = made_by.get(message.pop("_id", None))
        if made is not None and message["role"] == "assistant":
            message["call_id"] = made


def _add_events(trial: ImportedAttempt, events: list[Any], model: str) -> None:
    """Add model events as calls and tool events as tool runs; a call and its tools are a step."""
    scoring: set[str] = set()
    step = 0
    for place, event in enumerate(events):
        if event.event == "span_begin" and (
            event.type in ("scorer", "scorers") or event.parent_id in scoring
        ):
            scoring.add(event.id)
        elif (event.metadata or {}).get("tutti", {}).get("made_up"):
            continue  # synthetic: made by our export from the messages, for the viewer
        elif event.event == "model":
            role = _role(event, event.span_id in scoring)
            step += role == "orchestrator"
            call = _call(event, place, role) | {"step": max(step, 1)}
            trial.calls.append(call)
        elif event.event == "tool":
            trial.tool_runs.append({"step": max(step, 1)} | _tool_run(event))


def _role(event: Any, scoring: bool) -> str:
    if event.role in ROLES:
        return str(event.role)
    if scoring or event.role in ROLE_OF:
        return ROLE_OF.get(event.role, "judge")
    return "orchestrator" if event.role is None else "expert"


def _call(event: Any, place: int, role: str) -> Row:
    output = event.output
    choice = output.choices[0] if output.choices else None
    extra = event.metadata.get("tutti", {}) if event.metadata else {}
    row: Row = {"call_id": event.uuid or str(place), "role": role, "model": event.model}
    row |= {"sent_at": event.timestamp, "ended_at": event.completed}
    row |= {"latency_s": output.time if output.time is not None else event.working_time}
    row |= usage_of(output.usage) if output.usage else {}
    row |= {"retry": event.retries, "status": "error" if event.error else "ok"}
    row["params"] = json_text(event.config.model_dump(exclude_none=True))
    if choice is not None:
        row |= {"finish_reason": choice.stop_reason, "_message": choice.message.id}
        row["logprobs"] = choice.logprobs and [each.logprob for each in choice.logprobs.content]
    return row | own_columns(extra)


def _tool_run(event: Any) -> Row:
    result = tool_result(event.result)
    row: Row = {"name": event.function, "arguments": json_text(event.arguments)}
    row |= {"started_at": event.timestamp, "ended_at": event.completed, "status": "ok"}
    if event.error is not None or event.failed:
        kind = event.error.type if event.error is not None else "failed"
        row |= {"status": "timeout" if kind == "timeout" else "error", "error_type": kind}
        result = result or (event.error.message if event.error is not None else "")
    row |= own_columns((event.metadata or {}).get("tutti", {}))
    return {"result": result} | row
