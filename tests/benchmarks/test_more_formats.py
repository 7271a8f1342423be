"""Tests of later question-set formats on constructed files with the publishers' columns."""

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.benchmarks.conftest import load, write_lines
from tutti.tasks.benchmarks import BadRow, ExcludedRow
from tutti.tasks.benchmarks.rows import read_rows

MMLU = {"question": "q", "subject": "anatomy", "choices": ["a", "b", "c", "d"], "answer": 2}


def write_arrow(path: Path, rows: list[dict[str, Any]]) -> None:
    """Write a data set as the library `datasets` saves it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    table = pa.Table.from_pylist(rows)
    with pa.OSFile(str(path), "wb") as file, pa.ipc.new_stream(file, table.schema) as stream:
        stream.write_table(table)


def test_mmlu(tmp_path: Path) -> None:
    """The answer is an index; one beyond the choices is an error."""
    (tmp_path / "all").mkdir()
    file = tmp_path / "all/test-00000-of-00001.parquet"
    pq.write_table(pa.Table.from_pylist([MMLU]), file)
    (task,) = load("mmlu", tmp_path)
    assert task.target == {"answer": "C", "choices": ["a", "b", "c", "d"]}
    assert task.attributes["subject"] == "anatomy"
    pq.write_table(pa.Table.from_pylist([MMLU | {"answer": 4}]), file)
    with pytest.raises(BadRow, match=r"parquet:1: answer: 4 is no place of 4 choices"):
        load("mmlu", tmp_path)


def test_mmlu_redux_leaves_out_what_its_publisher_found_faulty(tmp_path: Path) -> None:
    """A row with a wrong key and a readable correction is kept with the correction; rows with any
    other fault are left out."""
    faults = [
        ("ok", None),
        ("wrong_groundtruth", "3"),
        ("wrong_groundtruth", "a"),
        ("wrong_groundtruth", "none of these"),
        ("no_correct_answer", None),
        ("bad_question_clarity", "B"),
    ]
    rows = [
        {k: v for k, v in MMLU.items() if k != "subject"}
        | {"error_type": fault, "correct_answer": correct}
        for fault, correct in faults
    ]
    write_arrow(tmp_path / "virology/data-00000-of-00001.arrow", rows)
    left_out: list[ExcludedRow] = []
    tasks = load("mmlu-redux", tmp_path, left_out)
    assert [task.target["answer"] for task in tasks] == ["C", "D", "A"]
    assert {task.attributes["subject"] for task in tasks} == {"virology"}
    assert [row.reason.rsplit(" ", 1)[-1] for row in left_out] == [
        "wrong_groundtruth",
        "no_correct_answer",
        "bad_question_clarity",
    ]


def test_mmmlu_is_a_file_a_language(tmp_path: Path) -> None:
    """There is one file per language; the first column has no name, as published."""
    heading = ",Question,A,B,C,D,Answer,Subject\n"
    for language in ("DE-DE", "JA-JP"):
        line = "0,Frage,1,2,3,4,B,anatomy\n"
        (tmp_path / f"mmlu_{language}.csv").write_text(heading + line)
    tasks = load("mmmlu", tmp_path)
    assert [task.attributes["language"] for task in tasks] == ["DE-DE", "JA-JP"]
    assert tasks[0].target == {"answer": "B", "choices": ["1", "2", "3", "4"]}
    (tmp_path / "mmlu_DE-DE.csv").write_text(heading + "0,Frage,1,2,3,4,E,anatomy\n")
    with pytest.raises(BadRow, match=r"mmlu_DE-DE.csv:2: Answer: 'E' is no letter of 4 options"):
        load("mmmlu", tmp_path)


def test_supergpqa(tmp_path: Path) -> None:
    """The letter and the text of the answer must agree."""
    row = {
        "uuid": "u1",
        "question": "q",
        "options": ["w", "right"],
        "answer": "right",
        "answer_letter": "B",
        "discipline": "Engineering",
        "field": "Control",
        "subfield": "Robust",
        "difficulty": "hard",
    }
    write_lines(tmp_path / "SuperGPQA-all.jsonl", [row])
    (task,) = load("supergpqa", tmp_path)
    assert task.target["answer"] == "B" and task.attributes["level"] == "hard"
    write_lines(tmp_path / "SuperGPQA-all.jsonl", [row | {"answer_letter": "A"}])
    with pytest.raises(BadRow, match=r"answer: is not option A"):
        load("supergpqa", tmp_path)


def test_competitions(tmp_path: Path) -> None:
    """HMMT, AIME 2026 and Omni-MATH are read with their publishers' columns."""
    row = {"problem_idx": 7, "problem": "p", "answer": "103", "problem_type": ["Algebra"]}
    write_lines(tmp_path / "hmmt/a.jsonl", [row])
    (task,) = load("hmmt-feb-25", tmp_path / "hmmt")
    assert (task.key, task.target["answer"], task.attributes["subject"]) == ("7", "103", "Algebra")
    write_lines(tmp_path / "aime/test.jsonl", [{"id": 1, "problem": "p", "answer": "070"}])
    assert load("aime-26", tmp_path / "aime")[0].target == {"answer": "70"}
    row = {
        "domain": ["Mathematics -> Algebra -> Equations"],
        "difficulty": 8.0,
        "problem": "p",
        "solution": "s",
        "answer": "2",
        "source": "imo",
    }
    write_lines(tmp_path / "omni/test.jsonl", [row])
    (task,) = load("omni-math", tmp_path / "omni")
    assert task.attributes == {"subject": "Algebra", "level": "8", "source": "imo"}
    write_lines(tmp_path / "omni/test.jsonl", [row | {"difficulty": "hard"}])
    with pytest.raises(BadRow, match=r"difficulty: 'hard' is not a number"):
        load("omni-math", tmp_path / "omni")


