"""Gate: a search for the question's own words returns its source among the first `rank` hits.

The agent's tool shows 2 hits per search. Another passage with the whole quotation also counts.
"""

from typing import Any

from tutti.tasks.synthesis.documents.base.question import flat
from tutti.tasks.synthesis.documents.gates.example import PASSAGES, maker, question, who
from tutti.tasks.synthesis.documents.gates.gate import (
    SEARCHED,
    QuestionContext,
    QuestionExamples,
    QuestionGate,
)
from tutti.tasks.task_sets import Task, Verdict


def _judged(task: Task, context: QuestionContext) -> Verdict:
    """Judge a question; `measured` is the source's rank, None if it is not among the hits."""
    quote, (hits,) = flat(task.slots["quote"]), context.search([task])
    ranks = (
        place for place, hit in enumerate(hits, 1) if hit.id == task.key or quote in flat(hit.text)
    )
    found, rank = next(ranks, None), context.rank
    if found is None:
        return Verdict(False, f"its source is not among the first {SEARCHED} hits")
    reason = "" if found <= rank else f"its source is hit {found}; the first {rank} are shown"
    return Verdict(found <= rank, reason, float(found))


NOWHERE: dict[str, Any] = {"document": "none", "quote": "nobody"}
LOST = "On which day are the lamps tested before the tank is full and the rinse begins?"
LAMPS = "Which lamp of the upper tank's valve is tested on every Monday, lamps of brine?"
RETRIEVABLE = QuestionGate(
    "retrievable",
    "A search of the index for the question finds its source among the first hits.",
    _judged,
    QuestionExamples(  # questions with the words of other documents
        PASSAGES,
        good=(question(), who(), maker()),
        bad=(maker(question=LOST, **NOWHERE), who(question=LAMPS, **NOWHERE)),
    ),
    searches=True,
)
