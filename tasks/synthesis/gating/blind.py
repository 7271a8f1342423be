"""Gate: an agent that reads the text but has no tools fails.

There are two such agents. One repeats everything that it is shown: scenario, policy and
descriptions of tools. The other gives the most frequent answer of the tasks of the same template.
"""

from collections import Counter, defaultdict
from collections.abc import Sequence

from tutti.tasks.synthesis.domains import DomainTask
from tutti.tasks.synthesis.gating.gate import GateContext
from tutti.tasks.synthesis.gating.wording import communicates
from tutti.tasks.task_sets import PASSED, Verdict

MOST_GUESSED = 0.34
"""Largest share of a template's tasks with one answer: with more, guessing it is a method."""
LEAST_TASKS = 8
"""Fewest tasks of a template for which the share of an answer counts."""


async def judge_blind(tasks: Sequence[DomainTask], context: GateContext) -> list[Verdict]:
    """Test both agents on the tasks that need no change of the database. `measured` is the share of
    the template's tasks with the answer."""
    usual: dict[str, Counter[tuple[str, ...]]] = defaultdict(Counter)
    for task in tasks:
        usual[task.template][task.world.communicate] += 1
    return [_judged(task, context, usual[task.template]) for task in tasks]


def _judged(task: DomainTask, context: GateContext, answers: Counter[tuple[str, ...]]) -> Verdict:
    replay, facts = context.replay(task), task.world.communicate
    if replay.before != replay.after:
        return PASSED
    if not facts:  # `no_op` rejects it before
        return Verdict(False, "nothing must be done and nothing be said")
    if not communicates(f"{task.world.scenario.text}\n{context.shown(task)}", facts):
        return Verdict(False, f"{facts[0]!r} is said in what the agent is shown")
    share = answers[facts] / answers.total()
    if answers.total() >= LEAST_TASKS and share > MOST_GUESSED:
        what = f"{share:.0%} of the tasks of {task.template!r} have this answer"
        return Verdict(False, what, share)
    return Verdict(True, measured=share)
