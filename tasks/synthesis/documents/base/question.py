"""A question about a passage, with its source."""

from pydantic import BaseModel, ConfigDict

from tutti.tasks.retrieval import Passage
from tutti.tasks.synthesis.documents.base.sentences import plain_text
from tutti.tasks.synthesis.programs.base.program import split_of
from tutti.tasks.task_sets import Task

FAMILY, BY_TEACHER = "documents", "teacher"
MOST_ANSWER = 80
"""Characters: an answer that is compared must be short."""


class DocumentQuestion(BaseModel):
    """A question with its source, from a teacher or a program."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    question: str
    answer: str
    document: str
    quote: str


def document_task(question: DocumentQuestion, passage: Passage, kind: str) -> Task:
    """Return the question as a task with its passage's metadata. `kind`: number, definition, name,
    term, or teacher; it is the task's template."""
    source = passage.source or passage.id
    slots = {"source": source, "title": passage.title, "quote": question.quote}
    return Task(
        key=question.document,
        inputs={"question": question.question},
        target={"answer": question.answer},
        family=FAMILY,
        template=kind,
        split=split_of(source),
        sources=(question.document,),
        slots=slots,
    )


def quotation(task: Task) -> str:
    """Return the passage's words that answer the question, as plain text."""
    return plain_text(task.slots["quote"]).plain


def flat(text: str) -> str:
    """Return a text with single spaces, because lines of a document are wrapped anywhere."""
    return " ".join(text.split())


def source_reason(question: DocumentQuestion, passage: Passage | None) -> str:
    """Return why a question is not answered by its source, or an empty string."""
    if passage is None:
        return f"document: {question.document!r} is none of the given passages"
    if not question.quote.strip() or flat(question.quote) not in flat(passage.text):
        return f"quote: {question.quote[:80]!r} is not in {question.document}, word for word"
    quoted = (flat(question.quote), plain_text(question.quote).plain)
    if not question.answer.strip() or not any(question.answer in each for each in quoted):
        return f"answer: {question.answer[:80]!r} is not in the quote, word for word"
    if len(question.answer) > MOST_ANSWER:
        return f"answer: {len(question.answer)} characters, at most {MOST_ANSWER}"
    return ""