def test_mgsm_has_no_heading(tmp_path: Path) -> None:
    """A line has two fields, and quotes are part of the text."""
    (tmp_path / "mgsm_de.tsv").write_text('Janet hat "16" Eier.\t18\nDrei?\t1,000\n')
    tasks = load("mgsm", tmp_path)
    assert [task.target["answer"] for task in tasks] == ["18", "1000"]
    assert tasks[0].inputs["question"] == 'Janet hat "16" Eier.'
    (tmp_path / "mgsm_de.tsv").write_text("Nur eine Frage\n")
    with pytest.raises(BadRow, match=r"mgsm_de.tsv:1: 1 fields, not question, answer"):
        load("mgsm", tmp_path)


def test_mrcr_gives_the_conversation(tmp_path: Path) -> None:
    """The messages are the prompt; an answer without its random string is an error."""
    prompt = '[{"role": "user", "content": "write"}, {"role": "assistant", "content": "a poem"}, '
    prompt += '{"role": "user", "content": "Prepend xyz to the 1st poem."}]'
    row = {
        "prompt": prompt,
        "answer": "xyza poem",
        "random_string_to_prepend": "xyz",
        "n_needles": 2,
        "desired_msg_index": 1,
    }
    write_lines(tmp_path / "all.jsonl", [row])
    (task,) = load("mrcr", tmp_path)
    assert len(task.given) == 3 and task.attributes == {"needles": "2", "tokens": "4096"}
    write_lines(tmp_path / "all.jsonl", [row | {"answer": "a poem"}])
    with pytest.raises(BadRow, match="answer: does not begin with random_string_to_prepend"):
        load("mrcr", tmp_path)


def test_a_file_that_is_no_arrow_stream(tmp_path: Path) -> None:
    (tmp_path / "data.arrow").write_bytes(b"no stream at all, but some bytes")
    with pytest.raises(BadRow, match=r"data.arrow: not Arrow"):
        list(read_rows(tmp_path / "data.arrow"))


def test_arena_hard_has_the_baseline_of_its_category(tmp_path: Path) -> None:
    """The publisher's folder is read; an error names a missing answer or file."""
    questions = [
        {"uid": "u1", "category": "hard_prompt", "subcategory": "coding", "prompt": "p"},
        {"uid": "u2", "category": "creative_writing", "prompt": "w"},
    ]
    write_lines(tmp_path / "question.jsonl", questions)
    said = [{"role": "user", "content": "p"}, {"role": "assistant", "content": {"answer": "hard"}}]
    answers = tmp_path / "model_answer"
    write_lines(answers / "o3-mini-2025-01-31.jsonl", [{"uid": "u1", "messages": said}])
    with pytest.raises(BadRow, match=r"gemini-2.0-flash-001.jsonl: .*answers are missing"):
        load("arena-hard", tmp_path)
    plain = [{"role": "assistant", "content": "a tale"}]
    write_lines(answers / "gemini-2.0-flash-001.jsonl", [{"uid": "u2", "messages": plain}])
    tasks = load("arena-hard", tmp_path)
    assert [task.target["baseline"] for task in tasks] == ["hard", "a tale"]
    write_lines(answers / "gemini-2.0-flash-001.jsonl", [{"uid": "u9", "messages": plain}])
    with pytest.raises(BadRow, match=r"question.jsonl:2: uid: .* has no answer to u2"):
        load("arena-hard", tmp_path)


def test_ifbench_rows(tmp_path: Path) -> None:
    """The columns are those of IFEval; null options are left out."""
    row = {
        "key": "7",
        "prompt": "Say a word.",
        "instruction_id_list": ["count:numbers"],
        "kwargs": [{"N": 2.0, "word": None}],
    }
    write_lines(tmp_path / "IFBench_test.jsonl", [row])
    (task,) = load("ifbench", tmp_path)
    assert task.key == "7" and task.target["kwargs"] == [{"N": 2.0}]
    write_lines(tmp_path / "IFBench_test.jsonl", [row | {"kwargs": []}])
    with pytest.raises(BadRow, match=r"kwargs: 0 for 1 instructions"):
        load("ifbench", tmp_path)


def test_math_odyssey_rows(tmp_path: Path) -> None:
    """Each line has one problem under its name; layout at the ends of its fields is removed."""
    layout = "\n\n\\end{problem}\n\\noindent"
    problem = {
        "question": f"What is $n$?{layout}",
        "answer": "$\\frac{1}{2}$.\\\\\n\\noindent",
        "label": "Algebra",
        "level": "college math",
    }
    file = tmp_path / "final-odyssey-math-with-levels.jsonl"
    write_lines(file, [{"Problem_7": problem}])
    (task,) = load("math-odyssey", tmp_path)
    assert (task.key, task.inputs["question"]) == ("7", "What is $n$?")
    assert task.target == {"answer": "\\frac{1}{2}"}
    assert task.attributes == {"subject": "Algebra", "level": "college math"}
    left_out: list[ExcludedRow] = []
    words = [{"Problem_8": problem | {"answer": "Yes."}}, {"Problem_9": problem}]
    write_lines(file, words)
    assert [task.key for task in load("math-odyssey", tmp_path, left_out)] == ["9"]
    assert [row.id for row in left_out] == ["Problem_8"]
    for bad, said in (
        ({"Problem_7": problem | {"answer": "\\noindent"}}, "answer: is empty"),
        (problem, "4 fields, not one problem"),
    ):
        write_lines(file, [bad])
        with pytest.raises(BadRow, match=said):
            load("math-odyssey", tmp_path)
