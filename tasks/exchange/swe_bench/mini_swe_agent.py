"""Import of mini-swe-agent's trajectories (``*.traj.json``, its formats 1 and 1.1).

In: a file, or a folder of them. Out: an `ImportedAttempt` for each; the submission is the answer,
and `tutti import swe-bench REPORT --onto SWEEP` adds scores. Each output folder below the given one
is a run of its own.

A reply that the agent refused (FormatError) is in no later prompt: it is an assistant's message
before the refusing one. The closing entry of role `exit` (format 1: the last user's message) is not
a message. A file without an exit status is an infra_error, so that a later import reads the
finished file as the next attempt. Source: ``agents/default.py`` and ``run/utils/save.py`` of
mini-swe-agent 2.4.6 and 1.17.5.
"""

import re
from collections.abc import Iterator
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Any

from tutti.storage import spans_of
from tutti.tasks.exchange.base.chat import message_row, params
from tutti.tasks.exchange.base.fields import Fields, compact, document, seconds, take
from tutti.tasks.exchange.base.imported import (
    Cell,
    ImportedAttempt,
    ImportedItem,
    ImportIssue,
    Row,
    json_text,
    shown,
)
from tutti.tasks.exchange.swe_bench.write import INSTANCE

SUFFIX = ".traj.json"
FORMAT = re.compile(r"mini-swe-agent-1(\.\d+)?")
STATUS = {
    "Submitted": "ok",
    "LimitsExceeded": "limit",
    "TimeExceeded": "limit",
    "ContextWindowExceededError": "limit",
    "RepeatedFormatError": "model_error",
}
"""Maps how a run ended to our status; any other exception is an infrastructure error."""
SETTINGS = ("step_limit", "cost_limit", "wall_time_limit_seconds")
SAMPLING = (
    *("temperature", "top_p", "top_k", "max_tokens", "max_completion_tokens", "seed"),
    *("reasoning_effort", "stop"),
)
"""The stored part of the model's settings: the rest may hold keys and addresses."""
NOT_EXECUTED = "action was not executed"  # the agent's word for a command without an output


def read(path: Path, run: str) -> Iterator[ImportedItem]:
    """The trajectories at `path`, and the issues; `run` names the run."""
    files = sorted(path.rglob(f"*{SUFFIX}")) if path.is_dir() else [path]
    if not files:
        yield ImportIssue(path, None, "", f"there is no *{SUFFIX} in this folder")
    for file in files:
        stem = file.name.removesuffix(SUFFIX).removesuffix(".json")
        # Some runs have a folder for each instance.
        folder = file.parent.parent if file.parent.name == stem else file.parent
        below = folder.is_relative_to(path) and folder != path
        name = f"{run}/{folder.relative_to(path).as_posix()}" if below else run
        yield from take([document(file)], partial(_attempt, run=name, stem=stem))


def _attempt(trajectory: Fields, run: str, stem: str) -> list[ImportedItem]:
    version = trajectory.needed("trajectory_format", trajectory.identity("trajectory_format"))
    if not FORMAT.fullmatch(version):
        trajectory.refuse("trajectory_format", f"{shown(version)} is not mini-swe-agent-1 or 1.x")
    trajectory.needed("info", trajectory.get("info"))
    if not isinstance(entries := trajectory.get("messages"), list):
        trajectory.refuse("messages", f"{shown(entries)} is not a list of messages")
    info, instance = trajectory.inner("info"), trajectory.identity("instance_id")
    is_graded = instance is not None and INSTANCE.fullmatch(instance) is not None
    cell = Cell(
        run,
        "swe-bench" if is_graded else "mini-swe-agent",
        info.identity("config.model.model_name") or "unknown",
        detail=info.inner("config.agent").picked(SETTINGS)
        | compact(
            mini_version=info.text("mini_version"),
            agent=info.text("config.agent_type"),
            environment=info.text("config.environment_type"),
        ),
    )
    sampling = params(info.inner("config.model.model_kwargs").picked(SAMPLING))
    trial = ImportedAttempt(cell, instance or stem, file=trajectory.file)
    history = _History(trial, sampling)
    for place, message in enumerate(trajectory.each("messages", "a message"), 1):
        history.add(message, last=place == len(entries))
    submission, exit_status = info.text("submission"), info.text("exit_status")
    closing = {"role": "user", "content": submission or ""}
    if version == "mini-swe-agent-1" and exit_status and closing in trial.messages[-1:]:
        trial.messages.pop()  # the submission, which the model never saw
    trial.outcome = _outcome(info, exit_status, submission, history)
    return [trial]


