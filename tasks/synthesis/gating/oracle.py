"""Gate: a solver without the golden calls reaches the same state and states the facts.

If there is no solver (domains by a teacher), the golden calls' results must have the facts, so that
an agent can learn them.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass

from tutti.tasks.agents import Oracle
from tutti.tasks.synthesis.domains import Act, Action, DomainTask, Result
from tutti.tasks.synthesis.gating.gate import GateContext
from tutti.tasks.synthesis.gating.wording import communicates
from tutti.tasks.task_sets import PASSED, Verdict

MOST_CALLS = 100
"""Most calls of a solver; one with more is stopped."""


@dataclass
class _Solving:
    """A solver in progress on a task."""

    task: DomainTask
    steps: Oracle
    offered: frozenset[str]
    calls: int = 0
    said: str | None = None
    gave_up: str = ""
    next_call: Action | None = None

    def go_on(self, result: Result | None = None) -> None:
        """Send the solver the result of its call, and take its next one."""
        call, self.next_call = self.next_call, None
        if call is not None and call.name not in self.offered:
            result = Result("missing", f"there is no tool {call.name!r}")
        try:
            use = next(self.steps) if result is None else self.steps.send(result.text)
        except StopIteration as finished:
            self.said = str(finished.value)
            return
        except (LookupError, ValueError) as error:
            self.gave_up = f"{type(error).__name__}: {error}"
            return
        self.calls += 1
        if self.calls > MOST_CALLS:
            self.gave_up = f"more than {MOST_CALLS} calls"
        else:
            self.next_call = Action(name=use.name, arguments=dict(use.arguments))

    def verdict(self, state: str, golden: str) -> Verdict:
        """Compare the solver's facts and last state with the expected ones."""
        lacking = communicates(self.said or "", self.task.world.communicate)
        if self.said is None:
            reason = f"the solver gave up: {self.gave_up}"
        elif lacking:
            reason = f"the solver said {self.said!r}, without {lacking[0]!r}"
        elif state != golden:
            reason = "the solver came to another state than the golden calls"
        else:
            return Verdict(True, measured=self.calls)
        return Verdict(False, reason, self.calls)


async def judge_oracle(tasks: Sequence[DomainTask], context: GateContext) -> list[Verdict]:
    """Solve each task. All solvers of a batch advance together, so that one step of all of them is
    one request to the sandbox. `measured` is the number of calls."""
    if context.solver is None:
        return [_facts_verdict(task, context) for task in tasks]
    running = {  # other tasks may be solved in this context meanwhile, so names are unique
        f"solver {next(context.numbers)}": _Solving(
            task, context.solver(task), frozenset(t.name for t in context.domain.offered(task))
        )
        for task in tasks
    }
    await context.toolkit.begin({name: each.task for name, each in running.items()})
    for each in running.values():
        each.go_on()
    while acts := [Act(n, each.next_call) for n, each in running.items() if each.next_call]:
        for act, result in zip(acts, await context.toolkit.act(acts), strict=True):
            running[act.program].go_on(result)
    hashes = await context.toolkit.request([["hash", name] for name in running])
    await context.toolkit.end(list(running))
    return [
        each.verdict(state, context.replay(each.task).after)
        for each, state in zip(running.values(), hashes, strict=True)
    ]


def _facts_verdict(task: DomainTask, context: GateContext) -> Verdict:
    results = context.replay(task).results
    returned = "\n".join(each.text for each in results) + json.dumps([r.value for r in results])
    lacking = communicates(returned, task.world.communicate)
    if lacking:
        return Verdict(False, f"no golden call returns {lacking[0]!r}, which must be said")
    return PASSED
