"""Gate: no question asks what an earlier one asks.

A sentence with gaps is asked about once: two questions of one sentence would tell each other's
answers. Of a teacher's questions, two with the same words are duplicates, and two about the same
answer in the same document whose words and quotations are alike by MinHash (`gating.seen`).
"""

from collections.abc import Sequence
from itertools import pairwise

import numpy as np

from tutti.tasks.synthesis.documents.from_passages import ASKED
from tutti.tasks.synthesis.documents.gates.example import PASSAGES, maker, question, who
from tutti.tasks.synthesis.documents.gates.gate import QuestionContext, QuestionExamples
from tutti.tasks.synthesis.documents.question import quotation
from tutti.tasks.synthesis.gating.seen import FACTS, WORDS, Fingerprint, hash64, min_hash
from tutti.tasks.synthesis.gating.wording import spaced, words_of
from tutti.tasks.task_sets import PASSED, Task, Verdict


class Duplicates:
    """Compares with all questions that passed, and remembers those that pass."""

    name = "duplicates"
    about = "No earlier question asks the same, of the same sentence or in other words (MinHash)."

    async def judge(self, tasks: Sequence[Task], context: QuestionContext) -> list[Verdict]:
        """The later of two questions is rejected. `measured` is the estimated similarity."""
        return [_judged(each, context) for each in tasks]

    def examples(self) -> QuestionExamples:
        """The same sentence with another gap, and a question in other words."""
        shown = "The pump runs for 35 minutes after each rinse of the ____."
        asked = f'Which term belongs in the gap in "The pump"? {shown}'
        return QuestionExamples(
            PASSAGES,
            good=(question(), who(), maker()),
            bad=(
                question(),
                question(kind="term", question=asked, answer="tank"),
                maker(question="By which company was the upper tank's valve made?"),
            ),
        )


def _judged(task: Task, context: QuestionContext) -> Verdict:
    print_ = fingerprint(task)
    found = context.seen.find(print_)
    if found is None:
        context.seen.add(print_)
        return PASSED
    return Verdict(False, f"asks what {found.task_id} asks", found.similarity)


def fingerprint(task: Task) -> Fingerprint:
    """What is compared of a question."""
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
