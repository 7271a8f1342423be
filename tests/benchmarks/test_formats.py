"""Tests of formats without public data here, on small constructed files with the publishers'
columns."""

import base64
import json
import os
import pickle
import sqlite3
import zlib
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.benchmarks.conftest import load, write_lines
from tutti.tasks.benchmarks import BadRow, ExcludedRow, SourceMissing, benchmark_named
from tutti.tasks.benchmarks.questions.choices import shuffled


def test_math_500(tmp_path: Path) -> None:
    """The columns are problem, answer, subject, level and unique_id."""
    row = {"problem": "p", "answer": r"\frac{1}{2}", "subject": "Algebra", "level": 3}
    write_lines(tmp_path / "test.jsonl", [row | {"unique_id": "test/a/1.json", "solution": "s"}])
    (task,) = load("math-500", tmp_path)
    assert task.key == "test/a/1.json" and task.target == {"answer": r"\frac{1}{2}"}
    assert task.attributes == {"subject": "Algebra", "level": "3"}


@pytest.mark.parametrize("answer", ["016", 16, "16"])
def test_aime_answers_are_whole_numbers(tmp_path: Path, answer: object) -> None:
    """ "016", "16" and 16 are the same answer."""
    write_lines(tmp_path / "test.jsonl", [{"id": 0, "problem": "p", "answer": answer}])
    assert load("aime-25", tmp_path)[0].target == {"answer": "16"}


@pytest.mark.parametrize("answer", ["1000", "-3", "2.5", "", "\u0665"])
def test_aime_answers_that_cannot_be(tmp_path: Path, answer: str) -> None:
    """An answer outside 0 to 999 is an error with file, line and field."""
    write_lines(tmp_path / "test.jsonl", [{"id": 0, "problem": "p", "answer": answer}])
    with pytest.raises(BadRow, match=r"test\.jsonl:1: answer: "):
        load("aime-25", tmp_path)


def test_aime_24_is_parquet(tmp_path: Path) -> None:
    """The 2024 set is read in its publisher's format."""
    rows = [{"id": 60, "problem": "p", "solution": "s", "answer": "204", "year": "2024"}]
    (tmp_path / "data").mkdir()
    pq.write_table(pa.Table.from_pylist(rows), tmp_path / "data/train-00000-of-00001.parquet")
    (task,) = load("aime-24", tmp_path)
    assert (task.key, task.target["answer"]) == ("60", "204")


GPQA_COLUMNS = (
    "Record ID,Question,Correct Answer,Incorrect Answer 1,Incorrect Answer 2,"
    "Incorrect Answer 3,High-level domain,Subdomain"
)


def test_gpqa_shuffles_by_the_item_s_id(tmp_path: Path) -> None:
    """The gold letter refers to the correct option, its position is an attribute, and the order is
    reproducible."""
    lines = [f"rec{n},q{n},right,w1,w2,w3,Physics,Optics" for n in range(40)]
    (tmp_path / "gpqa_diamond.csv").write_text("\n".join([GPQA_COLUMNS, *lines]) + "\n")
    tasks = load("gpqa", tmp_path)
    for task in tasks:
        place = int(task.attributes["gold_position"])
        assert task.target["choices"][place] == "right"
        assert task.target["answer"] == "ABCD"[place]
        assert f"{task.target['answer']}) right" in task.inputs["choices"]
    assert {task.attributes["gold_position"] for task in tasks} == set("0123")
    assert [task.target for task in load("gpqa", tmp_path)] == [task.target for task in tasks]
    # Pinned: another order would make old results incomparable without anyone seeing it.
    assert shuffled(4, "rec0") == [2, 1, 0, 3]


@given(st.integers(1, 20), st.text())
def test_a_shuffle_is_an_order(count: int, item_id: str) -> None:
    """Every position occurs once."""
    assert sorted(shuffled(count, item_id)) == list(range(count))


