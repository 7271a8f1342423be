"""Gate: no other sentence gives another answer, as far as can be checked.

Compared are the sentences of the 10 passages that a search for the question finds. One gives
another answer if it has four fifths of the words that surround the answer in the quotation, by
number and by weight, and not the answer. A word weighs by how few passages have it, so that the
same said of another thing, in a sheet for each, is another statement. Other words for the same
thing are not seen.
"""

from collections.abc import Sequence

from tutti.tasks.retrieval import Passage
from tutti.tasks.synthesis.documents.gates.example import PASSAGES, maker, question, who
from tutti.tasks.synthesis.documents.gates.gate import QuestionContext, QuestionExamples
from tutti.tasks.synthesis.documents.question import quotation
from tutti.tasks.synthesis.gating.wording import words_of
from tutti.tasks.task_sets import Task, Verdict

ALIKE = 0.8


class SingleAnswer:
    """Looks for sentences that say the same of something else."""

    name = "single_answer"
    about = "No sentence that a search for it finds says the same with another answer."

    async def judge(self, tasks: Sequence[Task], context: QuestionContext) -> list[Verdict]:
        """`measured` is the largest share of the words around the answer in a sentence without
        it."""
        hits = context.search(tasks)
        return [_judged(*pair, context) for pair in zip(tasks, hits, strict=True)]

    def examples(self) -> QuestionExamples:
        """A sentence with another number, and one with another name."""
        texts = (
            "The pump runs for 40 minutes after each rinse of the tank.",
            "The spare key of the pump house is kept by Bo Reed in the office.",
        )
        others = [Passage(f"new.md#{n}", text, "New", "new.md", n) for n, text in enumerate(texts)]
        return QuestionExamples((*PASSAGES, *others), good=(maker(),), bad=(question(), who()))


def _judged(task: Task, hits: Sequence[Passage], context: QuestionContext) -> Verdict:
    answer = set(words_of(task.answer))
    own = set(words_of(quotation(task))) - answer
    if not own:
        return Verdict(False, "the quotation is nothing but the answer")
    weights = {word: context.corpus.weight(word) for word in own}
    whole, alike, nearest = sum(weights.values()), 0.0, ""
    for text, words in (each for hit in hits for each in context.corpus.said(hit)):
        shared = own & words
        share = min(len(shared) / len(own), sum(weights[word] for word in shared) / whole)
        if share > alike and not answer <= words:
            alike, nearest = share, text
    reason = f"another answer: {nearest[:100]!r}" if alike >= ALIKE else ""
    return Verdict(not reason, reason, alike)
