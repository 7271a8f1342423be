"""Tests of a teacher's questions about own documents: a question without support in its source is
returned once, and then rejected with the reason."""

from typing import Any

import pytest

from tests.synthesis.teacher.conftest import NewTeacher, new_teacher
from tests.synthesis.teacher.scripted_endpoint import ScriptedEndpoint, serving
from tutti.tasks.retrieval import Passage
from tutti.tasks.synthesis.documents.base.question import DocumentQuestion, document_task
from tutti.tasks.synthesis.documents.by_teacher import ask_about_documents, question_reason
from tutti.tasks.synthesis.teacher import read_prompts

__all__ = ["new_teacher"]
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
    found = question_reason(question, {PUMP.id: PUMP}.get(question.document))
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
    assert [each.answer for each in found.kept] == ["35 minutes"]
    assert [why for _, why in found.rejects] == [
        "quote: 'It runs for 45 minutes' is not in pump.md#0, word for word"
    ]
    task = document_task(found.kept[0], PUMP, "teacher")
    assert (task.sources, task.target["answer"]) == (("pump.md#0",), "35 minutes")
