"""A small corpus and questions about it, for the gates' examples."""

from dataclasses import replace
from typing import Any

from tutti.tasks.retrieval import Passage
from tutti.tasks.synthesis.documents.base.question import (
    BY_TEACHER,
    DocumentQuestion,
    document_task,
)
from tutti.tasks.task_sets import Task

PUMP = Passage(
    "pump.md#0",
    "The feed pump is a device that lifts brine into the upper tank of the plant. The pump runs "
    "for 35 minutes after each\nrinse of the tank. The spare key of the pump house is kept by Ada "
    "Long in the lower office.",
    "The pump",
    "pump.md",
)
VALVE = Passage(
    "valve.md#0",
    "Open the brine valve by 2 turns and wait until the gauge is still. The valve of the upper "
    "tank was made by Norden in a small works.",
    "The valve",
    "valve.md",
)
LAMP = Passage(
    "lamp.md#0",
    "A lamp shows that the tank is full. The lamps are tested on every Monday before the rinse "
    "begins, as `lamp_test` says.",
    "Lamps",
    "lamp.md",
)
PASSAGES = (PUMP, VALVE, LAMP)
RUNS = "The pump runs for 35 minutes after each\nrinse of the tank."
KEY = "The spare key of the pump house is kept by Ada Long in the lower office."
MADE = "The valve of the upper tank was made by Norden in a small works."


def question(passage: Passage = PUMP, kind: str = "number", **changes: Any) -> Task:
    """Return the question of how long the pump runs, with changes."""
    shown = "The pump runs for ____ minutes after each rinse of the tank."
    given = {
        "question": f'Which number belongs in the gap in "The pump"? {shown}',
        "answer": "35",
        "document": passage.id,
        "quote": RUNS,
    }
    return replace(document_task(DocumentQuestion(**given | changes), passage, kind), split="test")


def who(kind: str = "name", **changes: Any) -> Task:
    """Return the question of who keeps the key, with changes."""
    shown = "The spare key of the pump house is kept by ____ in the lower office."
    asked = f'Which name belongs in the gap in "The pump"? {shown}'
    given = {"question": asked, "answer": "Ada Long", "quote": KEY}
    return question(kind=kind, **given | changes)


def maker(passage: Passage = VALVE, **changes: Any) -> Task:
    """Return the question of who made the valve, in a teacher's form, with changes."""
    given = {
        "question": "Which company made the valve of the upper tank?",
        "answer": "Norden",
        "quote": MADE,
    }
    return question(passage, BY_TEACHER, **given | changes)
