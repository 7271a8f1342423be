"""Take results of tau2-bench.

In: a results file (all simulations in it), or a run's folder: ``results.json`` with a file for
each simulation in ``simulations/``. The run is the file's timestamp, the benchmark
``tau2-<domain>``, the model the agent's.

The agent's messages are calls of the orchestrator, the simulated user's of the user; both may use
tools, and every result is a tool run. The agent's greeting is fixed text and no call. Tokens of an
attempt are the agent's; its cost is the agent's and the user's. The reward is the score and each
part of it has a score of its own. A simulation that the user's simulator or the machinery broke off
is an infra_error without a score; tau2 writes reward 0 there. Its times have no zone and are taken
as UTC.

Full-duplex (voice) simulations keep ticks in place of messages: their outcome and scores are taken,
their ticks are named.
"""

from collections import Counter
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

from tutti.storage import Cost
from tutti.tasks.exchange.chat import message_row, params, tool_runs
from tutti.tasks.exchange.fields import INTEGER, Fields, compact, detail_text, document, take
from tutti.tasks.exchange.imported import (
    Cell,
    ImportedAttempt,
    ImportedItem,
    ImportIssue,
    Row,
    shown,
)

RESULTS = "results.json"
SIMULATIONS = "simulations"
STATUS = {
    "user_stop": "ok",
    "agent_stop": "ok",
    "max_steps": "limit",
    "timeout": "limit",
    "context_window_exceeded": "limit",
    "too_many_errors": "model_error",
    "agent_error": "model_error",
    "user_error": "infra_error",
    "infrastructure_error": "infra_error",
    "unexpected_error": "infra_error",
}
"""Maps why a simulation ended to our status. A failing user simulator is not the model's fault."""
SETTINGS = ("git_commit", "num_trials", "max_steps", "max_errors", "seed", "retrieval_config")
CALLERS = {"assistant": "orchestrator", "user": "user"}
LONGEST_S = 1e9  # of a call; longer is not a duration, and dates end
WON = 1.0 - 1e-6  # tau2's own threshold of success
CHECKS = (
    ("action_checks", "action_check", "action_reward", "action_match"),
    ("env_assertions", "env_assertion", "reward", "met"),
    ("nl_assertions", "nl_assertion", "", "met"),
    ("communicate_checks", "communicate_check", "", "met"),
)
"""Lists of checks: their name, the scorer's, the fields of its value and of what it found."""


def read(path: Path, run: str) -> Iterator[ImportedItem]:
    """The trials in `path`, and the issues. `run` names results without a time."""
    file = path / RESULTS if path.is_dir() else path
    found = document(file)
    if isinstance(found, ImportIssue):
        yield found
        return
    if "info" not in found:
        yield ImportIssue(file, None, "info", "is missing: this is not a results file of tau2")
        return
    results = _RunSettings(found, run)
    yield from found.problems
    found.problems.clear()
    yield from take(_simulations(found), results.trials_of)
    if not found.data.get(SIMULATIONS):
        folder = file.parent / SIMULATIONS
        files = sorted(folder.glob("*.json")) if folder.is_dir() else []
        if not files:
            yield ImportIssue(file, None, SIMULATIONS, f"are neither here nor in {folder}")
        yield from take(map(document, files), results.trials_of)
        yield from _missing(found, {one.stem for one in files})


def _simulations(found: Fields) -> Iterator[Fields | ImportIssue]:
    """The simulations in the file, each with problems of its own."""
    members = found.array(SIMULATIONS)
    yield from found.problems
    for place, member in enumerate(members):
        where = f"{SIMULATIONS}.{place}"
        if isinstance(member, dict):
            yield Fields(found.file, None, member, [], where)
        else:
            yield ImportIssue(found.file, None, where, f"{shown(member)} is not a simulation")


def _missing(found: Fields, names: set[str]) -> Iterator[ImportIssue]:
    """Simulations that are in the index but not in the folder."""
    for entry in found.each("simulation_index"):
        if (name := entry.identity("id")) and name not in names:
            entry.problem("id", f"there is no {SIMULATIONS}/{name}.json")
    yield from found.problems


