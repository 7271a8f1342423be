"""Policy: the rules allow the golden calls and forbid the forbidden ones."""

from collections.abc import Iterator, Sequence
from typing import Any

from tutti.tasks.synthesis.domains import Action, Domain, DomainTask
from tutti.tasks.synthesis.gating.example import EXAMPLE, EXTENDED, LOOKED_UP
from tutti.tasks.synthesis.gating.gate import PASSED, Examples, GateBench, Verdict

PROGRAM = "policy"


class PolicyGate:
    """Asks every rule with a function, before each call that may write."""

    name = "policy"
    about = "No rule forbids a golden call, and some rule forbids each forbidden one."

    async def judge(self, tasks: Sequence[DomainTask], bench: GateBench) -> list[Verdict]:
        """The golden calls in the states that lead to each, the forbidden ones in the first."""
        operations: list[list[Any]] = []
        for task in tasks:
            operations += [["begin", PROGRAM, task.changed]]
            operations += [*_asked(task.forbidden, bench.domain, act=False)]
            operations += [*_asked(task.actions, bench.domain, act=True), ["end", PROGRAM]]
        replies = iter(await bench.toolkit.request(operations))
        return [_verdict(task, bench.domain, replies) for task in tasks]

    def examples(self) -> Examples:
        """A golden call that makes a loan too long, and a forbidden one that is not."""
        most, more = ({"loan_id": "L1", "days": days} for days in (17, 3))
        forbidden = (Action(name="extend_loan", arguments=most),)
        allowed = (Action(name="extend_loan", arguments=more),)
        return Examples(
            good=[(EXAMPLE, EXTENDED), (EXAMPLE, LOOKED_UP)],
            bad=[
                (EXAMPLE, EXTENDED.model_copy(update={"actions": forbidden})),
                (EXAMPLE, EXTENDED.model_copy(update={"forbidden": allowed})),
            ],
        )


def _asked(actions: Sequence[Action], domain: Domain, act: bool) -> Iterator[list[Any]]:
    for action in actions:
        for rule in _rules(domain, action):
            yield ["ask", PROGRAM, rule, action.name, action.arguments]
        if act:
            yield ["call", PROGRAM, action.name, action.arguments]


def _rules(domain: Domain, action: Action) -> list[str]:
    tool = domain.tool_named.get(action.name)
    asks = tool is not None and tool.kind == "WRITE"
    return [rule.function for rule in domain.rules if asks and rule.function is not None]


def _verdict(task: DomainTask, domain: Domain, replies: Iterator[Any]) -> Verdict:
    next(replies)
    wrong: list[str] = []
    for action in task.forbidden:
        said = [next(replies) for _ in _rules(domain, action)]
        wrong += [each["value"] for each in said if each["status"] != "ok"]
        if not any(each["value"] for each in said):
            wrong.append(f"no rule forbids {_words(action)}")
    for action in task.actions:
        said = [next(replies) for _ in _rules(domain, action)]
        wrong += [f"{_words(action)}: {each['value']}" for each in said if each["value"]]
        next(replies)
    next(replies)
    return Verdict(False, wrong[0]) if wrong else PASSED


def _words(action: Action) -> str:
    given = ", ".join(f"{name}={value!r}" for name, value in action.arguments.items())
    return f"{action.name}({given})"
