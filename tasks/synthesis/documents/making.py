"""A source of questions about documents, by a program; and what a request to it will take.

The same request over the same index gives the same bytes.
"""

import asyncio
import time
from collections import Counter
from collections.abc import AsyncGenerator, Iterator, Sequence
from pathlib import Path
from random import Random

from tutti.storage import Catalog
from tutti.tasks.synthesis.documents.corpus import Corpus, open_corpus
from tutti.tasks.synthesis.documents.from_passages import questions_from_passages
from tutti.tasks.synthesis.documents.gates.gate import QuestionContext
from tutti.tasks.synthesis.documents.judging import (
    DocumentsRequest,
    QuestionParts,
    judge,
    judged_part,
)
from tutti.tasks.synthesis.documents.question import document_task
from tutti.tasks.task_sets import NothingMade, SetInMaking, SetPlan, Task

BATCH = 200
"""Candidates shown to a gate at once."""
SAMPLE = 200
"""Candidates of a plan's sample."""


class PassageSource(QuestionParts):
    """Questions that a program finds in passages.

    Raises from its parts NothingMade, EmbedderFailed.
    """

    def __init__(
        self, request: DocumentsRequest, catalog: Catalog, benchmarks: Sequence[str] = ()
    ) -> None:
        """`benchmarks`: questions that none may repeat. It reads the index's passages. Raises
        UsageError for an index that cannot be asked about."""
        corpus = open_corpus(request.index, catalog, request.seed)
        super().__init__(request, corpus, benchmarks, "")

    async def parts(self, work: Path, made: SetInMaking) -> AsyncGenerator[Path, None]:
        """A batch of candidates each, in the seed's order."""
        given = self.corpus, self.request, self.benchmarks
        context, candidates = await asyncio.to_thread(context_of, *given)
        for batch in batches(candidates):
            yield await asyncio.to_thread(judged_part, work, batch, context)


def context_of(
    corpus: Corpus, request: DocumentsRequest, benchmarks: Sequence[str]
) -> tuple[QuestionContext, list[Task]]:
    """What the gates use, and the program's candidates in the seed's order. Raises NothingMade."""
    candidates = candidates_of(corpus, request.seed)
    if not candidates:
        raise NothingMade(
            f"{corpus.index_id}: none of the sentences of its {len(corpus.passages)} passages can "
            "be asked about: they need 8 to 40 words and one number, name or term"
        )
    context = QuestionContext(corpus, request.rank, benchmarks)
    context.note(candidates)
    return context, candidates


def candidates_of(corpus: Corpus, seed: int) -> list[Task]:
    """All questions that the program finds, in the seed's order."""
    passages = {each.id: each for each in corpus.passages}
    found = [
        document_task(question, passages[question.document], kind)
        for kind, question in questions_from_passages(corpus.passages)
    ]
    Random(f"{seed}/documents").shuffle(found)
    return found


def batches(candidates: Sequence[Task]) -> Iterator[Sequence[Task]]:
    """The candidates, `BATCH` at a time."""
    for start in range(0, len(candidates), BATCH):
        yield candidates[start : start + BATCH]


def plan_document_set(
    request: DocumentsRequest, catalog: Catalog, benchmarks: Sequence[str] = ()
) -> SetPlan:
    """Judge a sample, and reckon from it. Raises as `PassageSource`."""
    corpus = open_corpus(request.index, catalog, request.seed)
    context, candidates = context_of(corpus, request, benchmarks)
    sample = candidates[:SAMPLE]
    began = time.monotonic()
    judged = judge(sample, context)
    each_s = (time.monotonic() - began) / len(sample)
    passed = sum(each.reason is None for each in judged)
    wanted = min(len(candidates), request.size * len(sample) / max(1, passed))
    possible = round(len(candidates) * passed / len(sample))
    fewer = "" if possible >= request.size else f", fewer than the {request.size} asked for"
    return SetPlan(
        candidates=len(candidates),
        sample=len(sample),
        passed=passed,
        dropped=Counter(each.gates[-1] for each in judged if each.reason is not None),
        seconds=wanted * each_s,
        notes=[
            f"{corpus.sources} documents, {len(corpus.passages)} passages, "
            f"{len(candidates):,} candidates",
            f"about {possible:,} questions can be made{fewer}",
        ],
    )
