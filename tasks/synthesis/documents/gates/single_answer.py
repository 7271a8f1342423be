"""Gate: no other sentence gives another answer, as far as can be checked.

A sentence in the hits of a search gives another answer if it lacks the answer and has four fifths
of the words around the answer in the quotation, by number and by weight.
"""

from tutti.tasks.retrieval import Passage
from tutti.tasks.synthesis.documents.base.question import quotation
from tutti.tasks.synthesis.documents.gates.example import PASSAGES, maker, question, who
from tutti.tasks.synthesis.documents.gates.gate import (
    QuestionContext,
    QuestionExamples,
    QuestionGate,
)
from tutti.tasks.synthesis.gating.wording import words_of
from tutti.tasks.task_sets import Task, Verdict

ALIKE = 0.8


def _judged(task: Task, context: QuestionContext) -> Verdict:
    """`measured`: the largest share of words around the answer in a sentence without it."""
    answer = set(words_of(task.answer))
    own = set(words_of(quotation(task))) - answer
    if not own:
        return Verdict(False, "the quotation is nothing but the answer")
    (hits,) = context.search([task])
    weights = {word: context.corpus.weight(word) for word in own}
    whole, alike, nearest = sum(weights.values()), 0.0, ""
    for text, words in (each for hit in hits for each in context.corpus.sentences(hit)):
        shared = own & words
        share = min(len(shared) / len(own), sum(weights[word] for word in shared) / whole)
        if share > alike and not answer <= words:
            alike, nearest = share, text
    reason = f"another answer: {nearest[:100]!r}" if alike >= ALIKE else ""
    return Verdict(not reason, reason, alike)


OTHERS = (
    "The pump runs for 40 minutes after each rinse of the tank.",
    "The spare key of the pump house is kept by Bo Reed in the office.",
)
SINGLE_ANSWER = QuestionGate(
    "single_answer",
    "No sentence that a search for it finds says the same with another answer.",
    _judged,
    QuestionExamples(
        # a sentence with another number, and one with another name
        (*PASSAGES, *(Passage(f"new.md#{n}", t, "New", "new.md", n) for n, t in enumerate(OTHERS))),
        good=(maker(),),
        bad=(question(), who()),
    ),
    searches=True,
)
