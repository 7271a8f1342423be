"""Attempts in the store: entered in the catalog before their first call, written as rows when they
end.

Attempts that wait at the same time are entered in one transaction, because it costs a millisecond,
which hundreds of sessions would each pay.
"""

import asyncio
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import orjson
import sqlalchemy as sa

from tutti.storage import Catalog, ErrorType, Lease, artifact_id, check_lease, storable
from tutti.storage import catalog as cat
from tutti.tasks.agents import Trajectory
from tutti.tasks.agents.commands import CommandTrajectory
from tutti.tasks.agents.models import AUTO, OFF, separate
from tutti.tasks.scoring import Score, Submission
from tutti.tasks.sweeps.plan import Cell, Plan, Sample
from tutti.tasks.sweeps.run.failures import STOP_REASON
from tutti.tasks.sweeps.run.queue import DueSample

IDS_AT_ONCE = 500  # bound variables of one statement


@dataclass(frozen=True)
class RunningAttempt:
    sample: Sample
    number: int
    """1 for a sample's first attempt."""
    attempt_id: str
    due_at: datetime | None = None
    """When it was meant to start; None in a closed loop and for later attempts of a sample."""


Waiting = tuple[DueSample, "asyncio.Future[RunningAttempt]"]


class AttemptEntry:
    """Entry of the attempts of one cell in the catalog."""

    def __init__(self, cell: Cell, catalog: Catalog, run_id: str, lease: Lease) -> None:
        self._cell, self._catalog, self._run_id, self._lease = cell, catalog, run_id, lease
        self._waiting: list[Waiting] = []
        self._work: asyncio.Task[None] | None = None

    async def enter(self, due: DueSample) -> RunningAttempt:
        """Enter the next attempt of a due sample in the catalog as running, and return it.

        Raises LeaseLost, StoreError.
        """
        entered: asyncio.Future[RunningAttempt] = asyncio.get_running_loop().create_future()
        self._waiting.append((due, entered))
        if self._work is None or self._work.done():
            self._work = asyncio.create_task(self._enter_waiting())
        return await entered

    async def _enter_waiting(self) -> None:
        while self._waiting:
            taken, self._waiting = self._waiting[:IDS_AT_ONCE], self._waiting[IDS_AT_ONCE:]
            try:
                attempts = await asyncio.to_thread(self._enter, [due for due, _ in taken])
            except Exception as error:  # raised where each is waited for
                for entered in [entered for _, entered in taken if not entered.done()]:
                    entered.set_exception(error)
                continue
            for (_, entered), attempt in zip(taken, attempts, strict=True):
                if not entered.done():  # a session that was cancelled: the next run finds it lost
                    entered.set_result(attempt)

    def _enter(self, every: list[DueSample]) -> list[RunningAttempt]:
        states = cat.attempt_states
        ids = [due.sample.sample_id for due in every]
        assert len(set(ids)) == len(ids), "a sample has one attempt at a time"
        with self._catalog.transaction() as connection:
            check_lease(connection, self._lease)
            latest = sa.select(states.c.sample_id, sa.func.max(states.c.attempt)).where(
                states.c.sample_id.in_(ids)
            )
            known = {row[0]: row[1] for row in connection.execute(latest.group_by("sample_id"))}
            attempts = []
            for due, sample_id in zip(every, ids, strict=True):
                number = known.get(sample_id, 0) + 1
                # A later attempt is due when the one before it has failed, not by the schedule.
                due_at = due.at if number == 1 else None
                attempt_id = artifact_id("attempt", [sample_id, number])
                attempts.append(RunningAttempt(due.sample, number, attempt_id, due_at))
            rows = [
                {
                    "attempt_id": each.attempt_id,
                    "cell_id": self._cell.cell_id,
                    "attempt": each.number,
                    "sample_id": each.sample.sample_id,
                    "task_id": each.sample.task.task_id,
                    "trial": each.sample.trial,
                    "run_id": self._run_id,
                    "state": "running",
                    "lease_token": self._lease.token,
                    "started_at": cat.now(),
                }
                for each in attempts
            ]
            connection.execute(sa.insert(states), rows)
        return attempts


def attempted(trajectory: Trajectory, reasoning: str = AUTO) -> Submission:
    """The submission of a trajectory: not the prompt, whose calls are not the attempt's.

    `reasoning` is the suite's setting, by which the messages are separated already.
    """
    if isinstance(trajectory, CommandTrajectory):  # its messages are with the gateway
        answer = reply_in(trajectory.answer, reasoning)
        return Submission(answer, messages=None, imported=trajectory.imported)
    messages = trajectory.messages[trajectory.prompt_messages :]
    return Submission(trajectory.answer, trajectory.text, messages, trajectory.world_state)


def reply_in(answer: str | None, reasoning: str) -> str | None:
    """The reply in a harness's answer: it need not have the end tag that the model's messages
    have."""
    parts = separate(answer or "", OFF if reasoning == OFF else AUTO)
    return answer if parts is None else parts[1] or None


Rows = dict[str, list[dict[str, Any]]]
TOKENS = ("prompt_tokens", "cached_tokens", "completion_tokens")
TAKEN_OVER = (
    *("status", "stop_reason", "error_type", "error_message", "answer", "cost_usd"),
    *("started_at", "ended_at", "working_s", "held_s", "steps"),
)
"""Columns of `attempts` that are fields of a trajectory."""


