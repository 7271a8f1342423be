"""A set of questions about documents, by a program: a request in, a stored task set out.

The same request over the same index gives the same bytes.
"""

import shutil
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from random import Random
from typing import Any

from tutti.storage import Catalog, held
from tutti.tasks.synthesis.documents.corpus import Corpus, open_corpus
from tutti.tasks.synthesis.documents.from_passages import questions_from_passages
from tutti.tasks.synthesis.documents.gates.gate import QuestionContext
from tutti.tasks.synthesis.documents.gathering import Gathering, judge
from tutti.tasks.synthesis.documents.question import DocumentTask
from tutti.tasks.synthesis.documents.request import DocumentsRequest
from tutti.tasks.synthesis.generate import find_task_set
from tutti.tasks.synthesis.making.make import Show, work_folder
from tutti.tasks.synthesis.making.request import NothingMade

BATCH = 200
"""Candidates shown to a gate at once."""
SAMPLE = 200
"""Candidates of a plan's sample."""


def make_document_set(
    request: DocumentsRequest,
    catalog: Catalog,
    benchmarks: Sequence[str] = (),
    show: Show = lambda done, total, note: None,
) -> str:
    """Make the set, or find an existing one; returns its id.

    `benchmarks`: questions that none may repeat. A run that was killed goes on. Raises UsageError
    for an index that cannot be asked about, NothingMade, EmbedderFailed, StoreError.
    """
    corpus = open_corpus(request.index, catalog, request.seed)
    request_hash = request.request_hash(corpus.index_id)
    known = find_task_set(catalog, request_hash)
    if known is not None:
        return known
    work = work_folder(catalog, request_hash)
    with held(catalog, f"synthesizing {request_hash}"):  # two would write one folder
        context, candidates = context_of(corpus, request, benchmarks)
        gathered = Gathering(context, request.size, work)
        for batch in batches(candidates):
            gathered.take(batch)
            show(len(gathered.accepted), request.size, gathered.drops())
            if gathered.is_whole:
                break
        if not gathered.is_whole:
            shutil.rmtree(work)  # nobody goes on with it: another size is another request
        gathered.check(f"its {corpus.sources} documents have no more sentences to ask about")
        named: dict[str, Any] = {"request": request_hash, "compared_with": len(benchmarks)}
        named |= {"asked": request.as_asked(corpus.index_id)}
        task_set_id = gathered.enter(named, catalog)
        shutil.rmtree(work)
    return task_set_id


def context_of(
    corpus: Corpus, request: DocumentsRequest, benchmarks: Sequence[str]
) -> tuple[QuestionContext, list[DocumentTask]]:
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


def candidates_of(corpus: Corpus, seed: int) -> list[DocumentTask]:
    """All questions that the program finds, in the seed's order."""
    passages = {each.id: each for each in corpus.passages}
    found = [
        DocumentTask.of(question, passages[question.document], kind)
        for kind, question in questions_from_passages(corpus.passages)
    ]
    Random(f"{seed}/documents").shuffle(found)
    return found


def batches(candidates: Sequence[DocumentTask]) -> Iterator[Sequence[DocumentTask]]:
    """The candidates, `BATCH` at a time."""
    for start in range(0, len(candidates), BATCH):
        yield candidates[start : start + BATCH]


@dataclass(frozen=True)
class DocumentsPlan:
    """What a request to the program will take, from a sample of its candidates."""

    passages: int
    documents: int
    candidates: int
    sample: int
    passed: int
    dropped: Mapping[str, int]
    """Of the sample, by gate."""
    asked: int
    seconds: float

    @property
    def possible(self) -> int:
        """About how many questions the documents give."""
        return round(self.candidates * self.passed / self.sample)

    @property
    def lines(self) -> list[str]:
        """For people."""
        drops = ", ".join(f"{gate} {n}" for gate, n in self.dropped.items()) or "none"
        enough = "" if self.possible >= self.asked else f", fewer than the {self.asked} asked for"
        return [
            f"{self.documents} documents, {self.passages} passages, {self.candidates:,} candidates",
            f"sample: {self.passed} of {self.sample} passed the gates; dropped: {drops}",
            f"about {self.possible:,} questions can be made{enough}; {self.seconds:,.0f} s",
            "calls of models: 0, tokens: 0, USD: 0 (a program makes them)",
        ]


def plan_document_set(
    request: DocumentsRequest, catalog: Catalog, benchmarks: Sequence[str] = ()
) -> DocumentsPlan:
    """Judge a sample, and reckon from it. Raises as `make_document_set`."""
    corpus = open_corpus(request.index, catalog, request.seed)
    context, candidates = context_of(corpus, request, benchmarks)
    sample = candidates[:SAMPLE]
    began = time.monotonic()
    judged = judge(sample, context)
    each_s = (time.monotonic() - began) / len(sample)
    passed = sum(row["accepted"] for row in judged)
    wanted = min(len(candidates), request.size * len(sample) / max(1, passed))
    return DocumentsPlan(
        passages=len(corpus.passages),
        documents=corpus.sources,
        candidates=len(candidates),
        sample=len(sample),
        passed=passed,
        dropped=Counter(row["gates"][-1] for row in judged if not row["accepted"]),
        asked=request.size,
        seconds=wanted * each_s,
    )
