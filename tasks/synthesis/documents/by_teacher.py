"""Questions about a user's own passages, each with its source, by a teacher.

In: passages, how many questions. Out: questions whose quotation is in the passage word for word and
whose answer is in the quotation; the others, with the reason. The gates judge them afterwards, as
they judge those of `from_passages`, which asks without a model.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from tutti.tasks.retrieval import Passage
from tutti.tasks.synthesis.documents.question import DocumentQuestion, source_reason
from tutti.tasks.synthesis.teacher import ItemsQuestion, Prompt, Teacher, ask_items


@dataclass(frozen=True)
class DocumentQuestions:
    """What came of asking about passages."""

    questions: Sequence[DocumentQuestion]
    rejects: Sequence[tuple[Any, str]]
    """What the teacher gave, and why it is wrong."""


def question_reason(question: DocumentQuestion, passage: Passage | None) -> str:
    """Why a question is sent back: its source does not answer it, or it says the answer; empty if
    it is right."""
    reason = source_reason(question, passage)
    if not reason and question.answer.casefold() in question.question.casefold():
        return f"question: it contains the answer {question.answer!r}"
    return reason


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
        return question_reason(item, by_id.get(item.document))

    question = ItemsQuestion(f"documents-{name}", render, DocumentQuestion, count, check)
    found = await ask_items(teacher, question)
    return DocumentQuestions(found.kept, found.rejects)
