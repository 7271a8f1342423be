"""The gates that read replays of the golden calls: `executes`, `replay`, `no_op`, `lasting` and
`policy`.

`lasting`: an attempt counts if it leaves the same database as the golden calls. If one golden call
undoes another one's effect, an attempt that never touched that record would count as well. Records
that are only read are exempt: the facts to communicate come from them.
"""

from collections.abc import Iterator, Sequence
from typing import Any

from tutti.tasks.synthesis.domains import Action, Domain, DomainTask, Replay
from tutti.tasks.synthesis.gating.gate import GateContext
from tutti.tasks.task_sets import PASSED, Verdict, verdict

PROGRAM, FIRST, BEFORE = "lasting", "lasting first", "lasting before"
"""Databases of `judge_lasting`."""


async def judge_executes(tasks: Sequence[DomainTask], context: GateContext) -> list[Verdict]:
    """Every golden call runs without an error. The replays are stored for the gates after it."""
    replays = await context.toolkit.replay(tasks)
    context.replays |= {each.task_id: it for each, it in zip(tasks, replays, strict=True)}
    return [verdict(each.failure) for each in replays]


async def judge_replay(tasks: Sequence[DomainTask], context: GateContext) -> list[Verdict]:
    """Check that a second replay gives the same results and state, and the stated one, if any."""
    again = await context.toolkit.replay(tasks, ask_rules=True)
    context.ruled |= {pair[0].task_id: pair for pair in zip(tasks, again, strict=True)}
    return [
        verdict(_replay_fault(task, context.replay(task), second))
        for task, second in zip(tasks, again, strict=True)
    ]


def _replay_fault(task: DomainTask, first: Replay, second: Replay) -> str:
    if second.after != first.after or second.results != first.results:
        return "a second replay gave another state or results"
    wanted, found = task.world.expected, first.after
    if wanted in ("", found):
        return ""
    return f"the state is {found[:12]}, stated is {wanted[:12]}"


def no_op_fault(task: DomainTask, context: GateContext) -> str:
    """Return why doing nothing and saying nothing solves a task."""
    replay = context.replay(task)
    idle = not task.world.communicate and replay.before == replay.after
    return "the state is right from the beginning and nothing must be said" if idle else ""


async def judge_lasting(tasks: Sequence[DomainTask], context: GateContext) -> list[Verdict]:
    """Check that every record that a golden call changes differs in the end. Only tasks with
    several WRITE calls are replayed, because a single one cannot be undone."""
    writers = context.fact(_writers)
    shown = [n for n, task in enumerate(tasks) if len(_writes(task, writers)) > 1]
    operations = [each for n in shown for each in _operations(tasks[n], writers)]
    replies = await context.toolkit.request(operations) if shown else []
    pairs = zip(operations, replies, strict=True)
    differing = iter([reply for operation, reply in pairs if operation[0] == "differing"])
    verdicts = [PASSED] * len(tasks)
    for n in shown:
        changed: dict[str, int] = {}
        for number in _writes(tasks[n], writers):
            changed |= dict.fromkeys(next(differing), number)
        last = set(next(differing))
        lost = next((record for record in changed if record not in last), None)
        if lost is not None:
            why = f"{lost} is in the end as it was before; call {changed[lost]} undoes it"
            verdicts[n] = Verdict(False, why)
    return verdicts


def _writers(domain: Domain) -> frozenset[str]:
    return frozenset(tool.name for tool in domain.tools if tool.kind == "WRITE")


def _writes(task: DomainTask, writers: frozenset[str]) -> list[int]:
    return [n for n, action in enumerate(task.world.actions, 1) if action.name in writers]


def _operations(task: DomainTask, writers: frozenset[str]) -> Iterator[list[Any]]:
    yield ["begin", PROGRAM, task.world.changed]
    yield ["copy", PROGRAM, FIRST]
    for action in task.world.actions:
        yield ["copy", PROGRAM, BEFORE]
        yield ["call", PROGRAM, action.name, action.arguments]
        if action.name in writers:
            yield ["differing", BEFORE, PROGRAM]
    yield ["differing", FIRST, PROGRAM]


async def judge_policy(tasks: Sequence[DomainTask], context: GateContext) -> list[Verdict]:
    """Check that the rules allow the golden calls, each in the state before it, and forbid the
    forbidden ones in the first state."""
    stored = [context.ruled.get(task.task_id) for task in tasks]
    ruled = {id(pair[0]): pair[1] for pair in stored if pair is not None}
    missing = [task for task in tasks if id(task) not in ruled]
    replays = await context.toolkit.replay(missing, ask_rules=True)
    ruled |= {id(task): replay for task, replay in zip(missing, replays, strict=True)}
    return [verdict(next(_policy_faults(task, ruled[id(task)]), "")) for task in tasks]


def _policy_faults(task: DomainTask, ruled: Replay) -> Iterator[str]:
    for action, verdicts in zip(task.world.forbidden, ruled.of_forbidden, strict=True):
        yield from (str(each.value) for each in verdicts if each.status != "ok")
        if not any(each.value for each in verdicts):
            yield f"no rule forbids {_words(action)}"
    for action, verdicts in zip(task.world.actions, ruled.of_golden, strict=True):
        yield from (f"{_words(action)}: {each.value}" for each in verdicts if each.value)


def _words(action: Action) -> str:
    given = ", ".join(f"{name}={value!r}" for name, value in action.arguments.items())
    return f"{action.name}({given})"
