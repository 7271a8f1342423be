"""A set of questions about documents, by a teacher model: through the same gates as a program's.

In: a request, an endpoint. Out: a stored task set. The teacher is shown a few passages of one
document at a time and asked for a few questions; what is missing after the gates is asked for of
further passages. Its answers are kept in a work folder until a set is entered, so that a run that
was killed, or whose budget is spent, or that goes on with another size, pays for nothing twice.
"""

import asyncio
import shutil
from collections.abc import Sequence
from dataclasses import dataclass, field
from math import ceil
from random import Random
from typing import Any

from tutti.storage import Catalog, content_hash, held
from tutti.tasks.retrieval import Passage
from tutti.tasks.synthesis.documents.by_teacher import DocumentQuestions, ask_about_documents
from tutti.tasks.synthesis.documents.corpus import Corpus, open_corpus
from tutti.tasks.synthesis.documents.gates.gate import QuestionContext
from tutti.tasks.synthesis.documents.gathering import Gathering
from tutti.tasks.synthesis.documents.question import BY_TEACHER, DocumentTask
from tutti.tasks.synthesis.documents.request import DocumentsRequest
from tutti.tasks.synthesis.generate import find_task_set
from tutti.tasks.synthesis.making.by_teacher import TeacherSet
from tutti.tasks.synthesis.making.make import Show, work_folder
from tutti.tasks.synthesis.teacher import (
    Meter,
    Prompt,
    StepPlan,
    Teacher,
    TeacherBudget,
    TeacherClient,
    TeacherEndpoint,
    TeacherFailed,
    TeacherPlan,
    TeacherPrices,
    TeacherSampling,
    open_store,
    read_prompts,
)
from tutti.tasks.synthesis.teacher.plan import TOKENS_PER_S

PER_CALL = 4
"""Questions asked for in one call."""
SHOWN_CHARS = 4_000
"""Of passages in one prompt."""
CHARS_PER_TOKEN, QUESTION_TOKENS = 4, 90
PROMPT = "documents"


async def make_document_set_by_teacher(
    request: DocumentsRequest,
    endpoint: TeacherEndpoint,
    prices: TeacherPrices | None,
    catalog: Catalog,
    benchmarks: Sequence[str] = (),
    show: Show = lambda done, total, note: None,
) -> TeacherSet:
    """Make the set, or find an existing one.

    Raises UsageError, TeacherFailed, BudgetSpent (what was paid for is kept), NothingMade,
    EmbedderFailed, StoreError.
    """
    prompt = read_prompts()[PROMPT]
    corpus = await asyncio.to_thread(open_corpus, request.index, catalog, request.seed)
    request_hash = request.request_hash(corpus.index_id, prompt.hash)
    known = find_task_set(catalog, request_hash)
    if known is not None:
        return TeacherSet(known, "")
    asked_of = [corpus.index_id, request.teacher, request.seed, prompt.hash]
    work = work_folder(catalog, content_hash(asked_of))
    meter = Meter(TeacherBudget(request.usd, request.calls), prices)
    with held(catalog, f"synthesizing {work.name}"):  # two would pay for the same answers
        context = QuestionContext(corpus, request.rank, benchmarks)
        gathered = Gathering(context, request.size, work / request_hash)
        asking = _Asking(corpus, prompt, gathered, context)
        with open_store(work / "teacher") as store:
            async with TeacherClient(endpoint, store) as client:
                sampling = TeacherSampling(seed=request.seed)
                asking.teacher = Teacher(
                    client, endpoint, store, meter, sampling, request.concurrency
                )
                await asking.run(request, show)
        gathered.check(f"its {corpus.sources} documents have no more passages to ask about")
        named: dict[str, Any] = {"request": request_hash, "compared_with": len(benchmarks)}
        named |= {"asked": request.as_asked(corpus.index_id), "prompts": [prompt.lineage]}
        named |= {"teacher_rejects": [list(each) for each in asking.rejects]}
        task_set_id = await asyncio.to_thread(gathered.enter, named, catalog)
        shutil.rmtree(work)
    return TeacherSet(task_set_id, meter.text)


