"""Gate: three blind solvers fail.

One gives the most frequent answer of the question's kind, one fills a gap with the usual word
between its neighbours, and one guesses words that a fifth of the documents have. Knowledge from a
model's training is not tested.
"""

from tutti.tasks.retrieval import Passage
from tutti.tasks.synthesis.documents.gates.example import PASSAGES, maker, question, who
from tutti.tasks.synthesis.documents.gates.gate import (
    QuestionContext,
    QuestionExamples,
    QuestionGate,
)
from tutti.tasks.synthesis.gating.wording import NUMBER, spaced, words_of
from tutti.tasks.task_sets import Task, Verdict

MOST_GUESSED = 0.1
"""Largest share of a kind's candidates with one answer."""
EVERYDAY, LEAST_DOCUMENTS = 0.2, 3
"""Share and number of documents with a word that anybody in the field would guess."""
LEAST_REPEATED = 3
"""Candidates with one answer, before their share says something."""


def _judged(task: Task, context: QuestionContext) -> Verdict:
    """Judge a question; `measured` is the share of the most frequent guess."""
    answers, own = context.answers[task.template], spaced(task.answer)
    share = answers[own] / answers.total()
    if answers[own] >= LEAST_REPEATED and share > MOST_GUESSED:
        what = f"{share:.0%} of the {task.template} questions have the answer {task.answer!r}"
        return Verdict(False, what, share)
    word, usual = context.neighbours.guess(task)
    if [word] == words_of(task.answer):
        what = f"{task.answer!r} usually stands between these words ({usual:.0%})"
        return Verdict(False, what, usual)
    everyday = _everyday(task, context)
    if everyday >= EVERYDAY:
        return Verdict(False, f"{everyday:.0%} of the documents have {task.answer!r}", everyday)
    return Verdict(True, measured=max(share, usual, everyday))


def _everyday(task: Task, context: QuestionContext) -> float:
    """The share of documents with an answer of one word; 0 for numbers, and for few documents."""
    own = words_of(task.answer)
    found = (
        context.corpus.documents_with(own[0])
        if len(own) == 1 and not NUMBER.fullmatch(own[0])
        else 0
    )
    return found / context.corpus.sources if found >= LEAST_DOCUMENTS else 0.0


AGAIN = "The pump runs for 35 minutes on Monday. After 9 the pump runs for 35 minutes. "
BLIND = QuestionGate(
    "blind",
    "Neither the usual answer, the gap's usual word nor an everyday word solves it.",
    _judged,
    QuestionExamples(
        # A gap that the same words surround elsewhere, an answer that every question has, and one
        # that three of four documents have.
        (*PASSAGES, Passage("old.md#0", AGAIN * 2, "Old notes", "old.md")),
        good=(who(), maker()),
        bad=(
            question(),
            who(answer="tank"),
            *(
                maker(question=f"Which company made valve {n}?", answer="Holm", document=str(n))
                for n in range(LEAST_REPEATED)
            ),
        ),
    ),
)