def test_mmlu_pro_drops_filler_options(tmp_path: Path) -> None:
    """Options "N/A" are omitted and the letters are adjusted; a wrong index is an error."""
    row = {
        "question_id": 70,
        "question": "q",
        "options": ["w", "N/A", "right", "N/A"],
        "answer": "C",
        "answer_index": 2,
        "category": "physics",
        "src": "ori",
    }
    write_lines(tmp_path / "test.jsonl", [row])
    (task,) = load("mmlu-pro", tmp_path)
    assert task.target == {"answer": "B", "choices": ["w", "right"]}
    assert task.attributes["subject"] == "physics" and task.inputs["choices"] == "A) w\nB) right"
    for wrong in ({"answer_index": 1}, {"answer": "E"}, {"answer": "cc"}, {"options": ["w", 2]}):
        write_lines(tmp_path / "test.jsonl", [row | wrong])
        with pytest.raises(BadRow, match=r"test\.jsonl:1: (answer|options)"):
            load("mmlu-pro", tmp_path)


HLE = {"question": "q", "answer": "a", "answer_type": "exactMatch", "category": "Math"}


def test_hle_says_what_it_leaves_out(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """By default only text questions are loaded and the omitted ones are counted; hle-images keeps
    all, with the image as a field."""
    image = "data:image/png;base64,AAAA"
    rows = [HLE | {"id": "t", "image": ""}, HLE | {"id": "i", "image": image}]
    write_lines(tmp_path / "test.jsonl", rows)
    left: list[ExcludedRow] = []
    assert [task.key for task in load("hle", tmp_path, left)] == ["t"]
    assert [one.id for one in left] == ["i"]
    assert "hle: 1 left out: the question has an image" in caplog.text
    both = load("hle-images", tmp_path)
    assert [task.key for task in both] == ["t", "i"] and both[1].inputs["image"] == image
    write_lines(tmp_path / "test.jsonl", [HLE | {"id": "x", "image": "/etc/passwd"}])
    with pytest.raises(BadRow, match="image: is neither"):
        load("hle-images", tmp_path)


def test_simpleqa_reads_its_metadata(tmp_path: Path) -> None:
    """The metadata are a Python literal in a table's cell, or an object; code is never run."""
    meta = "\"{'topic': 'Art', 'answer_type': 'Date', 'urls': []}\""
    file = tmp_path / "simple_qa_test_set.csv"
    file.write_text(f"metadata,problem,answer\n{meta},q,1999\n")
    (task,) = load("simpleqa", tmp_path)
    assert task.attributes == {"subject": "Art", "answer_type": "Date"}
    assert task.target == {"answer": "1999", "question": "q"}
    file.write_text("metadata,problem,answer\n\"__import__('os').abort()\",q,1\n")
    with pytest.raises(BadRow, match=r"csv:2: metadata: .* is no literal"):
        load("simpleqa", tmp_path)


def test_frames_as_its_publisher_s_table(tmp_path: Path) -> None:
    """The columns are Prompt, Answer, reasoning_types and wiki_links."""
    heading = "\tPrompt\tAnswer\treasoning_types\twiki_links"
    (tmp_path / "test.tsv").write_text(f"{heading}\n0\tq\ta\tTabular\t['https://w/1']\n")
    (task,) = load("frames", tmp_path)
    assert task.target["documents"] == ["https://w/1"] and task.attributes["reasoning"] == "Tabular"


def test_ifeval_pairs_instructions_with_arguments(tmp_path: Path) -> None:
    """Null arguments are omitted; lists of different lengths are an error."""
    row = {"key": 1, "prompt": "p", "instruction_id_list": ["a:b"], "kwargs": [{"n": 2, "m": None}]}
    write_lines(tmp_path / "input_data.jsonl", [row])
    assert load("ifeval", tmp_path)[0].target["kwargs"] == [{"n": 2}]
    write_lines(tmp_path / "input_data.jsonl", [row | {"kwargs": []}])
    with pytest.raises(BadRow, match=r"jsonl:1: kwargs: 0 for 1 instructions"):
        load("ifeval", tmp_path)


def lcb(**changed: Any) -> dict[str, Any]:
    """Return a LiveCodeBench row with packed hidden tests."""
    hidden = [{"input": "2\n", "output": "4\n", "testtype": "stdin"}]
    public = [{"input": "1\n", "output": "2\n", "testtype": "stdin"}]
    row = {
        "question_id": "abc_a",
        "question_content": "double it",
        "starter_code": "",
        "public_test_cases": json.dumps(public),
        "private_test_cases": packed(json.dumps(hidden)),
        "metadata": "{}",
        "difficulty": "easy",
        "platform": "atcoder",
        "contest_date": "2024-08-03T00:00:00",
    }
    return row | changed


def packed(value: object) -> str:
    """Return `value` packed as the publisher packs hidden tests."""
    return base64.b64encode(zlib.compress(pickle.dumps(value))).decode()


def test_livecodebench_unpacks_hidden_tests(tmp_path: Path) -> None:
    """Public and hidden cases are combined; month, platform and difficulty can be used for
    selection."""
    write_lines(tmp_path / "test.jsonl", [lcb()])
    write_lines(tmp_path / "test2.jsonl", [lcb(question_id="abc_b")])
    first, second = load("livecodebench", tmp_path)
    assert first.target["cases"] == [
        {"input": "1\n", "output": "2\n"},
        {"input": "2\n", "output": "4\n"},
    ]
    assert "entry_point" not in first.target and first.attributes["month"] == "2024-08"
    assert [task.key for task in load("livecodebench", tmp_path, split="v1")] == ["abc_a"]
    assert second.key == "abc_b"


def test_livecodebench_functions_have_an_entry_point(tmp_path: Path) -> None:
    """Functional tests name the method; the starter code is a field of the prompt."""
    case = [{"input": "1", "output": "2", "testtype": "functional"}]
    row = lcb(
        public_test_cases=json.dumps(case),
        private_test_cases=json.dumps(case),
        starter_code="class Solution:",
        metadata='{"func_name": "twice"}',
    )
    write_lines(tmp_path / "test.jsonl", [row])
    (task,) = load("livecodebench", tmp_path)
    assert task.target["entry_point"] == "twice" and "class Solution:" in task.inputs["starter"]


class Hostile:
    """Object that creates a folder when it is unpickled by pickle itself."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def __reduce__(self) -> tuple[Any, ...]:
        return os.mkdir, (str(self.folder),)


def test_livecodebench_runs_no_pickled_code(tmp_path: Path) -> None:
    """A pickle that calls anything is refused, and so are truncated tests."""
    hostile = packed(Hostile(tmp_path / "made"))
    for wrong in (hostile, packed("[]")[:-8], packed(b"\xff"), packed("{}"), "%%%"):
        write_lines(tmp_path / "test.jsonl", [lcb(private_test_cases=wrong)])
        with pytest.raises(BadRow, match=r"test\.jsonl:1: private_test_cases"):
            load("livecodebench", tmp_path)
    assert not (tmp_path / "made").exists()


def test_livecodebench_mixed_tests_are_an_error(tmp_path: Path) -> None:
    """A problem must have one kind of test."""
    case = [{"input": "1", "output": "2", "testtype": "functional"}]
    write_lines(tmp_path / "test.jsonl", [lcb(public_test_cases=json.dumps(case))])
    with pytest.raises(BadRow, match="test types"):
        load("livecodebench", tmp_path)


def write_bird(folder: Path, **changed: str) -> None:
    """Write a BIRD folder with one question for one database."""
    database = folder / "dev_databases" / "zoo" / "zoo.sqlite"
    database.parent.mkdir(parents=True, exist_ok=True)
    database.unlink(missing_ok=True)
    connection = sqlite3.connect(database)
    connection.execute("CREATE TABLE animal (name TEXT, legs INTEGER)")
    connection.execute("INSERT INTO animal VALUES ('ant', 6), ('owl', 2)")
    connection.commit()
    connection.close()
    row = {"question_id": 3, "db_id": "zoo", "question": "Most legs?", "evidence": "legs"}
    row |= {"SQL": "SELECT name FROM animal ORDER BY legs DESC", "difficulty": "simple"}
    (folder / "dev.json").write_text(json.dumps([row | changed]))


def test_bird_finds_each_database(tmp_path: Path) -> None:
    """The scorer gets the database's path, the prompt its CREATE statements; the task's id does not
    depend on the folder's path."""
    for folder in (tmp_path / "a", tmp_path / "b"):
        write_bird(folder)
    (one,), (two,) = load("bird", tmp_path / "a"), load("bird", tmp_path / "b")
    assert Path(one.target["database"]).name == "zoo.sqlite"
    assert one.inputs["schema"] == "CREATE TABLE animal (name TEXT, legs INTEGER)"
    assert one.target != two.target and one.task_id == two.task_id
    assert one.attributes == {"database": "zoo", "difficulty": "simple"}


@pytest.mark.parametrize("name", ["bus", "../zoo", ""])
def test_bird_without_the_database(tmp_path: Path, name: str) -> None:
    """A missing database is an error when the tasks load, not when they are scored."""
    write_bird(tmp_path, db_id=name)
    with pytest.raises(BadRow, match=r"dev\.json:1: db_id: "):
        load("bird", tmp_path)


def test_bird_with_a_file_that_is_no_database(tmp_path: Path) -> None:
    """The error names the damaged database."""
    write_bird(tmp_path)
    (tmp_path / "dev_databases/zoo/zoo.sqlite").write_bytes(b"no database" * 100)
    with pytest.raises(BadRow, match="not a database"):
        load("bird", tmp_path)


BFCL_TOOL = {
    "name": "geo.find",
    "description": "d",
    "parameters": {
        "type": "dict",
        "properties": {
            "at": {"type": "dict", "properties": {"lat": {"type": "float"}}},
            "unit": {"type": "string"},
        },
        "required": ["at"],
    },
}


def write_bfcl(folder: Path, category: str, truth: object) -> None:
    """Write one question of a category and its correct calls."""
    question = [[{"role": "user", "content": "find it"}]]
    row = {"id": f"{category}_0", "question": question, "function": [BFCL_TOOL]}
    write_lines(folder / f"BFCL_v3_{category}.json", [row])
    if truth is not None:
        answer = {"id": f"{category}_0", "ground_truth": truth}
        write_lines(folder / "possible_answer" / f"BFCL_v3_{category}.json", [answer])


def test_bfcl_writes_out_every_right_value(tmp_path: Path) -> None:
    """Tool names have no dots, types are those of JSON Schema, nested values are whole objects, and
    optional arguments are marked."""
    truth = [{"geo.find": {"at": [{"lat": [1.5, 2], "lon": [3, ""]}], "unit": ["km", ""]}}]
    write_bfcl(tmp_path, "simple", truth)
    (task,) = load("bfcl", tmp_path)
    (call,) = task.target["calls"]
    wanted = [{"lat": 1.5, "lon": 3}, {"lat": 1.5}, {"lat": 2, "lon": 3}, {"lat": 2}]
    assert call["accepted"] == {"at": wanted, "unit": ["km", ""]}
    assert call["name"] == "geo_find" and call["optional"] == ["unit"]
    function = task.tools[0]["function"]
    assert function["name"] == "geo_find" and function["parameters"]["type"] == "object"
    assert function["parameters"]["properties"]["at"]["type"] == "object"
    assert task.given == [{"role": "user", "content": "find it"}]


def test_bfcl_irrelevance_wants_no_call(tmp_path: Path) -> None:
    """No answer file is needed, and the target has no call."""
    write_bfcl(tmp_path, "irrelevance", None)
    (task,) = load("bfcl", tmp_path, split="irrelevance")
    assert task.target["calls"] == [] and task.attributes["category"] == "irrelevance"


def test_bfcl_targets_have_what_the_published_rule_needs(tmp_path: Path) -> None:
    """The target keeps the answers as written and the types and required arguments in BFCL's
    format; a key has one value."""
    write_bfcl(tmp_path, "simple", [{"geo.find": {"at": [{"lat": 3}], "unit": ["km", ""]}}])
    (task,) = load("bfcl", tmp_path)
    (call,) = task.target["calls"]
    assert call["possible"] == {"at": [{"lat": 3}], "unit": ["km", ""]}
    assert call["accepted"]["at"] == [{"lat": 3}]
    types = {"at": ["dict", None], "unit": ["string", None]}
    assert task.target["functions"] == {"geo_find": {"required": ["at"], "types": types}}


def test_bfcl_answers_that_do_not_fit(tmp_path: Path) -> None:
    """Errors are raised for a missing file, a missing answer, an unknown function, values that are
    no lists and surplus answers."""
    write_bfcl(tmp_path, "simple", None)
    with pytest.raises(SourceMissing, match="possible_answer"):
        load("bfcl", tmp_path)
    many = [{"a": list(range(70)), "b": list(range(70))}]
    for truth, said in (
        ([{"other": {}}], "none of the functions"),
        ([{"geo.find": {"at": 3}}], "not a list"),
        ([{"geo.find": {"at": many}}], "more than 4096"),
    ):
        write_bfcl(tmp_path, "simple", truth)
        with pytest.raises(BadRow, match=said):
            load("bfcl", tmp_path)
    write_lines(tmp_path / "possible_answer/BFCL_v3_simple.json", [{"id": "x", "ground_truth": []}])
    with pytest.raises(BadRow, match="simple_0 has no answer"):
        load("bfcl", tmp_path)


def test_bfcl_several_turns_are_not_read(tmp_path: Path) -> None:
    """Such categories need BFCL's simulated back ends, so there is no such split."""
    write_bfcl(tmp_path, "multi_turn_base", [])
    with pytest.raises(SourceMissing, match="no split 'multi_turn_base'"):
        load("bfcl", tmp_path, split="multi_turn_base")


FORMS = {"text": "first ask", "code": "def flow(): ask()", "flowchart": "graph TD; a-->b"}


def write_flowbench(folder: Path, knowledge: object = FORMS) -> None:
    """Write a scenario of two turns: a call and a reply."""
    talk = [{"role": "system", "content": "You sell."}, {"role": "user", "content": "hi"}]
    api = {"name": "price", "description": "d", "parameters": {"of": {"type": "string"}}}
    call = {"Thought": "t", "Action": "price", "Action Input": '{"of": "tea"}'}
    turns = [
        {"id": "s1_agent_turn1", "messages": talk, "apis": [api], "gt_thought": call},
        {"id": "s1_agent_turn2", "messages": talk, "apis": [api], "gt_thought": {"Thought": "t"}},
    ]
    turns[1]["gt_response"] = "It is 3."
    write_lines(folder / "shop.jsonl", turns)
    (folder / "knowledge.json").write_text(json.dumps(knowledge))


@pytest.mark.parametrize("form", FORMS)
def test_flowbench_in_each_form(tmp_path: Path, form: str) -> None:
    """The turns are the same with the workflow as text, code or flowchart; braces in code are
    kept."""
    write_flowbench(tmp_path)
    call, reply = load(f"flowbench-{form}", tmp_path)
    assert call.inputs["workflow"] == FORMS[form]
    assert call.target["calls"] == [{"name": "price", "arguments": {"of": "tea"}}]
    assert reply.target == {"calls": [], "response": "It is 3."}
    assert call.tools[0]["function"]["parameters"]["properties"] == {"of": {"type": "string"}}
    write_flowbench(tmp_path, {"shop": FORMS})
    assert load(f"flowbench-{form}", tmp_path)[0].inputs["workflow"] == FORMS[form]


def test_flowbench_without_the_form(tmp_path: Path) -> None:
    """A workflow that is missing in a form is an error, never an empty prompt."""
    write_flowbench(tmp_path, {"text": "t"})
    with pytest.raises(BadRow, match=r"knowledge\.json: code: no such text for shop"):
        load("flowbench-code", tmp_path)
    (tmp_path / "knowledge.json").unlink()
    with pytest.raises(BadRow, match="is missing: it holds the workflow"):
        load("flowbench-code", tmp_path)


def test_an_id_that_comes_twice_is_an_error(tmp_path: Path) -> None:
    """The store cannot distinguish two tasks with the same id."""
    write_lines(tmp_path / "test.jsonl", [{"id": 1, "problem": "p", "answer": "2"}] * 2)
    with pytest.raises(BadRow, match="id: 1 is a duplicate id"):
        load("aime-25", tmp_path)


def test_a_column_that_is_missing_names_the_columns_there_are(tmp_path: Path) -> None:
    """The error of every loader names file, line, field and the row's columns."""
    write_lines(tmp_path / "rows.jsonl", [{"nothing": "here"}])
    for name in ("aime-25", "frames", "gpqa", "gsm8k", "hle", "humaneval", "ifeval", "mbpp"):
        assert benchmark_named(name)
        with pytest.raises(BadRow, match=r"rows\.jsonl:1: .* is missing.*the row has nothing"):
            load(name, tmp_path / "rows.jsonl")
