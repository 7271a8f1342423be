"""Tests of the program's questions: the quotation is in the passage and contains the answer, and
the solver reads the answer from a search result."""

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tutti.tasks.retrieval import Passage
from tutti.tasks.synthesis.documents.base.from_passages import questions_from_passages, solve
from tutti.tasks.synthesis.documents.base.question import document_task, source_reason
from tutti.tasks.synthesis.documents.gates.example import KEY, LAMP, PUMP, RUNS, VALVE
from tutti.tasks.task_sets import Task


def test_each_kind_is_made() -> None:
    found = {(kind, q.answer): q for kind, q in questions_from_passages([PUMP, VALVE, LAMP])}
    assert set(found) == {
        ("definition", "feed pump"), ("number", "35"), ("name", "Ada Long"), ("number", "2"),
        ("name", "Norden"), ("name", "Monday"), ("term", "lamp_test"),
    }  # fmt: skip
    assert found["number", "35"].quote == RUNS
    assert found["number", "35"].question == (
        'Which number belongs in the gap in "The pump"? '
        "The pump runs for ____ minutes after each rinse of the tank."
    )
    assert found["name", "Ada Long"].quote == KEY
    assert found["definition", "feed pump"].question == (
        'Which term is described so in "The pump"? '
        "a device that lifts brine into the upper tank of the plant."
    )


@pytest.mark.parametrize("answer", ["40", "35"])
def test_a_sentence_that_stands_twice_is_not_asked_about(answer: str) -> None:
    """Such a sentence is skipped with another answer and with the same."""
    other = Passage("b", PUMP.text.replace("35", answer))
    kinds = Counter(kind for kind, _ in questions_from_passages([PUMP, other]))
    assert not kinds


def test_the_solver_reads_the_answer_from_a_result() -> None:
    """A result without the sentence gives no answer."""
    passages = {each.id: each for each in (PUMP, VALVE, LAMP)}
    result = "\n\n".join(each.text for each in passages.values())
    for kind, question in questions_from_passages(passages.values()):
        task = document_task(question, passages[question.document], kind)
        assert _solved(task, result) == task.answer
        with pytest.raises(LookupError, match="0 answers"):
            _solved(task, "")


def _solved(task: Task, result: str) -> str:
    solving = solve(task)
    assert next(solving).arguments == {"query": task.question}
    with pytest.raises(StopIteration) as ended:
        solving.send(result)
    return str(ended.value.value)


DRAWN = "The tank Ada Long is a of 3 1.5 `key` (see [x](y) ** - | e.g. by. ends.\n".split(" ")
WORDS = st.sampled_from(DRAWN)


@given(st.lists(st.lists(WORDS, max_size=30).map(" ".join), max_size=4))
def test_every_question_is_answered_by_its_source(texts: list[str]) -> None:
    passages = {str(n): Passage(str(n), text) for n, text in enumerate(texts)}
    found = list(questions_from_passages(passages.values()))
    assert not any(source_reason(each, passages[each.document]) for _, each in found)
    assert len({each.question for _, each in found}) == len(found)
