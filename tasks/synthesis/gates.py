"""The gates: a candidate becomes a task only if the oracle solves it and the no-op agent does not.

Both run through the real agent loop with the real tools. Rejects are kept with their reason.
"""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from tutti.tasks.agents import (
    AttemptLimits,
    Environment,
    NoOpModel,
    OracleModel,
    Toolbox,
    ToolUnavailable,
    Trajectory,
    boxed,
    opening,
    run_attempt,
)
from tutti.tasks.scoring import score_exact
from tutti.tasks.synthesis.families import FAMILIES
from tutti.tasks.synthesis.task import Task

CONCURRENCY = 8
DUPLICATES, ORACLE, NO_OP = "duplicates", "oracle", "no_op"
LIBRARY_GATES = {name: place for place, name in enumerate((DUPLICATES, ORACLE, NO_OP), 1)}
"""The gates of a set over the standard library, each with its place. The first is in `dedup`."""


@dataclass(frozen=True)
class GateResult:
    """The gates' decision on a candidate."""

    task: Task
    rejected_by: str
    """A gate's name; empty if none rejected it."""
    reason: str
    oracle: Trajectory

    @property
    def accepted(self) -> bool:
        """Whether it becomes a task."""
        return not self.rejected_by


async def gate(
    candidates: Sequence[Task], toolbox: Toolbox, on_done: Callable[[], None] = lambda: None
) -> list[GateResult]:
    """Judge every candidate, in order. `on_done` is called after each.

    Raises ToolUnavailable if a tool's service fails: no verdict is better than a wrong one.
    """
    slots = asyncio.Semaphore(CONCURRENCY)

    async def judge(task: Task) -> GateResult:
        async with slots:
            verdict = await _judge(task, toolbox)
            on_done()
            return verdict

    return list(await asyncio.gather(*(judge(task) for task in candidates)))


async def _judge(task: Task, toolbox: Toolbox) -> GateResult:
    limits = AttemptLimits()
    oracle = OracleModel(FAMILIES[task.family].solve(task.slots), boxed("ANSWER"))
    environment = Environment(toolbox)
    solved = await run_attempt(opening(task.question), oracle, environment, limits)
    if solved.status == "infra_error":
        raise ToolUnavailable(solved.error_message or "a tool failed")
    if not score_exact(solved.answer, task.answer).correct:
        reason = f"answered {solved.answer!r}"
        if solved.answer is None:
            reason = str(solved.messages[-1]["content"] or solved.stop_reason)
        return GateResult(task, ORACLE, reason[:200], solved)
    idle = await run_attempt(opening(task.question), NoOpModel(), environment, limits)
    if score_exact(idle.answer, task.answer).correct:
        return GateResult(task, NO_OP, "solved without tools", solved)
    return GateResult(task, "", "", solved)
