"""A lending desk in which every second candidate has one defect, as in sets without gates.

It has no solver: like a teacher's domain, and like the reference's, it has no source of a task's
intended solution.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from random import Random
from typing import Any

from tests.synthesis.example import varied
from tests.synthesis.lending import Lending
from tutti.tasks.synthesis.domains import Action, Domain, DomainTask, changed_task
from tutti.tasks.synthesis.programs.base.program import Knobs

Spoil = Callable[[DomainTask, DomainTask], DomainTask]
"""(a good task, the good one before it) to one with the defect."""
MARK = "defect"


@dataclass(frozen=True)
class Defect:
    """A defect, and the gate that must detect it."""

    spoil: Spoil
    gate: str
    reason: str
    """A pattern of the gate's reason."""
    also: tuple[str, ...] = ()
    """Gates after it that would drop the task, too."""
    build: Callable[[Domain], Domain] = lambda domain: domain
    """What is wrong with the domain itself."""


class DefectiveLending(Lending):
    """`Lending` with a defect in every second candidate, marked by `difficulty`."""

    solve = None  # type: ignore[assignment]

    def __init__(self, defect: Defect) -> None:
        super().__init__()
        self.defect = defect

    def build(self, rng: Random, knobs: Knobs) -> Domain:
        return self.defect.build(super().build(rng, knobs))

    def propose(self, domain: Domain, rng: Random, knobs: Knobs) -> Iterator[DomainTask]:
        last: DomainTask | None = None
        for place, task in enumerate(super().propose(domain, rng, knobs)):
            if place % 2 and last is not None:
                bad = self.defect.spoil(task, last)
                yield changed_task(bad, difficulty={MARK: 1})
            else:
                yield task
            last = task


def with_calls(task: DomainTask, *calls: Action, **fields: Any) -> DomainTask:
    """Return a task with other golden calls, which requires the text of the loan's id, returned by
    its first call."""
    loan = task.world.actions[1].arguments["loan_id"]
    return changed_task(task, **{"actions": calls, "communicate": (loan,), **fields})


def refused(task: DomainTask, _: DomainTask) -> DomainTask:
    """Make the golden call one that is refused, because the loan is returned."""
    begin = {"loans": {task.world.actions[1].arguments["loan_id"]: {"returned": True}}}
    return with_calls(task, *task.world.actions, changed=begin)


def broken_code(task: DomainTask, _: DomainTask) -> DomainTask:
    """Make a golden call run generated code that does not work."""
    look = Action(name="get_fee", arguments={"loan_id": task.world.actions[1].arguments["loan_id"]})
    return with_calls(task, *task.world.actions, look)


def with_broken_tool(domain: Domain) -> Domain:
    """Add a fourth tool whose code was never run."""
    spec = domain.tools[1].model_copy(
        update={"name": "get_fee", "about": "Look up a loan's fee.", "returns": ()}
    )
    code = (
        f'{domain.toolkit}\n\ndef get_fee(db, loan_id):\n    return db["loans"][loan_id]["fee"]\n'
    )
    return varied(domain, toolkit=code, tools=(*domain.tools, spec))


def misaligned(task: DomainTask, _: DomainTask) -> DomainTask:
    """Return a task with a record that violates the schema, for which a model's check says no,
    which is ignored."""
    begin = {"loans": {task.world.actions[1].arguments["loan_id"]: {"title": 5}}}
    return changed_task(task, changed=begin)


def repeated(_: DomainTask, last: DomainTask) -> DomainTask:
    """Return the previous task in other words."""
    days = last.slots["days"]
    told = last.world.scenario.model_copy(
        update={
            "reason": f"Your book is not finished; {days} days more would help.",
            "instructions": "Find out how many days that makes.",
        }
    )
    return changed_task(last, scenario=told)


def idle(task: DomainTask, _: DomainTask) -> DomainTask:
    """Return a task that requires no change and no text."""
    wanted = {"actions": task.world.actions[:1], "communicate": (), "forbidden": ()}
    return changed_task(task, **wanted)


def undone(task: DomainTask, last: DomainTask) -> DomainTask:
    """Extend and shorten another loan: the state is reached without any call for it."""
    find = Action(name="find_member", arguments=dict(last.world.actions[0].arguments))
    loan = last.world.actions[1].arguments["loan_id"]
    steps = [
        Action(name="extend_loan", arguments={"loan_id": loan, "days": days}) for days in (1, -1)
    ]
    told = task.world.scenario.model_copy(
        update={
            "known": f"{task.world.scenario.known} {last.world.scenario.known}",
            "instructions": "Ask how many days you have; try 1 day more for the other book.",
        }
    )
    return changed_task(task, actions=(*task.world.actions, find, *steps), scenario=told)


def padded(task: DomainTask, _: DomainTask) -> DomainTask:
    """Give every call all tools' parameters, with null for those of other tools."""
    empty = dict.fromkeys(("name", "loan_id", "days"))
    calls = [Action(name=a.name, arguments=empty | a.arguments) for a in task.world.actions]
    return with_calls(task, *calls, forbidden=())


DEFECTS = {
    "golden calls are never executed": Defect(refused, "executes", "call 2: refused: .* returned"),
    "generated code is never run": Defect(
        broken_code, "executes", "call 3: failed: KeyError", build=with_broken_tool
    ),
    "nobody reads that schema and records do not fit": Defect(
        misaligned, "records", r"changed: loans/L\d+\.title: Input should be a valid string"
    ),
    "tasks are there twice": Defect(repeated, "duplicates", "repeats in other words task:"),
    "solvable with no action": Defect(idle, "no_op", "the state is right from", also=("blind",)),
    "a golden-operated entry need not be operated on": Defect(
        undone, "lasting", r"loans/L\d+ is in the end as it was before; call 5 undoes it"
    ),
    "arguments are padded with null keys": Defect(
        padded,
        "parses",
        "call 1, find_member: it has no parameter",
        also=("executes", "suffices", "oracle"),
    ),
}
