"""Gate: no question repeats a benchmark's, by the rules of `leaks.index`."""

from collections.abc import Sequence

from tutti.tasks.synthesis.documents.gates.example import PASSAGES, maker, question, who
from tutti.tasks.synthesis.documents.gates.gate import QuestionContext, QuestionExamples
from tutti.tasks.synthesis.gating.contamination import copy_verdict
from tutti.tasks.task_sets import Task, Verdict


class Contamination:
    """Looks for a context's `benchmarks` in questions."""

    name = "contamination"
    about = "It copies no benchmark's question: as it is, in part, or with few words changed."

    async def judge(self, tasks: Sequence[Task], context: QuestionContext) -> list[Verdict]:
        """`measured` is the share of words that both have."""
        return [copy_verdict(each.question, context.benchmarks) for each in tasks]

    def examples(self) -> QuestionExamples:
        """A benchmark's question as it is, and with a word more."""
        known = "Which company made the valve of the old water tank in Bergen?"
        return QuestionExamples(
            PASSAGES,
            good=(question(), who()),
            bad=(maker(question=known), maker(question=f"Tell me: {known}")),
            benchmarks=(known, "How many apples does Tom have after he buys 7 bags of 4?"),
        )
