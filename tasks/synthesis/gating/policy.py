"""Policy: the rules allow the golden calls and forbid the forbidden ones."""

from collections.abc import Sequence

from tutti.tasks.synthesis.domains import Action, DomainTask, Replay, changed_task
from tutti.tasks.synthesis.gating.example import EXAMPLE, EXTENDED, LOOKED_UP
from tutti.tasks.synthesis.gating.gate import Examples, GateContext
from tutti.tasks.task_sets import PASSED, Verdict


class PolicyGate:
    """Asks every rule with a function, before each call that may write."""

    name = "policy"
    about = "No rule forbids a golden call, and some rule forbids each forbidden one."

    async def judge(self, tasks: Sequence[DomainTask], context: GateContext) -> list[Verdict]:
        """The golden calls in the states that lead to each, the forbidden ones in the first."""
        kept = [context.ruled.get(task.task_id, (None, None)) for task in tasks]
        left = [task for task, pair in zip(tasks, kept, strict=True) if pair[0] is not task]
        made = iter(await context.toolkit.replay(left, ask_rules=True))
        return [
            _verdict(task, replay if replay is not None and of is task else next(made))
            for task, (of, replay) in zip(tasks, kept, strict=True)
        ]

    def examples(self) -> Examples:
        """A golden call that makes a loan too long, and a forbidden one that is not."""
        most, more = ({"loan_id": "L1", "days": days} for days in (17, 3))
        forbidden = (Action(name="extend_loan", arguments=most),)
        allowed = (Action(name="extend_loan", arguments=more),)
        return Examples(
            good=[(EXAMPLE, EXTENDED), (EXAMPLE, LOOKED_UP)],
            bad=[
                (EXAMPLE, changed_task(EXTENDED, actions=forbidden)),
                (EXAMPLE, changed_task(EXTENDED, forbidden=allowed)),
            ],
        )


def _verdict(task: DomainTask, ruled: Replay) -> Verdict:
    wrong: list[str] = []
    for action, said in zip(task.world.forbidden, ruled.of_forbidden, strict=True):
        wrong += [str(each.value) for each in said if each.status != "ok"]
        if not any(each.value for each in said):
            wrong.append(f"no rule forbids {_words(action)}")
    for action, said in zip(task.world.actions, ruled.of_golden, strict=True):
        wrong += [f"{_words(action)}: {each.value}" for each in said if each.value]
    return Verdict(False, wrong[0]) if wrong else PASSED


def _words(action: Action) -> str:
    given = ", ".join(f"{name}={value!r}" for name, value in action.arguments.items())
    return f"{action.name}({given})"
