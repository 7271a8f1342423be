"""Questions about a user's own passages, each with its source, by a teacher.

In: passages (of an index's `PassageStore`, or any), how many questions. Out: questions whose
quotation is in the passage character for character and whose answer is in the quotation; the
others, with the reason. That nobody can answer without retrieval is not proven here: the gate with
the blind solver asks. `from_passages` makes such questions without a model.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pydantic import BaseModel, ConfigDict

from tutti.tasks.retrieval import Passage
from tutti.tasks.synthesis.programs.program import split_of
from tutti.tasks.synthesis.task import Task
from tutti.tasks.synthesis.teacher.asking import Teacher
from tutti.tasks.synthesis.teacher.items import ItemsQuestion, ask_items
from tutti.tasks.synthesis.teacher.prompts import Prompt

MOST_ANSWER = 80
"""Characters: an answer that is compared must be short."""


class DocumentQuestion(BaseModel):
    """A question with its source."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    question: str
    answer: str
    document: str
    """The passage's id."""
    quote: str
    """Where the answer stands."""


@dataclass(frozen=True)
class DocumentQuestions:
    """What came of asking about passages."""

    questions: Sequence[DocumentQuestion]
    rejects: Sequence[tuple[Any, str]]
    """What the teacher gave, and why it is wrong."""


def question_reason(question: DocumentQuestion, passages: Mapping[str, Passage]) -> str:
    """Why a question is not answered by its source; empty if it is."""
    passage = passages.get(question.document)
    if passage is None:
        return f"document: {question.document!r} is none of the given passages"
    if not question.quote.strip() or question.quote not in passage.text:
        return f"quote: {question.quote[:80]!r} is not in {question.document}, word for word"
    if not question.answer.strip() or question.answer not in question.quote:
        return f"answer: {question.answer[:80]!r} is not in the quote, word for word"
    if len(question.answer) > MOST_ANSWER:
        return f"answer: {len(question.answer)} characters, at most {MOST_ANSWER}"
    if question.answer.casefold() in question.question.casefold():
        return f"question: it contains the answer {question.answer!r}"
    return ""


async def ask_about_documents(
    teacher: Teacher, prompt: Prompt, passages: Sequence[Passage], count: int, name: str
) -> DocumentQuestions:
    """So many questions about passages that fit one prompt; `name` is unique in the run.

    Raises TeacherFailed, BudgetSpent.
    """
    by_id = {passage.id: passage for passage in passages}
    shown = "\n".join(json.dumps({"id": p.id, "text": p.text}) for p in passages)

    def render(existing: Sequence[DocumentQuestion], missing: int) -> str:
        known = "\n".join(each.question for each in existing) or "none"
        return prompt.render(passages=shown, count=str(missing), existing=known)

    def check(item: DocumentQuestion, existing: Sequence[DocumentQuestion]) -> str:
        if any(each.question == item.question for each in existing):
            return f"{item.question!r} exists already"
        return question_reason(item, by_id)

    question = ItemsQuestion(f"documents-{name}", render, DocumentQuestion, count, check)
    found = await ask_items(teacher, question)
    return DocumentQuestions(found.kept, found.rejects)


def task_of(question: DocumentQuestion, passage: Passage, family: str) -> Task:
    """The question as a task. All tasks of one source document are in one split."""
    slots = {"document": question.document, "quote": question.quote}
    split = split_of(passage.source or passage.id)
    return Task(family, question.question, question.answer, slots, (question.document,), split)
