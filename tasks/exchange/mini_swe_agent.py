"""Import of mini-swe-agent's trajectories (``*.traj.json``, its formats 1 and 1.1).

In: a file, or a folder of them such as ``mini-extra swebench -o FOLDER`` leaves. Out: an
`ImportedAttempt` for each file. The task is its `instance_id`, or else the file's name, and the
submission is the answer. It has no score: `tutti import swe-bench REPORT --onto SWEEP` adds
SWE-bench's verdicts. Each output folder below the given one is a run of its own.

A reply of the model is a call where the file has the response with its usage. A reply that the
agent refused (FormatError) is in no later prompt, and the file keeps it with the message that
refused it: here it is an assistant's message before that one, which the prompts of later calls
leave out. The closing entry of role `exit` (format 1: the last user's message) is no message.
Commands that "were not executed" are no tool runs.

A file is written after each step. One without an exit status is an infra_error, so that a later
import takes the finished file as the next attempt at its task.
Source: ``agents/default.py`` and ``run/utils/save.py`` of mini-swe-agent 2.4.6 and 1.17.5.
"""

import re
from collections.abc import Iterable, Iterator
from datetime import datetime
from functools import partial
from pathlib import Path

from tutti.storage import spans_of
from tutti.tasks.exchange.chat import message_row, params
from tutti.tasks.exchange.fields import Fields, compact, document, take
from tutti.tasks.exchange.imported import (
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
"""What is kept of the model's settings: the rest may hold keys and addresses."""
NOT_EXECUTED = "action was not executed"  # the agent's word for a command without an output


def read(path: Path, run: str) -> Iterator[ImportedItem]:
    """The trajectories at `path`, and the issues; `run` names the run."""
    files = sorted(path.rglob(f"*{SUFFIX}")) if path.is_dir() else [path]
    if not files:
        yield ImportIssue(path, None, "", f"there is no *{SUFFIX} in this folder")
    for file in files:
        yield from take([document(file)], partial(_attempt, run=_run_of(file, path, run)))


def _run_of(file: Path, given: Path, run: str) -> str:
    """The run's name: with the output folder, if that is below the given one."""
    own = file.parent.name == _stem(file)  # a folder for each instance
    folder = file.parent.parent if own else file.parent
    below = folder.is_relative_to(given) and folder != given
    return f"{run}/{folder.relative_to(given).as_posix()}" if below else run


def _stem(file: Path) -> str:
    return file.name.removesuffix(SUFFIX).removesuffix(".json")


def _attempt(found: Fields, run: str) -> list[ImportedItem]:
    version = found.needed("trajectory_format", found.identity("trajectory_format"))
    if not FORMAT.fullmatch(version):
        found.refuse("trajectory_format", f"{shown(version)} is not mini-swe-agent-1 or 1.x")
    if "info" not in found:
        found.refuse("info", "is missing")
    if "messages" not in found or not isinstance(found.data["messages"], list):
        found.refuse("messages", f"{shown(found.data.get('messages'))} is not a list of messages")
    info = found.inner("info")
    instance = found.identity("instance_id")
    cell = _cell(info, run, instance)
    history = _History(cell.model, _params(info))
    members = list(found.each("messages", "a message"))
    for message in members:
        history.add(message, last=message is members[-1])
    trial = ImportedAttempt(cell, instance or _stem(found.file), file=found.file)
    trial.messages, trial.calls, trial.tool_runs = history.messages, history.calls, history.runs
    if version == "mini-swe-agent-1" and info.text("exit_status"):
        _leave_out_closing(trial, info.text("submission"))
    trial.outcome = _outcome(info, history)
    return [trial]


def _cell(info: Fields, run: str, instance: str | None) -> Cell:
    config = info.inner("config")
    agent = config.inner("agent")
    detail = {name: agent.data[name] for name in SETTINGS if name in agent}
    detail |= compact(
        mini_version=info.text("mini_version"),
        agent=config.text("agent_type"),
        environment=config.text("environment_type"),
    )
    graded = instance is not None and INSTANCE.fullmatch(instance) is not None
    benchmark = "swe-bench" if graded else "mini-swe-agent"
    model = config.inner("model").identity("model_name")
    return Cell(run, benchmark, model or "unknown", detail=detail)


def _params(info: Fields) -> str | None:
    given = info.inner("config").inner("model").inner("model_kwargs").data
    return params({name: given[name] for name in SAMPLING if name in given})


def _outcome(info: Fields, history: "_History") -> Row:
    ended = info.text("exit_status")
    if not ended:
        info.problem("exit_status", "is empty: the run had not ended when this was written")
    status = STATUS.get(ended or "", "infra_error")
    submission = info.text("submission")
    failed = status == "infra_error" and ended
    why = info.text("exception_str") or history.failure
    stats = info.inner("model_stats")
    # The agent stops at a price of 0 unless it is told to ignore it: 0 is a cost not known.
    row = compact(cost_usd=stats.amount("instance_cost") or None, calls=stats.count("api_calls"))
    if history.calls or not row.get("calls"):
        row.pop("calls", None)  # counted from the calls themselves
    row |= {"status": status, "stop_reason": ended or "unfinished"} | history.times()
    if status == "infra_error":
        # Format 1 keeps an exception's text as the submission.
        return row | (compact(error_type=ended, error_message=why or submission) if failed else {})
    return row | compact(answer=submission or None)


def _leave_out_closing(trial: ImportedAttempt, submission: str | None) -> None:
    """Drop the last message of format 1 if it is the submission, which the model never saw."""
    last = trial.messages[-1] if trial.messages else {}
    if last.get("role") == "user" and last.get("content") == (submission or ""):
        trial.messages.pop()


class _History:
    def __init__(self, model: str, sampling: str | None) -> None:
        self.model, self.sampling = model, sampling
        self.messages: list[Row] = []
        self.calls: list[Row] = []
        self.runs: list[Row] = []
        self.failure: str | None = None
        """The text of the exception that ended the run."""
        self._prompt: list[int] = []
        self._commands: list[Fields] = []
        self._first: datetime | None = None
        self._latest: datetime | None = None

    def add(self, message: Fields, last: bool) -> None:
        """Take the next entry of the trajectory."""
        extra = message.inner("extra")
        at = extra.epoch("timestamp") or message.epoch("timestamp")
        if not self.messages:
            self._first = at
        self._latest = max(filter(None, (self._latest, at)), default=None)
        if message.data.get("role") == "exit":
            self.failure = extra.text("exception_str")
            if not last:
                message.problem("role", "an entry of role exit that is not the last is left out")
        elif message.data.get("object") == "response":
            self._reply(_response_row(message), message, extra, at)
        elif message.data.get("role") == "assistant":
            self._reply(message_row(message), _response(extra), extra, at)
        else:
            self._input(message, extra, at)

    def times(self) -> Row:
        """Start and end, where the file has them; format 1.1 has no time of the start."""
        row = compact(started_at=self._first, ended_at=self._latest)
        if self._first and self._latest:
            row["working_s"] = (self._latest - self._first).total_seconds()
        return row

    def _reply(self, row: Row, response: Fields | None, extra: Fields, at: datetime | None) -> None:
        if response is not None:
            row["call_id"] = self._call(response, extra, at)
        self._commands = list(extra.each("actions"))
        self._keep(row)

    def _input(self, message: Fields, extra: Fields, at: datetime | None) -> None:
        """What the model is told: the task, an output, or why its reply was refused."""
        if (response := _response(extra)) is not None:
            call_id = self._call(response, extra, at)
            if (refused := _refused_row(response)) is not None:
                self.messages.append(refused | {"call_id": call_id})
        row = message_row(message)
        self._keep(row)
        if "returncode" in extra:
            self._ran(row, extra, at)

    def _keep(self, row: Row) -> None:
        self._prompt.append(len(self.messages))
        self.messages.append(row)

    def _call(self, response: Fields, extra: Fields, at: datetime | None) -> str:
        usage = response.inner("usage")
        cached = [usage.inner(f"{kind}_tokens_details") for kind in ("prompt", "input")]
        choice = next(response.each("choices"), None)
        number = len(self.calls) + 1
        row: Row = {"call_id": str(number), "role": "orchestrator", "step": number, "status": "ok"}
        finish = choice.text("finish_reason") if choice else response.text("status")
        self.calls.append(
            row
            | compact(
                model=response.identity("model") or self.model,
                ended_at=at,
                prompt_tokens=_first(map(usage.count, ("prompt_tokens", "input_tokens"))),
                cached_tokens=_first(each.count("cached_tokens") for each in cached),
                completion_tokens=_first(map(usage.count, ("completion_tokens", "output_tokens"))),
                finish_reason=finish,
                cost_usd=extra.amount("cost") or None,
                params=self.sampling,
                prompt_spans=spans_of(self._prompt) or None,
            )
        )
        return str(number)

    def _ran(self, row: Row, extra: Fields, at: datetime | None) -> None:
        """The run of the command whose output a message is."""
        command = self._commands.pop(0) if self._commands else None
        failure = extra.text("exception_info")
        if failure == NOT_EXECUTED:
            return
        run: Row = {"step": max(len(self.calls), 1), "name": "bash", "result": row["content"]}
        kind = extra.text("exception_type") if failure else None
        late = kind in ("TimeoutExpired", "TimeoutError")
        run["status"] = "timeout" if late else "error" if failure else "ok"
        if command is not None:
            run["arguments"] = json_text({"command": command.data.get("command")})
        self.runs.append(run | compact(ended_at=at, error_type=kind))


def _first(values: Iterable[int | None]) -> int | None:
    return next((value for value in values if value is not None), None)


def _response(extra: Fields) -> Fields | None:
    """The response in a message; a reply that could not be kept as JSON is there as text."""
    value = extra.data.get("response")
    if isinstance(value, str):
        return Fields(extra.file, extra.line, {}, extra.problems, extra.where("response"))
    return extra.inner("response") if value is not None else None


def _response_row(response: Fields) -> Row:
    """A reply of the responses API, whose parts are items, as one message."""
    rows = [message_row(item) for item in response.each("output")]
    texts = {
        name: [row[name] for row in rows if row.get(name)] for name in ("content", "reasoning")
    }
    calls = [call for row in rows for call in row.get("tool_calls") or ()]
    whole: Row = {"role": "assistant", "content": "\n".join(texts["content"]) or None}
    return whole | compact(
        reasoning="\n".join(texts["reasoning"]) or None, tool_calls=calls or None
    )


def _refused_row(response: Fields) -> Row | None:
    """The message in a response that the agent refused; None if the response has none."""
    if response.data.get("object") == "response":
        return _response_row(response)
    choice = next(response.each("choices"), None)
    message = choice.inner("message") if choice else None
    if message is None or "role" not in message:
        return None
    return message_row(message)
