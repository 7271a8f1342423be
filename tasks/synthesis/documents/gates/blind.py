"""Gate: who sees the question and searches nothing fails.

Two blind solvers. One says what is the answer most often in questions of the same kind. The other
fills a gap with what usually stands between its neighbouring words in the documents. That no model
knows the answer from its training is not shown by either.
"""

from collections.abc import Sequence

from tutti.tasks.retrieval import Passage
from tutti.tasks.synthesis.documents.gates.example import PASSAGES, maker, question, who
from tutti.tasks.synthesis.documents.gates.gate import QuestionBench, QuestionExamples
from tutti.tasks.synthesis.documents.question import DocumentTask
from tutti.tasks.synthesis.gating.gate import Verdict
from tutti.tasks.synthesis.gating.wording import spaced, words_of

MOST_GUESSED = 0.1
"""Largest share of a kind's candidates with one answer."""
LEAST_REPEATED = 3
"""Candidates with one answer, before their share says something."""


class Blind:
    """Both blind solvers."""

    name = "blind"
    about = "Saying the usual answer, or what usually fills such a gap, does not solve it."

    def judge(self, tasks: Sequence[DocumentTask], bench: QuestionBench) -> list[Verdict]:
        """`measured` is the share of the more frequent guess."""
        return [_judged(each, bench) for each in tasks]

    def examples(self) -> QuestionExamples:
        """A gap that the same words surround elsewhere, and an answer that every question has."""
        again = "The pump runs for 35 minutes on Monday. After 9 the pump runs for 35 minutes. "
        other = Passage("old.md#0", again * 2, "Old notes", "old.md")
        same = [
            maker(question=f"Which company made valve {n}?", answer="Holm", document=str(n))
            for n in range(LEAST_REPEATED)
        ]
        return QuestionExamples((*PASSAGES, other), good=(who(), maker()), bad=(question(), *same))


def _judged(task: DocumentTask, bench: QuestionBench) -> Verdict:
    answers, own = bench.answers[task.kind], spaced(task.answer)
    share = answers[own] / answers.total()
    if answers[own] >= LEAST_REPEATED and share > MOST_GUESSED:
        what = f"{share:.0%} of the {task.kind} questions have the answer {task.answer!r}"
        return Verdict(False, what, share)
    word, usual = bench.neighbours.guess(task)
    if [word] == words_of(task.answer):
        what = f"{task.answer!r} usually stands between these words ({usual:.0%})"
        return Verdict(False, what, usual)
    return Verdict(True, measured=max(share, usual))
