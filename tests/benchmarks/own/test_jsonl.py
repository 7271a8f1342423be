"""Tests of the user's own JSONL file: the fields that are read, and errors for wrong rows."""

import re
from pathlib import Path
from typing import Any

import pytest

from tests.benchmarks.conftest import write_lines
from tutti.tasks.benchmarks import (
    BadRow,
    BenchmarkError,
    Source,
    Task,
    load_prompt,
    open_benchmark,
    parse_benchmark,
    select,
)
from tutti.tasks.benchmarks.own import OwnReading


def tasks(folder: Path, rows: list[Any], scorer: str = "exact", **fields: Any) -> list[Task]:
    """Return the tasks of a file with these rows."""
    path = write_lines(folder / "my rows.jsonl", rows)
    benchmark = open_benchmark(parse_benchmark(f"{path}:2"), OwnReading(scorer, **fields))
    assert benchmark.name == "my-rows"
    return list(benchmark.load(Source(path)))


def test_fields_and_attributes(tmp_path: Path) -> None:
    """Every field but the answer can be used in a prompt, and every field but the question can be
    used for selection."""
    row = {"problem": "2 + 2?", "target": 4, "level": 3, "tags": ["sum"], "note": None}
    (task,) = tasks(tmp_path, [row], "numeric")
    others = {"level": "3", "tags": '["sum"]'}
    assert task.inputs == {"problem": "2 + 2?", "question": "2 + 2?", **others}
    assert (task.key, task.target) == ("0", {"answer": "4"})
    assert task.attributes == others
    assert select([task], where="level::int = 3") == [task]


def test_named_fields_and_a_template(tmp_path: Path) -> None:
    """A template needs no question; a judge does."""
    rows = [{"id": 7, "country": "Peru", "city": ["Lima"]}]
    template = "Capital of {country}?"
    (task,) = tasks(tmp_path, rows, answer_field="city", prompt=template)
    assert (task.key, task.target) == ("7", {"answer": ["Lima"]})
    assert load_prompt(template).render(task)[0]["content"] == "Capital of Peru?"
    with pytest.raises(BadRow, match="question: is missing"):
        tasks(tmp_path, rows, "judge", answer_field="city", prompt=template)
    asked = {"answer_field": "city", "question_field": "country"}
    (task,) = tasks(tmp_path, rows, "judge", **asked)
    assert task.target == {"answer": ["Lima"], "question": "Peru"}


def test_choices(tmp_path: Path) -> None:
    """The answer is given by letter or by text, and the prompt lists the choices."""
    row = {"question": "?", "choices": ["red", "blue"]}
    by_letter, by_text = (
        tasks(tmp_path, [row | {"answer": answer}], "choice")[0] for answer in ("b", "blue")
    )
    assert by_letter.target == by_text.target == {"answer": "B", "choices": ["red", "blue"]}
    assert by_letter.inputs["choices"] == "A) red\nB) blue"
    (alone,) = tasks(tmp_path, [{"question": "A or B?", "answer": "B"}], "choice")
    assert alone.target == {"answer": "B", "choices": 10}


@pytest.mark.parametrize(
    ("scorer", "row", "words"),
    [
        ("exact", {"answer": "a"}, "question: is missing (or prompt, problem); the row has answer"),
        ("exact", {"question": "?"}, "answer: is missing (or target, expected_answer)"),
        ("exact", {"question": "?", "answer": ""}, "answer: is empty"),
        ("exact", {"question": "?", "answer": []}, "answer: is empty"),
        ("exact", {"question": "?", "target": {"a": 1}}, "target: {'a': 1} is not a text, a"),
        ("numeric", {"question": "?", "answer": "1 or 2"}, "answer: '1 or 2' holds 2 numbers"),
        ("choice", {"question": "?", "answer": "Z"}, "answer: 'Z' is not one of ABCDEFGHIJ"),
        (
            "choice",
            {"question": "?", "answer": "C", "choices": ["x", "y"]},
            "answer: 'C' is not one of AB or the text of a choice",
        ),
        (
            "choice",
            {"question": "?", "answer": "A", "choices": ["x"]},
            "choices: has 1 texts; 2",
        ),
        (
            "exact",
            {"question": "?", "answer": "a", "image": "a.png"},
            "image: 'a.png' is not a ",
        ),
        ("exact", {"id": "1", "question": "?", "answer": "a"}, "id: '1' is also the id of line 1"),
    ],
)
def test_a_wrong_row_is_told(tmp_path: Path, scorer: str, row: dict[str, Any], words: str) -> None:
    """The error names file, line, field and value."""
    first = {"id": "1", "question": "?", "answer": "A" if scorer == "choice" else "1"}
    with pytest.raises(BadRow, match=rf"my rows\.jsonl:2: {re.escape(words)}"):
        tasks(tmp_path, [first, row], scorer)


def test_a_scorer_is_required(tmp_path: Path) -> None:
    """The error lists the available scorers."""
    choice = parse_benchmark(str(write_lines(tmp_path / "a.jsonl", [])))
    with pytest.raises(BenchmarkError, match=r"data\.scorer: a\.jsonl needs one: exact \(the"):
        open_benchmark(choice)
