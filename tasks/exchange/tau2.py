"""Import of tau2-bench's results.

In: a results file, or a run's folder: ``results.json`` with a file for each simulation in
``simulations/``. Out: one trial each. The agent's messages are calls of the orchestrator, the
simulated user's of the user; the agent's greeting is fixed text and not a call. Tokens are the
agent's; the cost is the agent's and the user's. Each part of the reward has a score of its own. A
simulation that the user's simulator or the infrastructure aborted is an infra_error; tau2 writes
reward 0 there. Times have no zone and are read as UTC. The ticks of voice simulations are ignored.
"""

from collections import Counter
from collections.abc import Iterator
from datetime import timedelta
from itertools import chain
from pathlib import Path

from tutti.storage import Cost
from tutti.tasks.exchange.base.chat import message_row, params, tool_runs
from tutti.tasks.exchange.base.fields import INTEGER, Fields, compact, detail_text, document, take
from tutti.tasks.exchange.base.imported import (
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
"""Lists of checks: their name, the scorer's, and the fields of its value and of its result."""


def read(path: Path, run: str) -> Iterator[ImportedItem]:
    """The trials in `path`, and the issues. `run` names results without a time."""
    file = path / RESULTS if path.is_dir() else path
    results = document(file)
    if isinstance(results, ImportIssue):
        yield results
        return
    if "info" not in results:
        yield ImportIssue(file, None, "info", "is missing: this is not a results file of tau2")
        return
    reader = _Reader(results, run)
    for simulation in results.each(SIMULATIONS):  # each with issues of its own
        own = Fields(file, None, simulation.data, [], simulation.path)
        yield from take([own], reader.trials_of)
    if not results.data.get(SIMULATIONS):
        folder = file.parent / SIMULATIONS
        files = sorted(folder.glob("*.json")) if folder.is_dir() else []
        if not files:
            results.problem(SIMULATIONS, f"are neither here nor in {folder}")
        yield from take(map(document, files), reader.trials_of)
        known = {one.stem for one in files}
        for entry in results.each("simulation_index"):
            if (name := entry.identity("id")) and name not in known:
                entry.problem("id", f"there is no {SIMULATIONS}/{name}.json")
    yield from results.problems


class _Reader:
    def __init__(self, results: Fields, run: str) -> None:
        info = results.inner("info")
        voice = info.identity("audio_native_config.model")
        self.models = {
            "assistant": info.identity("agent_info.llm") or voice,
            "user": info.identity("user_info.llm"),
        }
        self.params = {
            "assistant": params(info.inner("agent_info.llm_args").data),
            "user": params(info.inner("user_info.llm_args").data),
        }
        detail = info.picked(SETTINGS) | compact(
            agent=info.text("agent_info.implementation"),
            user=info.text("user_info.implementation"),
            user_model=self.models["user"],
            times="without a zone, taken as UTC",
        )
        self.cell = Cell(
            run=results.identity("timestamp") or run,
            benchmark=f"tau2-{info.identity('environment_info.domain_name') or 'unknown'}",
            model=self.models["assistant"] or "unknown",
            detail=detail,
        )
        self.seen: Counter[str] = Counter()
        self.taken: set[tuple[str, int]] = set()

    def trials_of(self, fields: Fields) -> list[ImportedItem]:
        task_id = fields.needed("task_id", fields.identity("task_id"))
        number = self.seen[task_id]
        if "trial" in fields:
            number = fields.place("trial", number)
        self.seen[task_id] += 1
        if (task_id, number) in self.taken:
            fields.refuse("trial", f"task {task_id} trial {number} came before")
        self.taken.add((task_id, number))
        trial = ImportedAttempt(self.cell, task_id, number, file=fields.file, line=fields.line)
        trial.outcome = _outcome(fields)
        if "ticks" in fields and "messages" not in fields:
            fields.problem("ticks", "messages of full-duplex simulations are not taken")
        self._take_messages(fields, trial)
        if trial.outcome["status"] != "infra_error":
            _score(fields, trial)
        return [trial]

    def _take_messages(self, fields: Fields, trial: ImportedAttempt) -> None:
        results = []
        # A message with several tools' results is split.
        parts = (
            message.each("tool_messages") if "tool_messages" in message else [message]
            for message in fields.each("messages", "a message")
        )
        for place, message in enumerate(chain.from_iterable(parts)):
            row = message_row(message)
            if row["role"] == "tool":
                row |= compact(tool_call_id=message.text("id") or None)
                results.append(message)
            elif row["role"] in CALLERS and (place or "usage" in message):
                trial.calls.append(self._call(message, row["role"], trial.calls))
                row["call_id"] = trial.calls[-1]["call_id"]
            trial.messages.append(row)
        trial.tool_runs = tool_runs(trial.messages, trial.calls)
        for run, message in zip(trial.tool_runs, results, strict=True):
            run |= compact(ended_at=message.time("timestamp"))
            run["status"] = "error" if message.flag("error") else "ok"

    def _call(self, message: Fields, role: str, calls: list[Row]) -> Row:
        """The call that produced a message; the user's calls belong to the agent's step before."""
        step = calls[-1]["step"] if calls else 0
        raw = message.inner("raw_data")
        choice = next(raw.each("choices"), None)
        ended, latency = message.time("timestamp"), message.amount("generation_time_seconds")
        known = ended and latency is not None and latency < LONGEST_S
        sent = ended - timedelta(seconds=latency or 0.0) if ended and known else None
        return compact(
            call_id=f"call-{len(calls) + 1}",
            role=CALLERS[role],
            status="ok",
            step=step + 1 if role == "assistant" else step,
            model=raw.text("model") or self.models[role],
            sent_at=sent,
            admitted_at=sent,
            ended_at=ended,
            latency_s=latency,
            prompt_tokens=message.count("usage.prompt_tokens"),
            cached_tokens=raw.count("usage.prompt_tokens_details.cached_tokens"),
            completion_tokens=message.count("usage.completion_tokens"),
            finish_reason=choice.text("finish_reason") if choice else None,
            cost_usd=message.amount("cost"),
            params=self.params[role],
        )


def _outcome(fields: Fields) -> Row:
    reason = fields.text("termination_reason")
    status = STATUS.get(reason or "")
    if status is None:
        fields.problem("termination_reason", f"{shown(reason)} is none that is known")
        status = "ok" if "reward_info" in fields else "infra_error"
    return compact(
        status=status,
        stop_reason=reason,
        error_type=fields.text("info.error_type"),
        error_message=fields.text("info.error"),
        started_at=fields.time("start_time"),
        ended_at=fields.time("end_time"),
        working_s=fields.amount("duration"),
        cost_usd=Cost.of([fields.amount("agent_cost"), fields.amount("user_cost")]).usd,
    )


def _score(fields: Fields, trial: ImportedAttempt) -> None:
    info = fields.inner("reward_info")
    reward, seed = info.number("reward"), fields.read("seed", INTEGER)
    if reward is not None:
        detail = detail_text(reward_basis=info.get("reward_basis"), seed=seed)
        trial.score("reward", reward, reward >= WON, detail=detail)
    trial.scores += info.inner("reward_breakdown").score_rows("reward/")
    if "db_check" in info:
        trial.scores.append(_check(info.inner("db_check"), "db_check", "db_reward", "db_match"))
    for name, scorer, value, result in CHECKS:
        for place, check in enumerate(info.each(name)):
            trial.scores.append(_check(check, f"{scorer}/{place}", value, result))


def _check(check: Fields, scorer: str, value: str, result: str) -> Row:
    """Return one part of the reward; one without a number is 1 if it was met."""
    met = check.flag(result)
    number = check.number(value) if value else None
    number = float(met) if number is None and met is not None else number
    rest = {name: inner for name, inner in check.data.items() if name not in (value, result)}
    return compact(scorer=scorer, value=number, correct=met, detail=detail_text(**rest))
