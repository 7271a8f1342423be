"""A question about a passage, with its source."""

from typing import Any

from pydantic import BaseModel, ConfigDict

from tutti.tasks.retrieval import Passage
from tutti.tasks.synthesis.documents.sentences import plain_text
from tutti.tasks.synthesis.programs.program import split_of
from tutti.tasks.synthesis.task import question_task
from tutti.tasks.task_sets import Task

FAMILY, BY_TEACHER = "documents", "teacher"
QUESTIONS = "questions.jsonl"
"""The file of a set."""
MOST_ANSWER = 80
"""Characters: an answer that is compared must be short."""


class DocumentQuestion(BaseModel):
    """A question with its source, as a teacher or a program states it."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    question: str
    answer: str
    document: str
    """The passage's id."""
    quote: str
    """Where the answer stands."""


class DocumentTask(BaseModel):
    """A question that may become a task: a line of a set's ``questions.jsonl``."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    kind: str
    """number, definition, name, term, or teacher."""
    question: str
    answer: str
    document: str
    """The id of the passage that says it."""
    source: str
    """The document that the passage is of."""
    title: str = ""
    quote: str
    """The passage's words that answer it."""
    split: str = ""

    @classmethod
    def of(cls, question: DocumentQuestion, passage: Passage, kind: str) -> "DocumentTask":
        """The question with what its passage says of itself."""
        source = passage.source or passage.id
        given = {"kind": kind, "source": source, "title": passage.title}
        return cls(**question.model_dump(), **given, split=split_of(source))

    @property
    def task(self) -> Task:
        """As a task, whose id is of the question and the answer."""
        slots = {"document": self.document, "source": self.source, "quote": self.quote}
        return question_task(
            FAMILY, self.question, self.answer, slots, (self.document,), self.split
        )

    @property
    def task_id(self) -> str:
        """Content hash of the question and the answer."""
        return self.task.task_id

    @property
    def said(self) -> str:
        """The quotation as plain text."""
        return plain_text(self.quote).plain

    @property
    def as_line(self) -> dict[str, Any]:
        """With its id, for a file."""
        return {"task_id": self.task_id, **self.model_dump()}


def flat(text: str) -> str:
    """A text with single spaces: lines of a document are wrapped anywhere."""
    return " ".join(text.split())


def source_reason(question: DocumentQuestion | DocumentTask, passage: Passage | None) -> str:
    """Why a question is not answered by its source; empty if it is."""
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
