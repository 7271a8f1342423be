"""Asks a teacher for so many items, each judged on its own.

In: an item's model, how many, a check. Out: the items that are right, and the rejects with their
reasons. Wrong items are sent back once, all together with their errors; a shortage is topped up by
further calls that list what exists; a surplus is cut. Right items are never lost to a wrong one.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

from pydantic import BaseModel, ValidationError, create_model

from tutti.storage import content_hash
from tutti.tasks.synthesis.teacher.asking import Question, Teacher
from tutti.tasks.synthesis.teacher.faults import Fault, FaultKind
from tutti.tasks.synthesis.teacher.reading import strict_schema, validation_text

T = TypeVar("T", bound=BaseModel)
MOST_TOP_UPS = 3


class RawItems(BaseModel):
    """A list whose items are not validated yet."""

    items: list[Any]


@dataclass(frozen=True)
class ItemsQuestion(Generic[T]):
    """So many items of one kind."""

    name: str
    prompt: Callable[[Sequence[T], int], str]
    """From the items that exist and how many are missing."""
    item: type[T]
    wanted: int
    check: Callable[[T, Sequence[T]], str]
    """Why an item is wrong beside those that exist; empty if it is right."""
    max_tokens: int = 8192


@dataclass
class Items(Generic[T]):
    """What came of an `ItemsQuestion`."""

    kept: list[T] = field(default_factory=list)
    rejects: list[tuple[Any, str]] = field(default_factory=list)
    """Items that stayed wrong, with the reason."""


async def ask_items(teacher: Teacher, question: ItemsQuestion[T]) -> Items[T]:
    """At most `wanted` items; fewer where the teacher has no more, which is recorded.

    Raises TeacherFailed, BudgetSpent.
    """
    collected: Items[T] = Items()
    for turn in range(MOST_TOP_UPS + 1):
        missing = question.wanted - len(collected.kept)
        if missing <= 0:
            break
        sorter = _Sorter(teacher, question, collected, f"{question.name}-{turn}")
        asked = sorter.asked(missing)
        await teacher.ask(asked)
        missing = question.wanted - len(collected.kept)
        if missing > 0:
            remedy = "asked for the rest" if turn < MOST_TOP_UPS else "went on with fewer"
            fault = Fault(FaultKind.TOO_FEW, f"{missing} of {question.wanted} are missing")
            once = content_hash([sorter.name, fault.detail, asked.prompt])
            teacher.store.note_fault(sorter.name, fault, remedy, once)
    return collected


def first_question(teacher: Teacher, question: ItemsQuestion[T]) -> Question[RawItems]:
    """The first thing that `ask_items` asks, for a batch."""
    return _Sorter(teacher, question, Items(), f"{question.name}-0").asked(question.wanted)


class _Sorter(Generic[T]):
    """The check of one call: keeps what is right, sends back the rest once, then rejects it."""

    def __init__(
        self, teacher: Teacher, question: ItemsQuestion[T], collected: Items[T], name: str
    ) -> None:
        self._teacher, self._question, self.name = teacher, question, name
        self._collected = collected
        self._sent_back = False

    def asked(self, missing: int) -> Question[RawItems]:
        """The question for so many items more."""
        item: Any = self._question.item
        schema = strict_schema(create_model("Items", items=(list[item], ...)))
        prompt = self._question.prompt(self._collected.kept, missing)
        most = self._question.max_tokens
        return Question(self.name, prompt, RawItems, self.check, most, schema, resend="")

    async def check(self, raw: RawItems) -> str:
        """Which items are wrong, the first time."""
        wrong: list[tuple[Any, str]] = []
        surplus = 0
        for each in raw.items:
            if len(self._collected.kept) >= self._question.wanted:
                surplus += 1
                continue
            why = self._take(each)
            if why:
                wrong.append((each, why))
        if surplus:
            fault = Fault(FaultKind.TOO_MANY, f"{surplus} more than the missing ones")
            once = content_hash([self.name, fault.kind, raw.items])
            self._teacher.store.note_fault(self.name, fault, "cut", once)
        if wrong and not self._sent_back:
            self._sent_back = True
            errors = "\n".join(f"- {each}: {why}" for each, why in wrong)
            return f"These items are wrong; give only these again, corrected:\n{errors}"
        self._collected.rejects += wrong
        return ""

    def _take(self, raw: Any) -> str:
        try:
            item = self._question.item.model_validate(raw)
        except ValidationError as error:
            return validation_text(error)
        why = self._question.check(item, self._collected.kept)
        if not why:
            self._collected.kept.append(item)
        return why
