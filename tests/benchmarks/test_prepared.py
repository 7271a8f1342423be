"""Tests of files as NeMo-Skills' `prepare_data` (8b18f39) writes them, on constructed rows with its
fields."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.benchmarks.conftest import load, write_lines
from tutti.tasks.benchmarks import BadRow, ExcludedRow

Record = dict[str, Any]


def choices(question: str, *options: str) -> Record:
    """Return the fields that its `get_mcq_fields` gives."""
    letters = dict(zip("ABCDEFGHIJ", options, strict=False))
    text = "\n".join(f"{letter}) {option}" for letter, option in letters.items())
    return {"problem": f"{question}\n\n{text}", "options": text, **letters}


SUMS = choices("2+2?", "3", "4", "5", "6")
CHOSEN = {"answer": "B", "choices": ["3", "4", "5", "6"]}
PLAIN = {"problem": "2+2?", "expected_answer": "4", "reference_solution": "Add."}
CASES: dict[str, tuple[str, Record, Record]] = {
    "gsm8k": ("test", PLAIN | {"expected_answer": 1234}, {"answer": "1234"}),
    "math-500": (
        "test",
        PLAIN | {"subject": "Algebra", "level": 2, "unique_id": "test/a/1.json"},
        {"answer": "4"},
    ),
    "aime-24": ("test", PLAIN | {"id": "aime24-0"}, {"answer": "4"}),
    "aime-25": ("test", PLAIN | {"id": "aime25-0"}, {"answer": "4"}),
    "hmmt-feb-25": (
        "test",
        {"problem": "2+2?", "expected_answer": "4", "problem_idx": 1, "problem_type": ["Algebra"]},
        {"answer": "4"},
    ),
    "omni-math": (
        "test",
        PLAIN | {"domain": ["Mathematics -> Algebra"], "difficulty": 5.0, "source": "x"},
        {"answer": "4"},
    ),
    "math-odyssey": (
        "test",
        PLAIN | {"original_answer": "$4$.", "label": "Algebra", "level": "High School"},
        {"answer": "4"},
    ),
    "gpqa": (
        "diamond",
        {"expected_answer": "B", "explanation": "e", "subset_for_metrics": "Optics"} | SUMS,
        CHOSEN,
    ),
    "mmlu": (
        "test",
        {"expected_answer": "B", "subtopic": "anatomy", "subset_for_metrics": "stem"} | SUMS,
        CHOSEN,
    ),
    "mmlu-pro": ("test", {"expected_answer": "B", "subset_for_metrics": "math"} | SUMS, CHOSEN),
    "mmlu-redux": (
        "test",
        {"expected_answer": "B", "subcategory": "anatomy", "source": "s"} | SUMS,
        CHOSEN,
    ),
    "supergpqa": (
        "test",
        {"expected_answer": "B", "uuid": "u1", "discipline": "Science", "field": "f"}
        | {"subfield": "s", "difficulty": "easy", "subset_for_metrics": "Science"}
        | SUMS,
        CHOSEN,
    ),
    "simpleqa": (
        "test",
        {"id": "simpleqa_0", "problem": "2+2?", "expected_answer": "4"}
        | {"metadata": {"topic": "Art", "answer_type": "Number", "urls": []}},
        {"answer": "4", "question": "2+2?"},
    ),
    "hle": (
        "text",
        PLAIN
        | {"id": "h1", "answer_type": "exactMatch", "raw_subject": "r"}
        | {"subset_for_metrics": "Math", "author_name": "a", "canary": "c"},
        {"answer": "4", "question": "2+2?", "answer_type": "exactMatch"},
    ),
    "ifeval": (
        "test",
        {"key": 1, "prompt": "2+2?", "question": "2+2?"}
        | {"instruction_id_list": ["punctuation:no_comma"], "kwargs": [{}]},
        {"prompt": "2+2?", "instruction_id_list": ["punctuation:no_comma"], "kwargs": [{}]},
    ),
    "ifbench": (
        "test",
        {"key": 1, "prompt": "2+2?", "question": "2+2?"}
        | {"instruction_id_list": ["count:numbers"], "kwargs": [{"N": 2}]},
        {"prompt": "2+2?", "instruction_id_list": ["count:numbers"], "kwargs": [{"N": 2}]},
    ),
    "mrcr": (
        "all",
        {"messages": [{"role": "user", "content": "2+2?"}], "expected_answer": "xy4"}
        | {"random_string_to_prepend": "xy", "n_needles": 2, "desired_msg_index": 1},
        {"answer": "xy4", "prefix": "xy"},
    ),
    "minif2f": (
        "test",
        {"name": "t", "header": "import Mathlib\n", "informal_prefix": "", "split": "test"}
        | {"formal_statement": "theorem t : 2 + 2 = 4 := by\n", "goal": "g"},
        {"header": "import Mathlib\n", "statement": "theorem t : 2 + 2 = 4 := by\n"},
    ),
}
"""By benchmark the name of its file, a row, and the target that the scorer gets."""


@pytest.mark.parametrize("name", CASES)
def test_a_prepared_file_is_read(name: str, tmp_path: Path) -> None:
    """The task has the question without its options and the published target."""
    file, row, target = CASES[name]
    write_lines(tmp_path / f"{file}.jsonl", [row])
    (task,) = load(name, tmp_path)
    assert {key: task.target[key] for key in target} == target
    assert task.inputs.get("question", "2+2?") == "2+2?"
    if "options" in row:
        assert task.inputs["choices"] == row["options"]


def test_a_choice_is_what_its_publishers_row_gives(tmp_path: Path) -> None:
    """A prepared row has the question, options, key and selectable attributes of the publisher's
    row."""
    write_lines(tmp_path / "a/test.jsonl", [CASES["mmlu"][1]])
    published = {"question": "2+2?", "choices": ["3", "4", "5", "6"], "answer": 1}
    write_lines(tmp_path / "b/test.jsonl", [published | {"subject": "anatomy"}])
    assert load("mmlu", tmp_path / "a") == load("mmlu", tmp_path / "b")


def test_rows_that_cannot_be_what_they_say_are_named(tmp_path: Path) -> None:
    row = CASES["mmlu-pro"][1]
    for change, said in (
        ({"expected_answer": "E"}, "answer: 'E' is no letter of 4 options"),
        ({"problem": "2+2?"}, "problem: does not end with the options"),
        ({"A": 3}, "options.0: 3 is not text"),
    ):
        write_lines(tmp_path / "test.jsonl", [row | change])
        with pytest.raises(BadRow, match=f"test.jsonl:1: {said}"):
            load("mmlu-pro", tmp_path)
    write_lines(tmp_path / "test.jsonl", [PLAIN | {"expected_answer": True}])
    with pytest.raises(BadRow, match="answer: True is not text"):
        load("gsm8k", tmp_path)


def test_a_key_that_nemo_skills_lost_is_left_out(tmp_path: Path) -> None:
    """For MMLU-Redux's corrected questions it writes the words "correct_answer" in place of the
    key."""
    row = CASES["mmlu-redux"][1]
    write_lines(tmp_path / "test.jsonl", [row, row | {"expected_answer": "correct_answer"}])
    left: list[ExcludedRow] = []
    assert len(load("mmlu-redux", tmp_path, left)) == 1
    assert [each.reason for each in left] == ["NeMo-Skills' file lost its corrected key"]


PARTIAL: dict[str, Record] = {
    "humaneval": {"task_id": "HumanEval/0", "prompt": "def f():", "question": "def f():"}
    | {"canonical_solution": " return 1", "entry_point": "f"},
    "mbpp": {"task_id": "Mbpp/2", "prompt": "Write f.", "question": "Write f.", "code": "f = 1"},
    "livecodebench": {"task_id": "abc_a", "question": "Read n.", "difficulty": "easy"},
    "bigcodebench": {"task_id": "BigCodeBench/0", "question": "Write task_func."},
    "arena-hard": {"uid": "1", "category": "arena-hard-v0.1", "question": "Why?"}
    | {"baseline_answer": "Because."},
}
"""Prepared rows without what a score needs: tests stay with the publisher's package, and the
answers to compare with are another version's."""


@pytest.mark.parametrize("name", PARTIAL)
def test_a_file_without_its_tests_is_refused(name: str, tmp_path: Path) -> None:
    for file in ("test", "question"):
        (tmp_path / f"{file}.jsonl").write_text(json.dumps(PARTIAL[name]) + "\n")
    with pytest.raises(BadRow, match="jsonl:1: "):
        load(name, tmp_path)
