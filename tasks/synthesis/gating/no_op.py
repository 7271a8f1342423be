"""No-op: an agent that does and says nothing fails."""

from collections.abc import Sequence

from tutti.tasks.synthesis.domains import Action, DomainTask, changed_task
from tutti.tasks.synthesis.gating.example import EXAMPLE, EXTENDED, LOOKED_UP
from tutti.tasks.synthesis.gating.gate import Examples, GateContext
from tutti.tasks.task_sets import PASSED, Verdict


class NoOp:
    """What must come of a task must not be there from the beginning."""

    name = "no_op"
    about = "Doing nothing and saying nothing does not solve it."

    async def judge(self, tasks: Sequence[DomainTask], context: GateContext) -> list[Verdict]:
        """A task without facts to communicate must change the database."""
        found = []
        for task in tasks:
            replay = context.replays[task.task_id]
            idle = not task.world.communicate and replay.before == replay.after
            why = "the state is right from the beginning and nothing must be said"
            found.append(Verdict(False, why) if idle else PASSED)
        return found

    def examples(self) -> Examples:
        """A look-up after which nothing must be said."""
        silent = changed_task(LOOKED_UP, communicate=())
        zero = Action(name="extend_loan", arguments={"loan_id": "L1", "days": 0})
        idle = changed_task(EXTENDED, communicate=(), actions=(zero,))
        return Examples(
            good=[(EXAMPLE, EXTENDED), (EXAMPLE, LOOKED_UP)],
            bad=[(EXAMPLE, silent), (EXAMPLE, idle)],
        )
