"""Gate: no question repeats an earlier one.

A sentence with gaps is used once, because two questions of one sentence would give away each
other's answers. Questions of a teacher are compared by words, answers and quotations (MinHash).
"""

from itertools import pairwise

import numpy as np

from tutti.tasks.synthesis.documents.base.from_passages import ASKED
from tutti.tasks.synthesis.documents.base.question import quotation
from tutti.tasks.synthesis.documents.gates.example import PASSAGES, maker, question, who
from tutti.tasks.synthesis.documents.gates.gate import (
    QuestionContext,
    QuestionExamples,
    QuestionGate,
)
from tutti.tasks.synthesis.gating.seen import FACTS, WORDS, Fingerprint, hash64, min_hash
from tutti.tasks.synthesis.gating.wording import spaced, words_of
from tutti.tasks.task_sets import PASSED, Task, Verdict


def _judged(task: Task, context: QuestionContext) -> Verdict:
    """Reject the later of two similar questions. `measured` is the estimated similarity."""
    print_ = fingerprint(task)
    found = context.seen.find(print_)
    if found is None:
        context.seen.add(print_)
        return PASSED
    return Verdict(False, f"asks what {found.task_id} asks", found.similarity)


def fingerprint(task: Task) -> Fingerprint:
    """Return the compared features of a question."""
    words = words_of(task.question)
    pairs = [f"{one} {two}" for one, two in pairwise(words)]
    told = quotation(task) if task.template in ASKED else task.question
    facts = min_hash({*words_of(quotation(task)), f"answer{spaced(task.answer)}"}, WORDS, FACTS)
    source = task.slots["source"]
    return Fingerprint(
        task.task_id,
        hash64(source + spaced(told)),
        hash64(source + spaced(task.answer)),
        np.concatenate([min_hash({*words, *pairs}, 0, WORDS), facts]),
    )


DUPLICATES = QuestionGate(
    "duplicates",
    "No earlier question asks the same, of the same sentence or in other words (MinHash).",
    _judged,
    QuestionExamples(
        PASSAGES,
        good=(question(), who(), maker()),
        bad=(  # the same, the same sentence with another gap, and the same in other words
            question(),
            question(
                kind="term",
                question='Which term belongs in the gap in "The pump"? '
                "The pump runs for 35 minutes after each rinse of the ____.",
                answer="tank",
            ),
            maker(question="By which company was the upper tank's valve made?"),
        ),
    ),
)