@dataclass
class _Asking:
    """Asks about parts of the documents until there are enough questions."""

    corpus: Corpus
    prompt: Prompt
    gathered: Gathering
    context: QuestionContext
    rejects: list[tuple[str, str]] = field(default_factory=list)
    """(what the teacher gave or was asked, why it is wrong), before the gates."""
    teacher: Teacher = field(init=False)

    async def run(self, request: DocumentsRequest, show: Show) -> None:
        """Round after round, each of as many calls as the missing questions need."""
        parts, at = parts_of(self.corpus, request.seed), 0
        while not self.gathered.is_whole and at < len(parts):
            missing = request.size - len(self.gathered.accepted)
            batch = range(at, min(at + ceil(missing / PER_CALL), len(parts)))
            at = batch.stop
            candidates = await self._asked([(place, parts[place]) for place in batch])
            await asyncio.to_thread(self._judge, candidates)
            show(len(self.gathered.accepted), request.size, self.gathered.drops())

    def _judge(self, candidates: Sequence[DocumentTask]) -> None:
        if candidates:
            self.context.note(candidates)
            self.gathered.take(candidates)

    async def _asked(self, parts: Sequence[tuple[int, Sequence[Passage]]]) -> list[DocumentTask]:
        """The questions of a round, in the parts' order. What was paid for is kept whatever else
        fails."""
        outcomes = await asyncio.gather(
            *(self._ask(place, part) for place, part in parts), return_exceptions=True
        )
        failed = [each for each in outcomes if isinstance(each, BaseException)]
        for error in failed:
            if not (isinstance(error, TeacherFailed) and error.is_final):
                raise error
            self.rejects.append(("a part of a document", str(error)))
        found = [each for each in outcomes if isinstance(each, DocumentQuestions)]
        self.rejects += [(str(given), why) for each in found for given, why in each.rejects]
        passages = {each.id: each for each in self.corpus.passages}
        return [
            DocumentTask.of(question, passages[question.document], BY_TEACHER)
            for each in found
            for question in each.questions
        ]

    async def _ask(self, place: int, part: Sequence[Passage]) -> DocumentQuestions:
        return await ask_about_documents(self.teacher, self.prompt, part, PER_CALL, str(place))


def parts_of(corpus: Corpus, seed: int) -> list[list[Passage]]:
    """Adjacent passages of one document, as many as one prompt shows, in the seed's order."""
    parts: list[list[Passage]] = []
    room, source = 0, None
    for passage in corpus.passages:
        if passage.source != source or len(passage.text) > room:
            parts.append([])
            room, source = SHOWN_CHARS, passage.source
        parts[-1].append(passage)
        room -= len(passage.text)
    Random(f"{seed}/parts").shuffle(parts)
    return parts


def plan_by_teacher(
    request: DocumentsRequest, catalog: Catalog, prices: TeacherPrices | None
) -> TeacherPlan:
    """What the teacher will be asked, if no question is dropped. Raises UsageError."""
    corpus = open_corpus(request.index, catalog, request.seed)
    parts = parts_of(corpus, request.seed)
    calls = ceil(request.size / PER_CALL)
    asked = parts[:calls]
    own = len(read_prompts()[PROMPT].text) // CHARS_PER_TOKEN
    shown = sum(len(each.text) for part in asked for each in part) // CHARS_PER_TOKEN
    answered = len(asked) * PER_CALL * QUESTION_TOKENS
    step = StepPlan(PROMPT, len(asked), len(asked) * own + shown, answered)
    usd = None if prices is None else prices.usd(step.prompt_tokens, step.completion_tokens)
    seconds = ceil(step.calls / request.concurrency) * PER_CALL * QUESTION_TOKENS / TOKENS_PER_S
    return TeacherPlan([step], usd, seconds / 60)
