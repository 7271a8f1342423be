"""Requests to a teacher for a number of items, each checked separately.

In: an item's model, a number, a check. Out: the items that are right, and the rejects with their
reasons. Wrong items are sent back once, all together with their errors; a shortage is filled by
further calls that list the existing items; a surplus is cut.
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
    """A request for a number of items of one kind."""

    name: str
    prompt: Callable[[Sequence[T], int], str]
    """From the items that exist and the number that is missing."""
    item: type[T]
    wanted: int
    check: Callable[[T, Sequence[T]], str]
    """Why an item is wrong beside those that exist; empty if it is right."""
    max_tokens: int = 8192


@dataclass
class Items(Generic[T]):
    """The answer to an `ItemsQuestion`."""

    kept: list[T] = field(default_factory=list)
    rejects: list[tuple[Any, str]] = field(default_factory=list)
    """Items that stayed wrong, with the reason."""


async def ask_items(teacher: Teacher, question: ItemsQuestion[T]) -> Items[T]:
    """Return at most `wanted` items; fewer if the teacher has no more, which is recorded. Raises
    TeacherFailed, BudgetSpent."""
    items: Items[T] = Items()
    for turn in range(MOST_TOP_UPS + 1):
        if len(items.kept) >= question.wanted:
            break
        asked = items_question(teacher, question, turn, items)
        await teacher.ask(asked)
        missing = question.wanted - len(items.kept)
        if missing > 0:
            remedy = "asked for the rest" if turn < MOST_TOP_UPS else "went on with fewer"
            fault = Fault(FaultKind.TOO_FEW, f"{missing} of {question.wanted} are missing")
            once = content_hash([asked.name, fault.detail, asked.prompt])
            teacher.store.note_fault(asked.name, fault, remedy, once)
    return items


def items_question(
    teacher: Teacher, question: ItemsQuestion[T], turn: int, items: Items[T]
) -> Question[RawItems]:
    """Return a question for the missing items. Its check adds the right ones to `items`; it sends
    the others back once, and then rejects them."""
    name, is_sent_back = f"{question.name}-{turn}", False

    def check(raw: RawItems) -> str:
        nonlocal is_sent_back
        wrong: list[tuple[Any, str]] = []
        surplus = 0
        for each in raw.items:
            if len(items.kept) >= question.wanted:
                surplus += 1
            elif why := _take(question, each, items.kept):
                wrong.append((each, why))
        if surplus:
            fault = Fault(FaultKind.TOO_MANY, f"{surplus} more than the missing ones")
            once = content_hash([name, fault.kind, raw.items])
            teacher.store.note_fault(name, fault, "cut", once)
        if wrong and not is_sent_back:
            is_sent_back = True
            errors = "\n".join(f"- {each}: {why}" for each, why in wrong)
            return f"These items are wrong; give only these again, corrected:\n{errors}"
        items.rejects += wrong
        return ""

    item: Any = question.item
    schema = strict_schema(create_model("Items", items=(list[item], ...)))
    prompt = question.prompt(items.kept, question.wanted - len(items.kept))
    return Question(name, prompt, RawItems, check, question.max_tokens, schema, resend="")


def _take(question: ItemsQuestion[T], raw: Any, kept: list[T]) -> str:
    """Add an item to `kept`, or return why it is wrong."""
    try:
        item = question.item.model_validate(raw)
    except ValidationError as error:
        return validation_text(error)
    why = question.check(item, kept)
    if not why:
        kept.append(item)
    return why
