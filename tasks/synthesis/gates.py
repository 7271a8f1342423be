"""Gates of questions over the standard library: no duplicate, solved by an oracle, not by a no-op
agent.

The agents run through the real agent loop with the real tools. Rejects are stored with their
reason.
"""

import asyncio
import re
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass, field

from tutti.tasks.agents import AttemptLimits, Trajectory, boxed, opening, run_attempt
from tutti.tasks.agents.models import NoOpModel, OracleModel
from tutti.tasks.agents.tools import Environment, Toolbox, ToolUnavailable
from tutti.tasks.scoring import score_exact
from tutti.tasks.synthesis.families import FAMILIES
from tutti.tasks.task_sets import PASSED, Show, Task, Verdict, verdict

WORD = re.compile(r"[A-Za-z0-9_.']+|[^\sA-Za-z0-9_.']")


def duplicate_reasons(tasks: Iterable[Task]) -> list[str]:
    """Return for each task why it duplicates an earlier one, or "" if it does not.

    Exact: the same words in the same order, ignoring case. Near: the same family asks about the
    same slots in other words, or about another document whose question and answer differ from an
    earlier one's only in the module's name (an alias). A test task is compared with every earlier
    task, whatever its split, so that no training question is repeated.
    """
    exact: set[tuple[str, ...]] = set()
    near: set[tuple[str, ...]] = set()
    reasons = []
    for task in tasks:
        words = tuple(word.lower() for word in WORD.findall(task.inputs["question"]))
        slots = tuple(f"{key}={value}" for key, value in sorted(task.slots.items()))
        aliased = tuple(slot.rsplit(".", 1)[-1] for slot in slots)
        keys = {
            (task.family, "slots", *slots),
            (task.family, "alias", task.target["answer"], *aliased),
        }
        if words in exact:
            reasons.append("exact duplicate")
        elif near & keys:
            reasons.append("near duplicate")
        else:
            reasons.append("")
        exact.add(words)
        near |= keys
    return reasons


CONCURRENCY = 8


@dataclass
class LibraryContext:
    """Resources of the gates."""

    toolbox: Toolbox
    show: Show = lambda done, total, note: None
    """Of the gate that takes the time, the oracle's."""
    solved: dict[str, Trajectory] = field(default_factory=dict)
    """By task, what the oracle did."""


class Duplicates:
    """Gate that compares tasks with earlier candidates."""

    name = "duplicates"

    async def judge(self, tasks: Sequence[Task], context: LibraryContext) -> list[Verdict]:
        """Reject the later of two duplicates."""
        return [verdict(reason) for reason in duplicate_reasons(tasks)]


class Oracle:
    """Gate that solves tasks with the tools only."""

    name = "oracle"

    async def judge(self, tasks: Sequence[Task], context: LibraryContext) -> list[Verdict]:
        """Raises ToolUnavailable if a tool's service fails, because no verdict is better than a
        wrong one."""

        async def one(task: Task) -> Verdict:
            found = await _solved(task, context)
            context.show(len(context.solved), len(tasks), "")
            return found

        return await _each(tasks, one)


class NoOp:
    """Gate that answers without tools."""

    name = "no_op"

    async def judge(self, tasks: Sequence[Task], context: LibraryContext) -> list[Verdict]:
        """Reject a task that needs no tools."""

        async def one(task: Task) -> Verdict:
            question, environment = opening(task.inputs["question"]), Environment(context.toolbox)
            idle = await run_attempt(question, NoOpModel(), environment, AttemptLimits())
            is_solved = score_exact(idle.answer, task.target["answer"]).correct
            return verdict("solved without tools" if is_solved else "")

        return await _each(tasks, one)


LIBRARY_GATES = {gate.name: gate for gate in (Duplicates(), Oracle(), NoOp())}


async def _each(tasks: Sequence[Task], one: Callable[[Task], Awaitable[Verdict]]) -> list[Verdict]:
    slots = asyncio.Semaphore(CONCURRENCY)

    async def in_turn(task: Task) -> Verdict:
        async with slots:
            return await one(task)

    return list(await asyncio.gather(*(in_turn(task) for task in tasks)))


async def _solved(task: Task, context: LibraryContext) -> Verdict:
    oracle = OracleModel(FAMILIES[task.family].solve(task.slots), boxed("ANSWER"))
    question, environment = opening(task.inputs["question"]), Environment(context.toolbox)
    solved = await run_attempt(question, oracle, environment, AttemptLimits())
    if solved.status == "infra_error":
        raise ToolUnavailable(solved.error_message or "a tool failed")
    context.solved[task.task_id] = solved
    if score_exact(solved.answer, task.target["answer"]).correct:
        return PASSED
    reason = f"answered {solved.answer!r}"
    if solved.answer is None:
        reason = str(solved.messages[-1]["content"] or solved.stop_reason)
    return Verdict(False, reason[:200])
