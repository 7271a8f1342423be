"""Questions about own documents: their quotation is in the passage and their answer in it, whoever
made them."""

from collections import Counter
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.synthesis.teacher.conftest import NewTeacher
from tests.synthesis.teacher.scripted_endpoint import ScriptedEndpoint, serving
from tutti.tasks.retrieval import Passage
from tutti.tasks.synthesis.teacher import read_prompts
from tutti.tasks.synthesis.teacher.documents import (
    DocumentQuestion,
    ask_about_documents,
    question_reason,
    task_of,
)
from tutti.tasks.synthesis.teacher.from_passages import questions_from_passages

PUMP = Passage(
    "pump.md#0",
    "The feed pump is a device that lifts brine into the upper tank. It runs for 35 minutes after "
    "each rinse of the tank. The spare key is kept by Ada Long in the lower office.",
    source="pump.md",
)
VALVE = Passage("valve.md#0", "Open the valve by two turns and wait.", source="valve.md")
RIGHT = {
    "question": "How long does the feed pump run after a rinse?",
    "answer": "35 minutes",
    "document": "pump.md#0",
    "quote": "It runs for 35 minutes after each rinse",
}


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({}, ""),
        ({"document": "x"}, "document: 'x' is none of the given passages"),
        ({"quote": "It runs for 35 minutes after every rinse"}, "is not in pump.md#0, word for"),
        ({"quote": ""}, "quote: '' is not in"),
        ({"answer": "half an hour"}, "answer: 'half an hour' is not in the quote"),
        ({"question": "Is it 35 Minutes?"}, "question: it contains the answer"),
    ],
)
def test_what_its_source_does_not_say_is_refused(change: dict[str, str], why: str) -> None:
    question = DocumentQuestion(**(RIGHT | change))
    found = question_reason(question, {PUMP.id: PUMP})
    assert why in found and bool(found) == bool(why)


async def test_a_teachers_false_quotations_are_sent_back_and_then_rejected(
    new_teacher: NewTeacher,
) -> None:
    false = RIGHT | {"quote": "It runs for 45 minutes", "answer": "45 minutes", "question": "When?"}
    answers = [{"items": [RIGHT, false]}, {"items": [false]}]
    script: dict[str, list[Any]] = {"documents-0-0": answers, "documents-0-1": [{"items": []}]}
    script |= {f"documents-0-{turn}": [{"items": []}] for turn in (2, 3)}
    async with serving(ScriptedEndpoint(script)) as endpoint:
        async with new_teacher(endpoint) as teacher:
            prompt = read_prompts()["documents"]
            found = await ask_about_documents(teacher, prompt, [PUMP, VALVE], 2, "0")
    assert [each.answer for each in found.questions] == ["35 minutes"]
    assert [why for _, why in found.rejects] == [
        "quote: 'It runs for 45 minutes' is not in pump.md#0, word for word"
    ]
    task = task_of(found.questions[0], PUMP, "documents")
    assert (task.sources, task.answer) == (("pump.md#0",), "35 minutes")


def test_a_program_makes_each_kind() -> None:
    found = [(kind, q.answer, q.question) for kind, q in questions_from_passages([PUMP, VALVE])]
    assert found == [
        (
            "definition",
            "feed pump",
            "What do the documents call this: a device that lifts brine into the upper tank.",
        ),
        (
            "number",
            "35",
            "Which number belongs in the gap? "
            "It runs for ____ minutes after each rinse of the tank.",
        ),
        (
            "cloze",
            "Ada Long",
            "Which name belongs in the gap? The spare key is kept by ____ in the lower office.",
        ),
    ]


def test_a_question_with_two_answers_is_not_asked() -> None:
    other = Passage("b", PUMP.text.replace("35", "40"))
    kinds = Counter(kind for kind, _ in questions_from_passages([PUMP, other]))
    assert not kinds


@given(st.lists(st.text(alphabet="aB .1,\n-", max_size=120), max_size=4))
def test_every_question_of_a_program_is_answered_by_its_source(texts: list[str]) -> None:
    passages = {str(n): Passage(str(n), text) for n, text in enumerate(texts)}
    found = [each for _, each in questions_from_passages(passages.values())]
    assert not any(question_reason(each, passages) for each in found)
    assert len({each.question for each in found}) == len(found)
