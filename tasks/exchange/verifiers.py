"""Import of rollouts of verifiers and prime-rl, in all versions of their formats.

In: a file or a folder of them: ``results.jsonl`` (to 0.2, with ``metadata.json``) and prime-rl's
``*_rollouts.jsonl`` have one rollout per line; for ``traces.jsonl`` see `verifiers_traces`. Of
prime-rl's copies ``all`` and ``effective`` the first is used. Out: trials, numbered in the order of
an example's rollouts. The reward is the score, correct from `pass_threshold` on. A rollout with an
error is an infra_error without a score, because verifiers writes reward 0 there.
"""

from collections.abc import Iterable, Iterator
from datetime import timedelta
from pathlib import Path

from tutti.storage import foreign_error
from tutti.tasks.exchange.base.chat import (
    add_call,
    last_reply,
    link_calls,
    message_rows,
    params,
    tool_runs,
)
from tutti.tasks.exchange.base.fields import Fields, compact, detail_text, readable, records, take
from tutti.tasks.exchange.base.imported import Cell, ImportedAttempt, ImportedItem, ImportIssue, Row
from tutti.tasks.exchange.verifiers_traces import (
    PASS_THRESHOLD,
    RolloutCounts,
    episode_trials,
    error_text,
)

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
    """The trials in `path`, and the issues. `run` names data without a name; the files of a folder
    are separate runs, unless the folder is a single run."""
    files = [path] if path.is_file() else _files(path)
    if not files:
        yield ImportIssue(path, None, "", "has no results.jsonl, traces.jsonl or rollouts")
    counted = RolloutCounts()
    for file in files:
        single = path in (file, file.parent)
        name = run if single else f"{run}/{file.parent.relative_to(path).as_posix()}"
        reader = _Reader(name, file, counted)
        yield from reader.about.problems
        yield from take(records(file), reader.trials_of)


def _files(folder: Path) -> list[Path]:
    found = {file for name in FILES for file in folder.rglob(name) if file.is_file()}
    copies = {file.parent.parent for file in found if file.parent.name == "all"}
    return sorted(f for f in found if f.parent.name != "effective" or f.parent.parent not in copies)


class _Reader:
    def __init__(self, run: str, file: Path, counted: RolloutCounts) -> None:
        self.run, self.stem, self.counted = run, file.stem, counted
        metadata = file.with_name("metadata.json")
        self.about = readable(metadata) if metadata.is_file() else Fields(metadata, None, {})
        threshold = self.about.number("pass_threshold")
        self.pass_threshold = PASS_THRESHOLD if threshold is None else threshold

    def trials_of(self, fields: Fields) -> Iterable[ImportedItem]:
        if "traces" in fields or "nodes" in fields:
            return episode_trials(fields, self.run, self.counted)
        return [self._rollout(fields)]

    def _rollout(self, fields: Fields) -> ImportedAttempt:
        name = "example_id" if "example_id" in fields else "id"
        task_id = fields.needed("example_id", fields.identity(name))
        cell = self._cell(fields)
        trial = ImportedAttempt(cell, task_id, self.counted.trial(cell, task_id))
        trial.file, trial.line = fields.file, fields.line
        replies = message_rows(fields, "completion")
        if isinstance(fields.data.get("completion"), str):
            replies[0]["role"] = "assistant"
        trial.calls = _calls(fields, replies)
        link_calls(replies, trial.calls)
        trial.messages = message_rows(fields, "prompt") + replies
        trial.tool_runs = tool_runs(trial.messages, trial.calls)
        trial.outcome = _outcome(fields) | compact(answer=last_reply(replies))
        reward = fields.number("reward")
        if trial.outcome["status"] != "infra_error" and reward is not None:
            answer = trial.outcome.get("answer")
            detail = detail_text(expected=fields.get("answer"), info=fields.get("info"))
            correct = reward >= self.pass_threshold
            trial.score("reward", reward, correct, answer=answer, detail=detail)
            trial.scores += fields.inner("metrics").score_rows()
        return trial

    def _cell(self, fields: Fields) -> Cell:
        about = self.about.data
        steps = (step.get("response.model") for step in fields.each("trajectory"))
        models = [about.get("model"), fields.get("model"), *steps]
        names = [about.get("env_id"), fields.get("env_name"), fields.get("task")]
        return Cell(
            run=self.run if self.stem in ("results", "traces") else f"{self.run}/{self.stem}",
            benchmark=next((n for n in names if isinstance(n, str) and n), self.run),
            model=next((n for n in models if isinstance(n, str) and n), "unknown"),
            detail=self.about.picked(SETTINGS),
        )


def _outcome(fields: Fields) -> Row:
    stop, error = fields.text("stop_condition"), fields.get("error")
    if error is not None and not isinstance(error, str):  # of later versions
        error = error_text(fields.text("error.error"), fields.text("error.message"))
    started = fields.epoch("timing.start_time") or fields.epoch("timing.generation.start")
    ended = fields.epoch("timing.scoring.end") or fields.epoch("timing.generation.end")
    working = fields.amount("timing.generation.duration")
    old = "timing.generation_ms" if "timing.generation_ms" in fields else "generation_ms"
    if (milliseconds := fields.amount(old)) is not None:
        working = milliseconds / 1000
        ended = ended or (started and started + timedelta(seconds=min(working, 1e9)))
    if error is not None:
        status = "limit" if error.startswith(CONTEXT_ERROR) else "infra_error"
    elif fields.flag("is_truncated") or stop in LIMITS:
        status = "limit"
    else:
        status = "cancelled" if fields.flag("is_completed") is False else "ok"
    return foreign_error(error) | compact(
        status=status,
        stop_reason=stop,
        started_at=started,
        ended_at=ended,
        working_s=working,
        prompt_tokens=fields.count("token_usage.input_tokens"),
        completion_tokens=fields.count("token_usage.output_tokens"),
    )


def _calls(fields: Fields, replies: list[Row]) -> list[Row]:
    """One call per step of the trajectory; without one, per message of the assistant."""
    steps = list(fields.each("trajectory"))
    calls: list[Row] = []
    for step in steps:
        add_call(
            calls,
            **step.inner("tokens").sampled("completion_ids", "completion_logprobs"),
            model=step.text("response.model"),
            prompt_tokens=step.count("response.usage.prompt_tokens"),
            completion_tokens=step.count("response.usage.completion_tokens"),
            finish_reason=step.text("response.message.finish_reason"),
            params=params(step.get("extras.sampling_args")),
        )
    for row in () if steps else replies:
        if row["role"] == "assistant":
            add_call(calls)
    spans = list(fields.each("timing.model.spans"))
    for call, span in zip(calls, spans, strict=True) if len(spans) == len(calls) else ():
        sent, ended = span.epoch("start"), span.epoch("end")
        latency_s = span.amount("duration")
        call |= compact(sent_at=sent, admitted_at=sent, ended_at=ended, latency_s=latency_s)
    return calls