def attempt_rows(
    plan: Plan, cell: Cell, entered: RunningAttempt, trajectory: Trajectory, run_id: str
) -> Rows:
    """Return rows of attempts, messages, tool_runs, retrievals and scores for one ended attempt."""
    sample, score, messages = entered.sample, trajectory.score, trajectory.messages
    # Calls of the measured model, not those of a user; a harness's are the gateway's.
    calls = sum(messages[position]["role"] == "assistant" for position in trajectory.call_ids)
    tokens = {name: getattr(trajectory, name) for name in TOKENS}
    if trajectory.steps and not any(tokens.values()):
        tokens = dict.fromkeys(TOKENS)  # it made calls, and no answer reported any
    attempt = _common(plan, cell) | {
        "run_id": run_id,
        "sample_id": sample.sample_id,
        "attempt_id": entered.attempt_id,
        "task_id": sample.task.task_id,
        "trial": sample.trial,
        "attempt": entered.number,
        "due_at": entered.due_at,
        "calls": calls or trajectory.steps,
        "tool_calls": len(trajectory.tool_runs),
        "score": score.value if score else None,
        "correct": score.correct if score else None,
    }
    attempt |= tokens | {name: getattr(trajectory, name) for name in TAKEN_OVER}
    key = {"sweep_id": plan.sweep_id, "cell_id": cell.cell_id, "attempt_id": entered.attempt_id}
    rows: Rows = {"attempts": [attempt], "messages": _messages(key, trajectory)}
    rows |= _tool_rows(key, trajectory)
    # A harness's own score, unless the scorer took that one; the scorer's is the newest.
    own = trajectory.imported if isinstance(trajectory, CommandTrajectory) else None
    scores = [each for each in (None if own is score else own, score) if each is not None]
    if scores and trajectory.status != "scorer_error":
        answer = attempted(trajectory, plan.suite.sampling.reasoning).answer
        rows["scores"] = [key | score_columns(each, answer) for each in scores]
    return {table: [storable(row) for row in own_rows] for table, own_rows in rows.items()}


def score_columns(score: Score, answer: str | None) -> dict[str, Any]:
    """A score in the columns of `scores`; `answer` is the attempt's, for scorers that take it
    whole. An answer that a scorer could not read is null."""
    read = answer if score.answer is None else score.answer
    return {
        "scorer": score.scorer,
        "scorer_version": score.version,
        "value": score.value,
        "correct": score.correct,
        "answer": read if score.found_answer else None,
        "detail": orjson.dumps(dict(score.detail)).decode() if score.detail else None,
        "judge_call_id": score.judge_call_id,
        "scored_at": cat.now(),
    }


@dataclass(frozen=True)
class LostReason:
    """Why an attempt did not end normally: `stop_reason`, `error_type` and `error_message`."""

    stop_reason: str
    error_type: ErrorType | None
    message: str


WORKER_LOST = LostReason("worker_lost", ErrorType.WORKER_LOST, "the process that ran it ended")
LATE = LostReason(STOP_REASON, None, "it took far longer than the others of its cell and was cut")


def lost_attempt_row(
    plan: Plan, cell: Cell, state: dict[str, Any], why: LostReason
) -> dict[str, Any]:
    """Return the row of an attempt that ended from outside its agent."""
    names = ("run_id", "sample_id", "attempt_id", "task_id", "trial", "attempt", "started_at")
    row = _common(plan, cell) | {name: state[name] for name in names}
    row |= {"status": "cancelled", "stop_reason": why.stop_reason}
    row |= {"error_type": why.error_type, "error_message": why.message}
    return row | {"ended_at": cat.now()}


def _common(plan: Plan, cell: Cell) -> dict[str, Any]:
    return {
        "sweep_id": plan.sweep_id,
        "cell_id": cell.cell_id,
        "benchmark": plan.suite.benchmark_name,
        "model": plan.config.model_name,
        "engine_id": plan.config.engine_id,
        "policy": cell.policy,
        "concurrency": cell.concurrency,
        "repeat": cell.repeat,
        "source": "sweep",
    }


def _messages(key: dict[str, Any], trajectory: Trajectory) -> list[dict[str, Any]]:
    return [
        {
            **key,
            "position": position,
            "role": message["role"],
            "content": message["content"],
            "reasoning": message.get("reasoning"),
            "tool_calls": [
                {"id": call["id"], **call["function"]} for call in message.get("tool_calls", [])
            ],
            "tool_call_id": message.get("tool_call_id"),
            "name": message.get("name"),
            "call_id": trajectory.call_ids.get(position),
        }
        for position, message in enumerate(trajectory.messages)
    ]


OF_RESULT = ("started_at", "ended_at", "status", "error_type", "cost_usd")


def _tool_rows(key: dict[str, Any], trajectory: Trajectory) -> Rows:
    runs, retrievals = [], []
    for step, name, arguments, result in trajectory.tool_runs:
        run = {"step": step, "name": name, "arguments": arguments, "result": result.content}
        runs.append(key | run | {column: getattr(result, column) for column in OF_RESULT})
        retrievals += [key | {"step": step} | dict(each) for each in result.retrievals]
    return {"tool_runs": runs, "retrievals": retrievals}