class _RunSettings:
    def __init__(self, found: Fields, run: str) -> None:
        info = found.inner("info")
        agent, user = info.inner("agent_info"), info.inner("user_info")
        domain = info.inner("environment_info").identity("domain_name") or "unknown"
        self.models = {"assistant": _model(info), "user": user.identity("llm")}
        self.params = {"assistant": _params(agent), "user": _params(user)}
        detail = {name: info.data[name] for name in SETTINGS if name in info}
        detail |= compact(agent=agent.text("implementation"), user=user.text("implementation"))
        detail |= compact(user_model=self.models["user"], times="without a zone, taken as UTC")
        self.cell = Cell(
            run=found.identity("timestamp") or run,
            benchmark=f"tau2-{domain}",
            model=self.models["assistant"] or "unknown",
            detail=detail,
        )
        self.seen: Counter[str] = Counter()
        self.taken: set[tuple[str, int]] = set()

    def trials_of(self, fields: Fields) -> list[ImportedItem]:
        task_id = fields.needed("task_id", fields.identity("task_id"))
        number = self._number(fields, task_id)
        trial = ImportedAttempt(self.cell, task_id, number, file=fields.file, line=fields.line)
        trial.outcome = _outcome(fields)
        if "ticks" in fields and "messages" not in fields:
            fields.problem("ticks", "messages of full-duplex simulations are not taken")
        self._take_messages(fields, trial)
        if trial.outcome["status"] != "infra_error":
            _score(fields, trial)
        return [trial]

    def _number(self, fields: Fields, task_id: str) -> int:
        given = fields.count("trial")
        if given is None and "trial" in fields:
            fields.needed("trial", given)
        number = self.seen[task_id] if given is None else given
        self.seen[task_id] += 1
        if (task_id, number) in self.taken:
            fields.refuse("trial", f"task {task_id} trial {number} came before")
        self.taken.add((task_id, number))
        return number

    def _take_messages(self, fields: Fields, trial: ImportedAttempt) -> None:
        said = list(_messages(fields))
        for place, message in enumerate(said):
            row = message_row(message)
            if row["role"] == "tool":
                row |= compact(tool_call_id=message.text("id") or None)
            elif row["role"] in CALLERS and (place or "usage" in message):
                trial.calls.append(self._call(message, row["role"], trial.calls))
                row["call_id"] = trial.calls[-1]["call_id"]
            trial.messages.append(row)
        trial.tool_runs = tool_runs(trial.messages, trial.calls)
        tools = [message for message in said if message.data.get("role") == "tool"]
        for run, message in zip(trial.tool_runs, tools, strict=True):
            failed = message.flag("error")
            run |= compact(ended_at=message.time("timestamp"))
            run["status"] = "error" if failed else "ok"

    def _call(self, message: Fields, role: str, calls: list[Row]) -> Row:
        """The call that made a message; the user's calls belong to the agent's step before."""
        step = calls[-1]["step"] if calls else 0
        row: Row = {"call_id": f"call-{len(calls) + 1}", "role": CALLERS[role], "status": "ok"}
        row["step"] = step + 1 if role == "assistant" else step
        usage, raw = message.inner("usage"), message.inner("raw_data")
        details = raw.inner("usage").inner("prompt_tokens_details")
        choice = next(raw.each("choices"), None)
        ended, latency = message.time("timestamp"), message.amount("generation_time_seconds")
        known = ended is not None and latency is not None and latency < LONGEST_S
        sent = ended - timedelta(seconds=latency or 0.0) if ended and known else None
        return row | compact(
            model=raw.text("model") or self.models[role],
            sent_at=sent,
            admitted_at=sent,
            ended_at=ended,
            latency_s=latency,
            prompt_tokens=usage.count("prompt_tokens"),
            cached_tokens=details.count("cached_tokens"),
            completion_tokens=usage.count("completion_tokens"),
            finish_reason=choice.text("finish_reason") if choice else None,
            cost_usd=message.amount("cost"),
            params=self.params[role],
        )


def _model(info: Fields) -> str | None:
    return info.inner("agent_info").identity("llm") or info.inner("audio_native_config").identity(
        "model"
    )


def _params(participant: Fields) -> str | None:
    return params(participant.inner("llm_args").data)


def _messages(fields: Fields) -> Iterator[Fields]:
    """The messages in order; one with several tools' results is split."""
    for message in fields.each("messages", "a message"):
        if "tool_messages" in message:
            yield from message.each("tool_messages")
        else:
            yield message


def _outcome(fields: Fields) -> Row:
    reason = fields.text("termination_reason")
    status = STATUS.get(reason or "")
    if status is None:
        fields.problem("termination_reason", f"{shown(reason)} is none that is known")
        status = "ok" if "reward_info" in fields else "infra_error"
    costs = [fields.amount("agent_cost"), fields.amount("user_cost")]
    info = fields.inner("info")
    return {"status": status} | compact(
        stop_reason=reason,
        error_type=info.text("error_type"),
        error_message=info.text("error"),
        started_at=fields.time("start_time"),
        ended_at=fields.time("end_time"),
        working_s=fields.amount("duration"),
        cost_usd=Cost.of(costs).usd,
    )


def _score(fields: Fields, trial: ImportedAttempt) -> None:
    info = fields.inner("reward_info")
    reward = info.number("reward")
    if reward is not None:
        told = detail_text(
            reward_basis=info.data.get("reward_basis"), seed=fields.read("seed", INTEGER)
        )
        trial.score("reward", reward, reward >= WON, detail=told)
    trial.scores += info.inner("reward_breakdown").score_rows("reward/")
    if "db_check" in info:
        trial.scores.append(_check(info.inner("db_check"), "db_check", "db_reward", "db_match"))
    for name, scorer, value_name, found in CHECKS:
        for place, check in enumerate(info.each(name)):
            trial.scores.append(_check(check, f"{scorer}/{place}", value_name, found))


def _check(check: Fields, scorer: str, value: str, found: str) -> Row:
    """One part of the reward; one without a number is 1 if it was met."""
    met = check.flag(found)
    number = check.number(value) if value else None
    number = float(met) if number is None and met is not None else number
    rest = {name: inner for name, inner in check.data.items() if name not in (value, found)}
    return {"scorer": scorer} | compact(value=number, correct=met, detail=detail_text(**rest))
