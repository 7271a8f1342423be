"""Replay: the golden calls give the stated state, and give it again."""

from collections.abc import Sequence

from tutti.tasks.synthesis.domains import DomainTask, changed_task
from tutti.tasks.synthesis.gating.example import EXAMPLE, EXTENDED
from tutti.tasks.synthesis.gating.gate import Examples, GateContext
from tutti.tasks.task_sets import PASSED, Verdict


class ReplayGate:
    """Compares with `expected`, and a second replay with the first."""

    name = "replay"
    about = "Two replays of the golden calls give the state that the task states."

    async def judge(self, tasks: Sequence[DomainTask], context: GateContext) -> list[Verdict]:
        """Replay once more, and keep what the rules say of it for the gate `policy`. A task that
        states no state is only compared with itself."""
        again = await context.toolkit.replay(tasks, ask_rules=True)
        context.ruled |= {pair[0].task_id: pair for pair in zip(tasks, again, strict=True)}
        verdicts = []
        for task, second in zip(tasks, again, strict=True):
            first = context.replays[task.task_id]
            if second.after != first.after or second.results != first.results:
                verdicts.append(Verdict(False, "a second replay gave another state or results"))
            elif task.world.expected and task.world.expected != first.after:
                wanted, found = task.world.expected[:12], first.after[:12]
                verdicts.append(Verdict(False, f"the state is {found}, stated is {wanted}"))
            else:
                verdicts.append(PASSED)
        return verdicts

    def examples(self) -> Examples:
        """A state that nothing leads to, and a toolkit that uses the clock."""
        stated = changed_task(EXTENDED, expected="0" * 64)
        changed = 'loan["days"] += days'
        drifting = EXAMPLE.model_copy(
            update={
                "toolkit": "import time\n"
                + EXAMPLE.toolkit.replace(changed, f"{changed} + time.perf_counter_ns() % 1009")
            }
        )
        return Examples(good=[(EXAMPLE, EXTENDED)], bad=[(EXAMPLE, stated), (drifting, EXTENDED)])
