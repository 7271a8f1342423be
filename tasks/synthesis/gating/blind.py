"""Blind: who sees the text but has no tools fails.

Two blind solvers. The parrot says all that it is shown: scenario, policy and tools' descriptions.
The guesser says what is right most often in tasks of the same template.
"""

from collections import Counter
from collections.abc import Mapping, Sequence

from tutti.tasks.synthesis.domains import DomainTask, changed_task
from tutti.tasks.synthesis.gating.example import EXAMPLE, EXTENDED, LOOKED_UP
from tutti.tasks.synthesis.gating.gate import Examples, GateContext
from tutti.tasks.synthesis.gating.wording import communicates
from tutti.tasks.task_sets import PASSED, Verdict

MOST_GUESSED = 0.34
"""Largest share of a template's tasks with one answer: more, and guessing it is a method."""
LEAST_TASKS = 8
"""Of a template, before a share of it says something."""


class Blind:
    """Where the database must change, somebody without tools fails in any case."""

    name = "blind"
    about = "Saying all that is shown, or guessing the template's usual answer, does not solve it."

    async def judge(self, tasks: Sequence[DomainTask], context: GateContext) -> list[Verdict]:
        """Both blind solvers on the tasks whose state is right from the beginning."""
        usual = _usual(tasks)
        return [self._judged(task, context, usual) for task in tasks]

    def _judged(
        self, task: DomainTask, context: GateContext, usual: Mapping[str, Counter[tuple[str, ...]]]
    ) -> Verdict:
        replay = context.replays[task.task_id]
        if replay.before != replay.after:
            return PASSED
        if not task.world.communicate:  # `no_op` says so first
            return Verdict(False, "nothing must be done and nothing be said")
        if not communicates(_shown(task, context), task.world.communicate):
            return Verdict(
                False, f"{task.world.communicate[0]!r} is said in what the agent is shown"
            )
        answers = usual[task.template]
        share = answers[task.world.communicate] / answers.total()
        if answers.total() >= LEAST_TASKS and share > MOST_GUESSED:
            what = f"{share:.0%} of the tasks of {task.template!r} have this answer"
            return Verdict(False, what, share)
        return Verdict(True, measured=share)

    def examples(self) -> Examples:
        """An answer that the user says, and one that a tool's description says."""
        told = LOOKED_UP.world.scenario.model_copy(update={"known": "Bo Reed; it is not Harbours."})
        tools = (EXAMPLE.tools[0].model_copy(update={"about": "Find a member of Harbours."}),)
        loose = EXAMPLE.model_copy(update={"tools": (*tools, *EXAMPLE.tools[1:])})
        return Examples(
            good=[(EXAMPLE, EXTENDED), (EXAMPLE, LOOKED_UP)],
            bad=[(EXAMPLE, changed_task(LOOKED_UP, scenario=told)), (loose, LOOKED_UP)],
        )


def _usual(tasks: Sequence[DomainTask]) -> Mapping[str, Counter[tuple[str, ...]]]:
    found: dict[str, Counter[tuple[str, ...]]] = {}
    for task in tasks:
        found.setdefault(task.template, Counter())[task.world.communicate] += 1
    return found


def _shown(task: DomainTask, context: GateContext) -> str:
    tools = context.domain.offered(task)
    texts = [task.world.scenario.text, context.domain.policy]
    texts += [f"{t.name} {t.about} " + " ".join(p.about for p in t.parameters) for t in tools]
    return "\n".join(texts)
