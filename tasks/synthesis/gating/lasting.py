"""Lasting: what golden calls change is not changed back.

A run counts if it leaves the database that the golden calls leave, whatever way it took. So where a
golden call's effect is undone by another, a run that never touched that record counts as well. With
this gate, equal states say that every record which a golden call changed was changed. A record that
is only read may be left alone: what must be said comes from it.
"""

from collections.abc import Iterator, Sequence
from typing import Any

from tutti.tasks.synthesis.domains import Action, Domain, DomainTask, changed_task
from tutti.tasks.synthesis.gating.example import EXAMPLE, EXTENDED
from tutti.tasks.synthesis.gating.gate import Examples, GateContext
from tutti.tasks.task_sets import PASSED, Verdict

PROGRAM, FIRST, BEFORE = "lasting", "lasting first", "lasting before"


class Lasting:
    """Compares records before and after each WRITE call, and at the end. With one WRITE call there
    is nothing that could undo it, so that only tasks with more are replayed."""

    name = "lasting"
    about = "Every record that a golden call changes is another in the end."

    async def judge(self, tasks: Sequence[DomainTask], context: GateContext) -> list[Verdict]:
        """The first record that is as it was rejects a task. Raises ToolkitFailed."""
        changing = context.fact(_changing)
        shown = {n for n, task in enumerate(tasks) if len(_writes(task, changing)) > 1}
        if not shown:
            return [PASSED] * len(tasks)
        operations = [each for n in sorted(shown) for each in _operations(tasks[n], changing)]
        replies = iter(await context.toolkit.request(operations))
        return [
            _verdict(task, changing, replies) if n in shown else PASSED
            for n, task in enumerate(tasks)
        ]

    def examples(self) -> Examples:
        """A loan made longer and shorter again, with and without a call between."""
        find, extend = EXTENDED.world.actions
        longer, shorter = (_extended("L2", days) for days in (3, -3))
        both = {"actions": (find, extend, longer)}
        undone = {"actions": (find, extend, longer, shorter)}
        between = {"actions": (find, longer, extend, shorter)}
        return Examples(
            good=[(EXAMPLE, EXTENDED), (EXAMPLE, changed_task(EXTENDED, **both))],
            bad=[
                (EXAMPLE, changed_task(EXTENDED, **undone)),
                (EXAMPLE, changed_task(EXTENDED, **between)),
            ],
        )


def _extended(loan: str, days: int) -> Action:
    return Action(name="extend_loan", arguments={"loan_id": loan, "days": days})


def _changing(domain: Domain) -> frozenset[str]:
    return frozenset(tool.name for tool in domain.tools if tool.kind == "WRITE")


def _writes(task: DomainTask, changing: frozenset[str]) -> list[int]:
    return [n for n, action in enumerate(task.world.actions, 1) if action.name in changing]


def _operations(task: DomainTask, changing: frozenset[str]) -> Iterator[list[Any]]:
    yield ["begin", PROGRAM, task.world.changed]
    yield ["copy", PROGRAM, FIRST]
    for action in task.world.actions:
        yield ["copy", PROGRAM, BEFORE]
        yield ["call", PROGRAM, action.name, action.arguments]
        if action.name in changing:
            yield ["differing", BEFORE, PROGRAM]
    yield ["differing", FIRST, PROGRAM]


def _verdict(task: DomainTask, changing: frozenset[str], replies: Iterator[Any]) -> Verdict:
    next(replies), next(replies)
    changed: dict[str, int] = {}
    for number, action in enumerate(task.world.actions, 1):
        next(replies), next(replies)
        if action.name in changing:
            changed |= dict.fromkeys(next(replies), number)
    last = set(next(replies))
    lost = next((record for record in changed if record not in last), None)
    if lost is None:
        return PASSED
    return Verdict(False, f"{lost} is in the end as it was before; call {changed[lost]} undoes it")
