"""Which attempts may be trained on: none of a held-out task, none that failed for other reasons.

In: rows of `attempts` and `tasks`. Out: a reason for each attempt that is left out. Held out is
every task whose split is not among those that the job names, and every task whose question repeats
one of those: a run of 13 words (GPT-3, arXiv 2005.14165, appendix C), or all of a shorter question.
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from tutti.storage import COUNTED
from tutti.tasks.retrieval import near_texts

GRAM = 13
WORD = re.compile(r"\w+")


@dataclass(frozen=True)
class HeldOut:
    """The tasks that nothing may be trained on."""

    splits: Mapping[str, frozenset[str]]
    """Task to its splits; a task that is not here is of no task set."""
    grams: frozenset[str]
    """Of questions that are held out."""
    questions: Mapping[str, str]
    """Task to question."""
    allowed: frozenset[str]
    near: frozenset[str] = frozenset()
    """Tasks whose question is near one that is held out."""

    @classmethod
    def of(cls, tasks: Iterable[Mapping[str, Any]], allowed: Iterable[str]) -> "HeldOut":
        """From rows of `tasks` and the splits that may be trained on."""
        splits: dict[str, set[str]] = {}
        questions: dict[str, str] = {}
        grams: set[str] = set()
        open_splits = frozenset(allowed)
        for row in tasks:
            splits.setdefault(row["task_id"], set()).add(row["split"])
            questions[row["task_id"]] = row["question"] or ""
            if row["split"] not in open_splits:
                grams |= grams_of(row["question"] or "")
        frozen = {name: frozenset(every) for name, every in splits.items()}
        return cls(frozen, frozenset(grams), questions, open_splits)

    def with_near(self, least: float | None) -> "HeldOut":
        """With the tasks whose question has at least this cosine to one that is held out."""
        if least is None:
            return self
        held = [
            self.questions[task]
            for task, splits in self.splits.items()
            if not splits <= self.allowed and self.questions[task]
        ]
        own = {task: text for task, text in self.questions.items() if text}
        own = {task: text for task, text in own.items() if self.splits[task] <= self.allowed}
        near = near_texts(list(own.values()), held, least)
        found = {task for task, is_near in zip(own, near, strict=True) if is_near}
        return replace(self, near=frozenset(found))

    def reason(self, attempt: Mapping[str, Any]) -> str | None:
        """Why an attempt is left out; None if it may be trained on."""
        if attempt["status"] not in COUNTED and not attempt["is_repaired"]:
            return f"status {attempt['status']}"
        task_id = attempt["task_id"]
        if task_id not in self.splits:
            return "task of no known split"
        if not self.splits[task_id] <= self.allowed:
            return f"held-out split {min(self.splits[task_id] - self.allowed)}"
        if self.grams & grams_of(self.questions[task_id]):
            return "question of a held-out task"
        if task_id in self.near:
            return "question near a held-out one"
        return None


def grams_of(text: str) -> set[str]:
    """Runs of 13 words, in lower case; of a shorter text all of it; none of an empty one."""
    words = WORD.findall(text.lower())
    if not words:
        return set()
    last = max(1, len(words) - GRAM + 1)
    return {" ".join(words[first : first + GRAM]) for first in range(last)}
