"""Executes: every golden call runs without an error on the task's own database."""

from collections.abc import Sequence

from tutti.tasks.synthesis.domains import Action, DomainTask, changed_task
from tutti.tasks.synthesis.gating.example import EXAMPLE, EXTENDED, LOOKED_UP
from tutti.tasks.synthesis.gating.gate import Examples, GateContext
from tutti.tasks.task_sets import Verdict


class Executes:
    """Keeps the replays for the gates after it."""

    name = "executes"
    about = "The golden calls run in the sandbox, one after the other, and none is refused."

    async def judge(self, tasks: Sequence[DomainTask], context: GateContext) -> list[Verdict]:
        """Replay each task's golden calls."""
        replays = await context.toolkit.replay(tasks)
        context.replays |= {each.task_id: it for each, it in zip(tasks, replays, strict=True)}
        return [Verdict(not each.failure, each.failure) for each in replays]

    def examples(self) -> Examples:
        """A loan that does not exist, and one that is returned."""
        unknown = Action(name="get_loan", arguments={"loan_id": "L9"})
        returned = changed_task(EXTENDED, changed={"loans": {"L1": {"returned": True}}})
        bad = changed_task(LOOKED_UP, actions=(unknown,))
        return Examples(
            good=[(EXAMPLE, EXTENDED), (EXAMPLE, LOOKED_UP)],
            bad=[(EXAMPLE, bad), (EXAMPLE, returned)],
        )