def _outcome(
    info: Fields, exit_status: str | None, submission: str | None, history: "_History"
) -> Row:
    if not exit_status:
        info.problem("exit_status", "is empty: the run had not ended when this was written")
    status = STATUS.get(exit_status or "", "infra_error")
    is_error = status == "infra_error"
    calls = info.count("model_stats.api_calls") or None
    # Format 1 has an exception's text as the submission.
    why = info.text("exception_str") or history.failure or submission
    return compact(
        status=status,
        stop_reason=exit_status or "unfinished",
        started_at=history.first,  # format 1.1 has no start time
        ended_at=history.latest,
        working_s=seconds(history.first, history.latest),
        # The agent stops at a price of 0 unless it is told to ignore it: 0 is a cost not known.
        cost_usd=info.amount("model_stats.instance_cost") or None,
        calls=None if history.trial.calls else calls,  # else counted from the calls themselves
        error_type=exit_status or None if is_error else None,
        error_message=why if is_error and exit_status else None,
        answer=None if is_error else submission or None,
    )


class _History:
    """The messages, calls and tool runs of a trajectory, which are added to `trial`."""

    def __init__(self, trial: ImportedAttempt, sampling: str | None) -> None:
        self.trial, self.sampling = trial, sampling
        self.failure: str | None = None
        """The text of the exception that ended the run."""
        self._prompt: list[int] = []
        self._commands: list[Fields] = []
        self.first: datetime | None = None
        self.latest: datetime | None = None

    def add(self, message: Fields, last: bool) -> None:
        extra = message.inner("extra")
        at = extra.epoch("timestamp") or message.epoch("timestamp")
        if not self.trial.messages:
            self.first = at
        self.latest = max(filter(None, (self.latest, at)), default=None)
        if message.get("role") == "exit":
            self.failure = extra.text("exception_str")
            if not last:
                message.problem("role", "an entry of role exit that is not the last is left out")
            return
        is_response = message.get("object") == "response"
        is_reply = is_response or message.get("role") == "assistant"
        response = message if is_response else None
        if response is None and "response" in extra:  # one that could not be stored as JSON is text
            is_text = isinstance(extra.get("response"), str)
            response = extra.part("response", {}) if is_text else extra.inner("response")
        call_id = None if response is None else self._call(response, extra, at)
        refused = None if is_reply or response is None else _reply_in(response)
        if refused is not None:  # the message says why the agent refused this reply
            self.trial.messages.append(refused | compact(call_id=call_id))
        row = _response_row(message) if is_response else message_row(message)
        if is_reply:
            row |= compact(call_id=call_id)
            self._commands = list(extra.each("actions"))
        self._prompt.append(len(self.trial.messages))
        self.trial.messages.append(row)
        if not is_reply and "returncode" in extra:
            self._add_run(row, extra, at)

    def _call(self, response: Fields, extra: Fields, at: datetime | None) -> str:
        # The chat API has prompts and completions, the responses API inputs and outputs.
        prompts = "prompt" if "usage.prompt_tokens" in response else "input"
        answers = "completion" if "usage.completion_tokens" in response else "output"
        choice = next(response.each("choices"), None)
        number = len(self.trial.calls) + 1
        row = compact(
            call_id=str(number),
            role="orchestrator",
            step=number,
            status="ok",
            model=response.identity("model") or self.trial.cell.model,
            ended_at=at,
            prompt_tokens=response.count(f"usage.{prompts}_tokens"),
            cached_tokens=response.count(f"usage.{prompts}_tokens_details.cached_tokens"),
            completion_tokens=response.count(f"usage.{answers}_tokens"),
            finish_reason=choice.text("finish_reason") if choice else response.text("status"),
            cost_usd=extra.amount("cost") or None,
            params=self.sampling,
            prompt_spans=spans_of(self._prompt) or None,
        )
        self.trial.calls.append(row)
        return str(number)

    def _add_run(self, row: Row, extra: Fields, at: datetime | None) -> None:
        command = self._commands.pop(0) if self._commands else None
        failure = extra.text("exception_info")
        if failure == NOT_EXECUTED:
            return
        kind = extra.text("exception_type") if failure else None
        late = kind in ("TimeoutExpired", "TimeoutError")
        arguments: Any = None if command is None else {"command": command.get("command")}
        run = compact(
            step=max(len(self.trial.calls), 1),
            name="bash",
            status="timeout" if late else "error" if failure else "ok",
            arguments=json_text(arguments) if arguments else None,
            ended_at=at,
            error_type=kind,
        )
        self.trial.tool_runs.append({"result": row["content"]} | run)


def _response_row(response: Fields) -> Row:
    """Return a reply of the responses API, whose parts are items, as one message."""
    rows = [message_row(item) for item in response.each("output")]

    def joined(name: str) -> str | None:
        return "\n".join(row[name] for row in rows if row.get(name)) or None

    calls = [call for row in rows for call in row.get("tool_calls") or ()]
    whole: Row = {"role": "assistant", "content": joined("content")}
    return whole | compact(reasoning=joined("reasoning"), tool_calls=calls or None)


def _reply_in(response: Fields) -> Row | None:
    """Return the message in a response that the agent refused; None if the response has none."""
    if response.get("object") == "response":
        return _response_row(response)
    message = next((choice.inner("message") for choice in response.each("choices")), None)
    return None if message is None or "role" not in message else message_row(message)
