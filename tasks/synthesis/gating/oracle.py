"""Oracle: a solver that does not know the golden calls comes to the same state and says the facts.

Without a solver (a teacher made the domain) the golden calls' results must have the facts, so that
an agent can learn them.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from tutti.tasks.agents import Oracle, ToolUse
from tutti.tasks.synthesis.domains import Act, Action, DomainTask, Result, changed_task
from tutti.tasks.synthesis.gating.example import EXAMPLE, EXTENDED, LOOKED_UP
from tutti.tasks.synthesis.gating.gate import Examples, GateContext
from tutti.tasks.synthesis.gating.wording import communicates
from tutti.tasks.task_sets import PASSED, Verdict

MOST_CALLS = 100
"""Of one solver; one that makes more does not end."""


@dataclass
class _Solving:
    """A solver under way."""

    task: DomainTask
    steps: Oracle
    calls: int = 0
    said: str | None = None
    gave_up: str = ""
    waits: Action | None = field(default=None, init=False)

    def go_on(self, result: Result | None) -> None:
        """Send it a result and take its next call."""
        self.waits = None
        try:
            use: ToolUse = next(self.steps) if result is None else self.steps.send(result.text)
        except StopIteration as finished:
            self.said = str(finished.value)
            return
        except (LookupError, ValueError) as error:
            self.gave_up = f"{type(error).__name__}: {error}"
            return
        self.calls += 1
        if self.calls > MOST_CALLS:
            self.gave_up = f"more than {MOST_CALLS} calls"
            return
        self.waits = Action(name=use.name, arguments=dict(use.arguments))


class OracleGate:
    """All solvers of a batch go on together, so that a step of all is one request."""

    name = "oracle"
    about = "A solver that does not know the golden calls solves it with the tools offered."

    async def judge(self, tasks: Sequence[DomainTask], context: GateContext) -> list[Verdict]:
        """Solve each task, and compare state and facts."""
        if context.solver is None:
            return [_told(task, context) for task in tasks]
        # Other tasks may be solved in this context meanwhile: no two programs have one name.
        running = {
            f"solver {next(context.numbers)}": _Solving(task, context.solver(task))
            for task in tasks
        }
        await context.toolkit.begin({name: each.task for name, each in running.items()})
        for each in running.values():
            each.go_on(None)
        while acts := list(_next_acts(running)):
            results = await context.toolkit.act(acts)
            for act, result in zip(acts, results, strict=True):
                running[act.program].go_on(_offered(result, act, running, context))
        hashes = await context.toolkit.request([["hash", name] for name in running])
        await context.toolkit.end(list(running))
        return [
            _verdict(each, state, context)
            for each, state in zip(running.values(), hashes, strict=True)
        ]

    def examples(self) -> Examples:
        """Facts that no golden call returns, with and without a call that changes something."""
        wrong = {"communicate": ("Mountains",)}
        return Examples(
            good=[(EXAMPLE, EXTENDED), (EXAMPLE, LOOKED_UP)],
            bad=[
                (EXAMPLE, changed_task(EXTENDED, **wrong)),
                (EXAMPLE, changed_task(LOOKED_UP, **wrong)),
            ],
        )


def _next_acts(running: Mapping[str, _Solving]) -> Iterator[Act]:
    for name, each in running.items():
        if each.waits is not None:
            yield Act(name, each.waits)


def _offered(
    result: Result, act: Act, running: Mapping[str, _Solving], context: GateContext
) -> Result:
    task = running[act.program].task
    if act.action.name in {each.name for each in context.domain.offered(task)}:
        return result
    return Result("missing", f"there is no tool {act.action.name!r}")


def _verdict(each: _Solving, state: str, context: GateContext) -> Verdict:
    if each.said is None:
        return Verdict(False, f"the solver gave up: {each.gave_up}", each.calls)
    lacking = communicates(each.said, each.task.world.communicate)
    if lacking:
        return Verdict(False, f"the solver said {each.said!r}, without {lacking[0]!r}", each.calls)
    if state != context.replays[each.task.task_id].after:
        return Verdict(False, "the solver came to another state than the golden calls", each.calls)
    return Verdict(True, measured=each.calls)


def _told(task: DomainTask, context: GateContext) -> Verdict:
    results = context.replays[task.task_id].results
    told = "\n".join(each.text for each in results) + json.dumps([each.value for each in results])
    lacking = communicates(told, task.world.communicate)
    if lacking:
        return Verdict(False, f"no golden call returns {lacking[0]!r}, which must be said")
    return PASSED
