"""Import of Inspect logs: one attempt for each sample and epoch of a `.eval` or `.json` log.

In: a log or a folder of logs. Out: `ImportedAttempt` and `ImportIssue` objects. inspect_ai itself
(the extra ``inspect``) reads the samples a few at a time, never the whole log. Sources:
inspect.aisi.org.uk, ``inspect_ai.log``. `inspect.write` writes such logs.
"""

import math
import zlib
from collections.abc import Iterable, Iterator, Mapping
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
from tutti.tasks.exchange.base.fields import POSITIVE, Fields, RecordRefused, compact, detail_text
from tutti.tasks.exchange.base.imported import (
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
    """The text, the reasoning, and the kinds of other parts."""
    if isinstance(content, str):
        return content, None, []
    texts = [part.text for part in content if part.type == "text"]
    thoughts = [part for part in content if part.type == "reasoning"]
    others = [part.type for part in content if part.type not in ("text", "reasoning")]
    reasoning = "\n".join(part.reasoning or part.summary or "" for part in thoughts)
    return "\n".join(texts), reasoning if thoughts else None, others


def message_row(message: Any) -> tuple[Row, list[str]]:
    """A message as a row (`_id` is Inspect's id), and the kinds of its parts without a column."""
    text, reasoning, others = content_of(message.content)
    ours = (message.metadata or {}).get("tutti") or {}
    row: Row = {"role": ours.get("role", message.role), "content": text, "_id": message.id}
    row |= compact(reasoning=reasoning)
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
    return row, others


def score_rows(sample: Any) -> list[Row]:
    """One row per scorer; for a scorer with several values one more row each, `name/key`. `detail`
    has the original value if the number does not represent it completely."""
    rows = []
    for name, score in (sample.scores or {}).items():
        value = score.value
        metadata = dict(score.metadata or {})
        ours = metadata.pop("tutti", {})
        is_number = isinstance(value, int | float) and not isinstance(value, bool)
        detail = detail_text(
            target=sample.target or None,
            explanation=score.explanation,
            metadata=metadata or None,
            reason=score.reason,
            value=None if is_number else value,
        )
        row: Row = {"scorer": name, "answer": score.answer, "detail": detail}
        rows.append(row | judged(value) | own_columns(ours))
        parts: Iterable[Any] = value.items() if isinstance(value, dict) else ()
        parts = enumerate(value) if isinstance(value, list | tuple) else parts
        rows += [
            {"scorer": f"{name}/{key}", "answer": score.answer} | judged(member)
            for key, member in parts
        ]
    return rows


def own_columns(ours: Mapping[str, Any]) -> Row:
    """Columns that our export stored under `metadata.tutti`, with times parsed."""
    return {name: time_of(value) if name.endswith("_at") else value for name, value in ours.items()}


def time_of(value: Any) -> Any:
    """A time that Inspect gives as text; None if it is empty."""
    return datetime.fromisoformat(value) if isinstance(value, str) and value else value or None


def judged(value: Any) -> Row:
    """A score's value as a number, and whether it is correct. The number is None for a value that
    is not one (NaN is Inspect's "not scored")."""
    if isinstance(value, str):
        value = GRADES.get(value, WORDS.get(value.lower(), value))
    try:
        number = float(value)
    except (TypeError, ValueError):
        number = math.nan
    graded = 0 <= number <= 1
    return {
        "value": number if math.isfinite(number) else None,
        "correct": number == 1 if graded else None,
    }


def usage_of(usage: Any) -> Row:
    """Tokens and cost. Inspect's input tokens exclude cached ones; our prompt tokens do not."""
    if not usage:
        return {}
    cached = usage.input_tokens_cache_read
    prompt = usage.input_tokens + (cached or 0) + (usage.input_tokens_cache_write or 0)
    row: Row = {"prompt_tokens": prompt, "cached_tokens": cached}
    return row | {"completion_tokens": usage.output_tokens, "cost_usd": usage.total_cost}


Key = tuple[int | str, int]
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
    """Yield the trials of one log, or of every log under a folder. `run` names the run of a log
    without an id of its own."""
    logs = [path]
    if path.is_dir():  # with logs, Inspect writes logs.json, a manifest
        files = (p for p in path.rglob("*") if p.suffix in (".eval", ".json"))
        logs = sorted(p for p in files if p.name != "logs.json")
    for log in logs:
        yield from _read_log(log, run)


def _read_log(path: Path, run: str) -> Iterator[ImportedItem]:
    if path.suffix == ".eval" and not is_zipfile(path):
        yield ImportIssue(path, None, "", "is truncated or no Inspect log: not a complete zip file")
        return
    try:
        header = read_eval_log(path, header_only=True)
    except READ_ERRORS as error:
        yield ImportIssue(path, None, "", f"no Inspect log: {_words(error)}")
        return
    ours = Fields(path, None, header.eval.metadata or {}, path="eval.metadata").inner("tutti")
    cell = _cell(header, run, ours)
    yield from ours.problems
    for item in _json_samples(path) if path.suffix == ".json" else _samples(path):
        if isinstance(item, ImportIssue):
            yield item
            continue
        sample = _LoggedSample(path, cell, header.eval.model, item)
        try:
            yield from sample.trials()
        except RecordRefused:
            yield from sample.problems
        except READ_ERRORS as error:
            yield ImportIssue(path, None, f"samples.{item.id}.{item.epoch}", _words(error))


def _words(error: Exception) -> str:
    return " ".join(f"{type(error).__name__}: {error}".split())[:500]


def _samples(path: Path) -> Iterator[Any]:
    """Yield the samples of a zipped log, read in portions that fit in memory."""
    try:
        keys = [(summary.id, summary.epoch) for summary in read_eval_log_sample_summaries(path)]
    except READ_ERRORS as error:
        yield ImportIssue(path, None, "summaries", _words(error))
        return
    with ZipFile(path) as archive:
        sizes = {info.filename: info.file_size for info in archive.infolist()}
    some: list[Key] = []
    held = 0
    for key in keys:
        size = sizes.get(f"samples/{key[0]}_epoch_{key[1]}.json", 0)
        if some and (held + size > BYTES_AT_ONCE or len(some) >= SAMPLES_AT_ONCE):
            yield from _read_some(path, some)
            some, held = [], 0
        some.append(key)
        held += size
    yield from _read_some(path, some)


def _read_some(path: Path, keys: list[Key]) -> Iterator[Any]:
    try:
        yield from read_eval_log_samples_by_id(path, keys, resolve_attachments="full")
    except READ_ERRORS as error:
        if len(keys) == 1:
            sample_id, epoch = keys[0]
            yield ImportIssue(path, None, f"samples.{sample_id}.{epoch}", _words(error))
            return
        half = len(keys) // 2  # one of them is invalid: read each half
        yield from _read_some(path, keys[:half])
        yield from _read_some(path, keys[half:])


def _json_samples(path: Path) -> Iterator[Any]:
    try:
        with path.open("rb") as stream:
            for place, raw in enumerate(ijson.items(stream, "samples.item", use_float=True)):
                yield _json_sample(path, place, raw)
    except ijson.JSONError as error:
        yield ImportIssue(path, None, "samples", f"the rest cannot be read: {_words(error)}")


def _json_sample(path: Path, place: int, raw: Any) -> Any:
    """The sample at `place` of a log in JSON, or an ImportIssue if it is not valid."""
    try:
        sample = resolve_sample_events_data(EvalSample.model_validate(raw))
        return resolve_sample_attachments(sample, "full")
    except READ_ERRORS as error:
        return ImportIssue(path, None, f"samples.{place}", _words(error))


def _cell(header: Any, run: str, ours: Fields) -> Cell:
    """The cell of an Inspect log; `ours`: its description in a log that tutti wrote."""
    spec = header.eval
    names = ("solver", "task_args", "model_args", "model_base_url", "task_version", "packages")
    detail: Row = {
        "title": f"{spec.task} {spec.model} {spec.created}",
        "status": header.status,
        "created": spec.created,
        **{name: getattr(spec, name) for name in names},
        "config": spec.config.model_dump(exclude_none=True),
        "generate": header.plan.config.model_dump(exclude_none=True),
    }
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
            first = next((row for row in last.scores if row["value"] is not None), None)
            if first is not None:
                last.outcome |= {"score": first["value"], "correct": first["correct"]}
                last.outcome |= compact(answer=first["answer"]) | outcome
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
        _add_events(trial, events)
        models = [event for event in events if event.event == "model"]
        if models and not messages:
            # The last call of an aborted attempt has the conversation so far.
            replies = [choice.message for choice in models[-1].output.choices[:1]]
            messages = [*models[-1].input, *replies]
        # The messages' own ids are used only to find the call that made each.
        made_by = {call.pop("_message", None): call["call_id"] for call in trial.calls}
        where = f"samples.{self.sample.id}.{self.sample.epoch}.messages"
        for place, message in enumerate(messages or ()):
            row, others = message_row(message)
            call_id = made_by.get(row.pop("_id", None))
            if call_id is not None and row["role"] == "assistant":
                row["call_id"] = call_id
            trial.messages.append(row)
            self.problems += [
                ImportIssue(self.path, None, f"{where}.{place}.content", f"{kind} has no column")
                for kind in others
                if len(self.problems) < 20  # a conversation repeats its images in every call
            ]
        return trial

    def _outcome(self) -> Row:
        sample = self.sample
        choices = sample.output.choices
        row: Row = {
            "started_at": time_of(sample.started_at),
            "ended_at": time_of(sample.completed_at),
            "working_s": sample.working_time,
            "status": "ok",
            "stop_reason": sample.output.stop_reason if choices else None,
            **usage_of((sample.model_usage or {}).get(self.model)),
        }
        if choices:
            row["answer"] = content_of(choices[0].message.content)[0]
        if sample.limit is not None:
            row |= {"status": "limit", "stop_reason": sample.limit.type}
        if sample.invalidation is not None:
            row |= {"status": "cancelled", "stop_reason": "invalidated"}
        if sample.error is not None:
            cancelled = sample.error.message.startswith("CancelledError")
            row["status"] = "cancelled" if cancelled else "infra_error"
            row |= {"stop_reason": "error"} | foreign_error(sample.error.message)
        return row


def _add_events(trial: ImportedAttempt, events: list[Any]) -> None:
    """Add model events as calls and tool events as tool runs; a call and its tools are a step."""
    scoring: set[str] = set()
    step = 0
    for place, event in enumerate(events):
        ours = (event.metadata or {}).get("tutti", {})
        if event.event == "span_begin" and (
            event.type in ("scorer", "scorers") or event.parent_id in scoring
        ):
            scoring.add(event.id)
        elif event.event == "model":
            role = event.role
            if role not in ROLES:
                is_judge = event.span_id in scoring or role in ROLE_OF
                other = "orchestrator" if role is None else "expert"
                role = ROLE_OF.get(role, "judge") if is_judge else other
            step += role == "orchestrator"
            call = _call(event, place, role) | own_columns(ours)
            trial.calls.append(call | {"step": max(step, 1)})
        elif event.event == "tool":
            trial.tool_runs.append({"step": max(step, 1)} | _tool_run(event) | own_columns(ours))


def _call(event: Any, place: int, role: str) -> Row:
    output = event.output
    row: Row = {
        "call_id": event.uuid or str(place),
        "role": role,
        "model": event.model,
        "sent_at": event.timestamp,
        "ended_at": event.completed,
        "latency_s": output.time if output.time is not None else event.working_time,
        "retry": event.retries,
        "status": "error" if event.error else "ok",
        "params": json_text(event.config.model_dump(exclude_none=True)),
        **usage_of(output.usage),
    }
    if output.choices:
        choice = output.choices[0]
        row |= {"finish_reason": choice.stop_reason, "_message": choice.message.id}
        row["logprobs"] = choice.logprobs and [each.logprob for each in choice.logprobs.content]
    return row


def _tool_run(event: Any) -> Row:
    result = event.result
    if isinstance(result, list):
        kinds = [getattr(part, "type", None) for part in result]
        result = content_of(result)[0] or json_text(kinds)
    row: Row = {
        "name": event.function,
        "arguments": json_text(event.arguments),
        "started_at": event.timestamp,
        "ended_at": event.completed,
        "status": "ok",
        "result": str(getattr(result, "text", result)),
    }
    if event.error is not None or event.failed:
        kind = event.error.type if event.error is not None else "failed"
        row |= {"status": "timeout" if kind == "timeout" else "error", "error_type": kind}
        row["result"] = row["result"] or (event.error.message if event.error is not None else "")
    return row
