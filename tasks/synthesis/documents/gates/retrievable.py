"""Gate: a search for the question's own words finds its source.

The search is the one that the agent's tool makes over the same index. The source must be among the
first `rank` hits: the tool shows 2 a search, so that at rank 2 an agent that searches the question
as it stands reads the answer. Another passage with the whole quotation serves as well.
"""

from collections.abc import Sequence

from tutti.tasks.retrieval import Passage
from tutti.tasks.synthesis.documents.gates.example import PASSAGES, maker, question, who
from tutti.tasks.synthesis.documents.gates.gate import SEARCHED, QuestionContext, QuestionExamples
from tutti.tasks.synthesis.documents.question import flat
from tutti.tasks.task_sets import Task, Verdict


class Retrievable:
    """Searches the index."""

    name = "retrievable"
    about = "A search of the index for the question finds its source among the first hits."

    async def judge(self, tasks: Sequence[Task], context: QuestionContext) -> list[Verdict]:
        """`measured` is the source's rank; none where it is not among the hits looked at."""
        return [
            _judged(task, hits, context.rank)
            for task, hits in zip(tasks, context.search(tasks), strict=True)
        ]

    def examples(self) -> QuestionExamples:
        """A question whose words are those of other documents."""
        lost = "On which day are the lamps tested before the tank is full and the rinse begins?"
        valve = "Which lamp of the upper tank's valve is tested on every Monday, lamps of brine?"
        return QuestionExamples(
            PASSAGES,
            good=(question(), who(), maker()),
            bad=(
                maker(question=lost, document="none", quote="nobody"),
                who(question=valve, document="none", quote="nobody"),
            ),
        )


def _judged(task: Task, hits: Sequence[Passage], rank: int) -> Verdict:
    quote = flat(task.slots["quote"])
    ranks = (
        place for place, hit in enumerate(hits, 1) if hit.id == task.key or quote in flat(hit.text)
    )
    found = next(ranks, None)
    if found is None:
        return Verdict(False, f"its source is not among the first {SEARCHED} hits")
    reason = "" if found <= rank else f"its source is hit {found}; the first {rank} are shown"
    return Verdict(found <= rank, reason, float(found))
