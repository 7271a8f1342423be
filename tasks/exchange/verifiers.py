"""Take rollouts of verifiers and prime-rl, of all their generations.

In: a file, or a folder of them:
- ``results.jsonl`` (verifiers to 0.2, with ``metadata.json`` beside it) and prime-rl's
  ``train_rollouts.jsonl`` and ``eval_rollouts.jsonl``: a rollout a line, prompt and completion;
- ``traces.jsonl`` (verifiers from 0.2, prime-rl): a trace or an episode of traces a line, see
  `tutti.tasks.exchange.verifiers_traces`.
Of prime-rl's two copies in a run's folder, ``all`` and ``effective``, the first is taken.

A task is an example's id; its rollouts are its trials in the order they come. The score is the
reward, and it is correct from `pass_threshold` on, as in verifiers' own pass@k. A rollout with an
error has status infra_error and no score, for verifiers writes reward 0 there.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any

from tutti.storage import foreign_error
from tutti.tasks.exchange.chat import (
    add_call,
    last_said,
    link_calls,
    message_rows,
    params,
    tool_runs,
)
from tutti.tasks.exchange.fields import Fields, compact, detail_text, readable, records, take
from tutti.tasks.exchange.imported import Cell, ImportedAttempt, ImportedItem, ImportIssue, Row
from tutti.tasks.exchange.verifiers_traces import PASS_THRESHOLD, RolloutCounts, episode_trials

LIMITS = {
    "max_turns_reached",
    "prompt_too_long",
    "timeout_reached",
    "max_total_completion_tokens_reached",
}
"""Stop conditions of its environments for exhausted turns, tokens or time."""
CONTEXT_ERROR = "OverlongPromptError"
SETTINGS = ("env_args", "sampling_args", "base_url", "version_info", "date", "num_examples")
FILES = ("results.jsonl", "traces.jsonl", "*rollouts*.jsonl")


def read(path: Path, run: str) -> Iterator[ImportedItem]:
    """The trials in `path`, and the issues. `run` names data without a name."""
    files = [path] if path.is_file() else _files(path)
    if not files:
        yield ImportIssue(path, None, "", "has no results.jsonl, traces.jsonl or rollouts")
    counted = RolloutCounts()
    for file in files:
        yield from _read_file(file, _run_name(path, file, run), counted)


def _files(folder: Path) -> list[Path]:
    found = {file for name in FILES for file in folder.rglob(name) if file.is_file()}
    copies = {file.parent.parent for file in found if file.parent.name == "all"}
    return sorted(f for f in found if f.parent.name != "effective" or f.parent.parent not in copies)


def _run_name(path: Path, file: Path, run: str) -> str:
    """The files of a folder are separate runs, unless the folder is a single run."""
    if path == file or file.parent == path:
        return run
    return f"{run}/{file.parent.relative_to(path).as_posix()}"


def _read_file(path: Path, run: str, counted: RolloutCounts) -> Iterator[ImportedItem]:
    metadata = path.with_name("metadata.json")
    about = readable(metadata) if metadata.is_file() else Fields(metadata, None, {})
    reader = _Reader(run, path.stem, about, counted)
    yield from about.problems
    yield from take(records(path), reader.trials_of)


@dataclass
class _Reader:
    run: str
    stem: str
    about: Fields
    counted: RolloutCounts
    pass_threshold: float = PASS_THRESHOLD

    def __post_init__(self) -> None:
        given = self.about.number("pass_threshold")
        self.pass_threshold = PASS_THRESHOLD if given is None else given

    def trials_of(self, fields: Fields) -> Iterable[ImportedItem]:
        if "traces" in fields or "nodes" in fields:
            return episode_trials(fields, self.run, self.counted)
        return [self._rollout(fields)]

    def _rollout(self, fields: Fields) -> ImportedAttempt:
        name = "example_id" if "example_id" in fields else "id"
        task_id = fields.needed("example_id", fields.identity(name))
        cell = self._cell(fields)
        trial = self.counted.trial(cell, task_id)
        prompt = message_rows(fields, "prompt")
        said = message_rows(fields, "completion")
        if isinstance(fields.data.get("completion"), str):
            said[0]["role"] = "assistant"
        calls = _calls(fields, said)
        link_calls(said, calls)
        messages = prompt + said
        found = ImportedAttempt(cell, task_id, trial, messages=messages, calls=calls)
        found.tool_runs = tool_runs(messages, calls)
        found.outcome = _outcome(fields) | compact(answer=last_said(said))
        self._score(fields, found)
        found.file, found.line = fields.file, fields.line
        return found

    def _cell(self, fields: Fields) -> Cell:
        about = self.about.data
        names = [about.get("env_id"), fields.data.get("env_name"), fields.data.get("task")]
        models = [about.get("model"), fields.data.get("model"), _answered_by(fields)]
        detail = {name: about[name] for name in SETTINGS if name in about}
        return Cell(
            run=self.run if self.stem in ("results", "traces") else f"{self.run}/{self.stem}",
            benchmark=next((n for n in names if isinstance(n, str) and n), self.run),
            model=next((n for n in models if isinstance(n, str) and n), "unknown"),
            detail=detail,
        )

    def _score(self, fields: Fields, trial: ImportedAttempt) -> None:
        reward = fields.number("reward")
        if trial.outcome["status"] == "infra_error" or reward is None:
            return
        correct = reward >= self.pass_threshold
        answer = trial.outcome.get("answer")
        detail = detail_text(expected=fields.data.get("answer"), info=fields.data.get("info"))
        trial.score("reward", reward, correct, answer=answer, detail=detail)
        trial.scores += fields.inner("metrics").score_rows()


def _answered_by(fields: Fields) -> Any:
    for step in fields.each("trajectory"):
        if "model" in step.inner("response"):
            return step.inner("response").text("model")
    return None


def _outcome(fields: Fields) -> Row:
    stop = fields.text("stop_condition")
    status, error = _status(fields, stop)
    timing = fields.inner("timing")
    generation, scoring = timing.inner("generation"), timing.inner("scoring")
    old = (timing if "generation_ms" in timing else fields).amount("generation_ms")
    started = timing.epoch("start_time") or generation.epoch("start")
    ended = scoring.epoch("end") or generation.epoch("end")
    working = generation.amount("duration")
    if old is not None:
        working = old / 1000
        ended = ended or (started and started + timedelta(seconds=min(working, 1e9)))
    usage = fields.inner("token_usage")
    return (
        {"status": status}
        | foreign_error(error)
        | compact(
            stop_reason=stop,
            started_at=started,
            ended_at=ended,
            working_s=working,
            prompt_tokens=usage.count("input_tokens"),
            completion_tokens=usage.count("output_tokens"),
        )
    )


def _status(fields: Fields, stop: str | None) -> tuple[str, str | None]:
    error = fields.data.get("error")
    if error is not None:
        text = _error_text(fields, error)
        return ("limit" if text.startswith(CONTEXT_ERROR) else "infra_error"), text
    if fields.flag("is_truncated") or stop in LIMITS:
        return "limit", None
    return ("cancelled" if fields.flag("is_completed") is False else "ok"), None


def _error_text(fields: Fields, error: Any) -> str:
    """The text of an error: verifiers first wrote errors as text, later as objects."""
    if isinstance(error, str):
        return error
    told = fields.inner("error")
    parts = [told.text("error"), told.text("message")]
    return ": ".join(part for part in parts if part) or "unknown"


def _calls(fields: Fields, said: list[Row]) -> list[Row]:
    """One call per step of the trajectory; without one, per message of the assistant."""
    steps = list(fields.each("trajectory"))
    made = [row for row in said if row["role"] == "assistant"]
    calls: list[Row] = []
    for columns in [_call(step) for step in steps] if steps else [{} for _ in made]:
        add_call(calls, **columns)
    spans = list(fields.inner("timing").inner("model").each("spans"))
    if len(spans) == len(calls):
        for call, span in zip(calls, spans, strict=True):
            call |= _span(span)
    return calls


def _call(step: Fields) -> Row:
    response = step.inner("response")
    usage, message = response.inner("usage"), response.inner("message")
    return step.inner("tokens").sampled("completion_ids", "completion_logprobs") | compact(
        model=response.text("model"),
        prompt_tokens=usage.count("prompt_tokens"),
        completion_tokens=usage.count("completion_tokens"),
        finish_reason=message.text("finish_reason"),
        params=params(step.inner("extras").data.get("sampling_args")),
    )


def _span(span: Fields) -> Row:
    sent = span.epoch("start")
    return compact(
        sent_at=sent,
        admitted_at=sent,
        ended_at=span.epoch("end"),
        latency_s=span.amount("duration"),
    )
