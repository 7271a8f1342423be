"""Sets of questions about documents by a teacher: its questions, the source, and its plan.

The teacher gets a few passages of one document at a time, and further passages as long as questions
are missing after the gates. Its answers stay in a work folder until a set is entered, so that no
run pays for them twice.
"""

import asyncio
import json
from collections.abc import AsyncGenerator, Sequence
from math import ceil
from pathlib import Path
from random import Random
from typing import Any

from tutti.storage import Catalog, content_hash
from tutti.tasks.retrieval import Passage
from tutti.tasks.synthesis.documents.base.corpus import Corpus, open_corpus
from tutti.tasks.synthesis.documents.base.question import (
    BY_TEACHER,
    DocumentQuestion,
    document_task,
    source_reason,
)
from tutti.tasks.synthesis.documents.gates.gate import QuestionContext
from tutti.tasks.synthesis.documents.judging import DocumentsRequest, QuestionParts, judged_part
from tutti.tasks.synthesis.making.teachers import TeacherPool, open_teachers
from tutti.tasks.synthesis.teacher import (
    Items,
    ItemsQuestion,
    Prompt,
    Teacher,
    TeacherFailed,
    TeacherPrices,
    ask_items,
    read_prompts,
)
from tutti.tasks.synthesis.teacher.plan import TOKENS_PER_S, StepPlan, sum_steps
from tutti.tasks.task_sets import SetInMaking, SetPlan, Task


def question_reason(question: DocumentQuestion, passage: Passage | None) -> str:
    """Return why a question is sent back, or an empty string: its source does not answer it, or it
    gives the answer away."""
    reason = source_reason(question, passage)
    if not reason and question.answer.casefold() in question.question.casefold():
        return f"question: it contains the answer {question.answer!r}"
    return reason


async def ask_about_documents(
    teacher: Teacher, prompt: Prompt, passages: Sequence[Passage], count: int, name: str
) -> Items[DocumentQuestion]:
    """Return `count` questions about passages that fit one prompt; `name` is unique in the run.
    Raises TeacherFailed, BudgetSpent."""
    by_id = {passage.id: passage for passage in passages}
    shown = "\n".join(json.dumps({"id": p.id, "text": p.text}) for p in passages)

    def render(existing: Sequence[DocumentQuestion], missing: int) -> str:
        known = "\n".join(each.question for each in existing) or "none"
        return prompt.render(passages=shown, count=str(missing), existing=known)

    def check(item: DocumentQuestion, existing: Sequence[DocumentQuestion]) -> str:
        if any(each.question == item.question for each in existing):
            return f"{item.question!r} exists already"
        return question_reason(item, by_id.get(item.document))

    question = ItemsQuestion(f"documents-{name}", render, DocumentQuestion, count, check)
    return await ask_items(teacher, question)


PER_CALL = 4
SHOWN_CHARS = 4_000
CHARS_PER_TOKEN, QUESTION_TOKENS = 4, 90
PROMPT = "documents"


class TeacherPassageSource(QuestionParts):
    """Questions of a teacher about parts of the documents, until there are enough. `parts` may
    raise TeacherFailed, BudgetSpent (paid answers stay stored), EmbedderFailed."""

    is_paid = True
    exhausted = "its {documents} documents have no more passages to ask about"

    def __init__(
        self,
        request: DocumentsRequest,
        teachers: TeacherPool,
        catalog: Catalog,
        benchmarks: Sequence[str] = (),
    ) -> None:
        """Read the index's passages. `benchmarks`: questions that no question may repeat. Raises
        UsageError for an index without usable passages."""
        self.prompt = read_prompts()[PROMPT]
        corpus = open_corpus(request.index, catalog, request.seed)
        super().__init__(request, corpus, benchmarks, self.prompt.hash)
        # The answers serve a request of another size, too.
        asked_of = [corpus.index_id, request.teacher, request.seed, self.prompt.hash]
        self.work_name, self.teachers = content_hash(asked_of), teachers
        self._rejects: list[tuple[str, str]] = []
        """(what the teacher gave or was asked, why it is wrong), before the gates."""

    async def parts(self, work: Path, made: SetInMaking) -> AsyncGenerator[Path, None]:
        """Yield rounds, each of as many calls as the missing questions need."""
        context = QuestionContext(self.corpus, self.request.rank, self.benchmarks)
        parts, at = parts_of(self.corpus, self.request.seed), 0
        async with open_teachers(self.teachers, work / "teacher") as ((teacher,), meter):
            while at < len(parts):
                missing = self.request.size - len(made.accepted)
                batch = range(at, min(at + ceil(missing / PER_CALL), len(parts)))
                at = batch.stop
                candidates = await self._asked(teacher, [(n, parts[n]) for n in batch])
                self.spent = meter.text
                if candidates:
                    context.note(candidates)
                    folder = work / str(self.request_hash)
                    yield await asyncio.to_thread(judged_part, folder, candidates, context)

    async def _asked(
        self, teacher: Teacher, parts: Sequence[tuple[int, Sequence[Passage]]]
    ) -> list[Task]:
        outcomes = await asyncio.gather(
            *(
                ask_about_documents(teacher, self.prompt, part, PER_CALL, str(place))
                for place, part in parts
            ),
            return_exceptions=True,
        )
        failed = [each for each in outcomes if isinstance(each, BaseException)]
        for error in failed:
            if not (isinstance(error, TeacherFailed) and error.is_final):
                raise error
            self._rejects.append(("a part of a document", str(error)))
        found = [each for each in outcomes if isinstance(each, Items)]
        self._rejects += [(str(given), why) for each in found for given, why in each.rejects]
        passages = {each.id: each for each in self.corpus.passages}
        return [
            document_task(question, passages[question.document], BY_TEACHER)
            for each in found
            for question in each.kept
        ]

    def detail(self, made: SetInMaking) -> dict[str, Any]:
        rejects = [list(each) for each in self._rejects]
        asked = super().detail(made)
        return asked | {"prompts": [self.prompt.lineage], "teacher_rejects": rejects}


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
) -> SetPlan:
    """Return the plan of the teacher's calls if no question is dropped. Raises UsageError."""
    corpus = open_corpus(request.index, catalog, request.seed)
    parts = parts_of(corpus, request.seed)
    calls = ceil(request.size / PER_CALL)
    asked = parts[:calls]
    own = len(read_prompts()[PROMPT].text) // CHARS_PER_TOKEN
    shown = sum(len(each.text) for part in asked for each in part) // CHARS_PER_TOKEN
    answered = len(asked) * PER_CALL * QUESTION_TOKENS
    step = StepPlan(PROMPT, len(asked), len(asked) * own + shown, answered)
    seconds = ceil(step.calls / request.concurrency) * PER_CALL * QUESTION_TOKENS / TOKENS_PER_S
    return sum_steps([step], prices, seconds)
