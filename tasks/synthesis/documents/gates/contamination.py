"""Gate: no question repeats a benchmark's, by the rules of `gating.contamination`."""

from collections.abc import Sequence

from tutti.tasks.synthesis.documents.gates.example import PASSAGES, maker, question, who
from tutti.tasks.synthesis.documents.gates.gate import QuestionBench, QuestionExamples
from tutti.tasks.synthesis.documents.question import DocumentTask
from tutti.tasks.synthesis.gating.contamination import benchmark_index
from tutti.tasks.synthesis.gating.gate import PASSED, Verdict


class Contamination:
    """Looks for a bench's `benchmarks` in questions."""

    name = "contamination"
    about = "It repeats no benchmark's question: 13 words in a row, or a near embedding."

    def judge(self, tasks: Sequence[DocumentTask], bench: QuestionBench) -> list[Verdict]:
        """`measured` is the cosine, or 1 where words repeat."""
        if not bench.benchmarks:
            return [PASSED] * len(tasks)
        index = benchmark_index(tuple(bench.benchmarks))
        return [index.judge(each.question) for each in tasks]

    def examples(self) -> QuestionExamples:
        """A benchmark's question as it is, and with a word more."""
        known = "Which company made the valve of the old water tank in Bergen?"
        return QuestionExamples(
            PASSAGES,
            good=(question(), who()),
            bad=(maker(question=known), maker(question=f"Tell me: {known}")),
            benchmarks=(known, "How many apples does Tom have after he buys 7 bags of 4?"),
        )
