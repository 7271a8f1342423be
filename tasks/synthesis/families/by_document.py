"""Families that ask about one document at a time, with rules to draw and to solve a question."""

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from random import Random

from tutti.tasks.agents import Oracle
from tutti.tasks.retrieval import Document
from tutti.tasks.synthesis.families.task import question_task
from tutti.tasks.task_sets import Slots, Task

MAX_PARAMETERS = 8  # longer signatures crowd out a small context
Draft = tuple[dict[str, str], str]
"""The slots of a question, and its answer."""


@dataclass
class DocumentFamily:
    """A family about one document (`tutti.tasks.synthesis.families.task.Family`)."""

    name: str
    questions: Sequence[str]
    """Templates over the slots."""
    draw: Callable[[Document, Random], Draft | None]
    """None for a document that is not asked about."""
    solve: Callable[[Slots], Oracle]
    most: int = 1
    """Questions for each document."""
    unique_names: bool = False
    """Whether to ask only about documents whose short name no other one has."""

    def propose(self, documents: Sequence[Document], rng: Random) -> Iterator[Task]:
        """Yield candidates over `documents`; all random draws use `rng`."""
        owners = Counter(document.short_name for document in documents)
        for document in documents:
            if self.unique_names and owners[document.short_name] > 1:
                continue
            for _ in range(self.most):
                draft = self.draw(document, rng)
                if draft is None:
                    break
                slots, answer = draft
                question = rng.choice(self.questions).format(**slots)
                sources = (document.name,)
                yield question_task(self.name, question, answer, slots, sources, document.split)
