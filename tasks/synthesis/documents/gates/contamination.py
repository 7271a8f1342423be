"""Gate: no question repeats a benchmark's, by the rules of `leaks.index`."""

from tutti.tasks.synthesis.documents.gates.example import PASSAGES, maker, question, who
from tutti.tasks.synthesis.documents.gates.gate import QuestionExamples, QuestionGate
from tutti.tasks.synthesis.gating.contamination import copy_verdict

KNOWN = "Which company made the valve of the old water tank in Bergen?"
CONTAMINATION = QuestionGate(
    "contamination",
    "It copies no benchmark's question: as it is, in part, or with few words changed.",
    lambda task, context: copy_verdict(task.question, context.benchmarks),
    QuestionExamples(
        PASSAGES,
        good=(question(), who()),
        bad=(maker(question=KNOWN), maker(question=f"Tell me: {KNOWN}")),
        benchmarks=(KNOWN, "How many apples does Tom have after he buys 7 bags of 4?"),
    ),
)
