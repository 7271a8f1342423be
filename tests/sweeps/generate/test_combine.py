"""Tests of `--from-solutions`: only solutions of these rows are used, and lines have NeMo-Skills'
format."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.sweeps.generate.test_work import request_of
from tutti.errors import UsageError
from tutti.tasks.agents import Combination
from tutti.tasks.exchange.nemo_skills.read import read
from tutti.tasks.sweeps.generate import (
    GenerateRequest,
    GivenSolutions,
    Part,
    check_file,
    check_written,
    open_work,
    prompts_of,
)
from tutti.tasks.sweeps.generate.check import Solution, solution_files
from tutti.tasks.sweeps.generate.output import SolvedRow, combined_fields

ROWS = [{"id": f"q{number}", "problem": f"What is {number} + 1?"} for number in range(3)]
TEXTS = [["1", "one", "11"], ["two", "2", "2"], ["3", "3", "3"]]
"""Of each row, of seeds 0, 1 and 2. The last row's are alike."""


def write_solutions(folder: Path, texts: Sequence[Sequence[str]] = TEXTS, **more: Any) -> Path:
    """Write a file per seed, as an earlier run does."""
    folder.mkdir()
    for seed in range(len(texts[0])):
        lines = (
            json.dumps({**row, "generation": said[seed], "num_generated_tokens": 10 + seed, **more})
            for row, said in zip(ROWS, texts, strict=True)
        )
        (folder / f"output-rs{seed}.jsonl").write_text("".join(f"{line}\n" for line in lines))
    return folder


def combining(folder: Path, place: str | Path, **fields: Any) -> GenerateRequest:
    """Return a request for `ROWS`."""
    given = {name: fields.pop(name) for name in ("combine", "window") if name in fields}
    solutions = GivenSolutions(str(place), **given)
    return request_of(folder, ROWS, solutions=solutions, **fields)


def test_the_prompts_of_a_seed_are_a_file_with_a_line_a_row(tmp_path: Path) -> None:
    """A row with identical solutions makes no call; another seed shows another order."""
    request = combining(tmp_path, write_solutions(tmp_path / "in"), samples=20)
    checked = check_file(request)
    first = prompts_of(request, checked, Part(0, 1, 4))
    assert [task is not None for task in first.task_ids] == [True, True, False]
    assert first.request.settings.get("where") == "asked = 'yes'"
    lines = [json.loads(line) for line in first.request.file.read_text().splitlines()]
    (asked,) = lines[0]["messages"]
    assert "What is 0 + 1?" in asked["content"] and "Verdict: 3" in asked["content"]
    assert all(f">\n{text}\n<" in asked["content"] for text in TEXTS[0])
    seeds = [prompts_of(request, checked, Part(seed, 1, 4)) for seed in range(20)]
    assert len({each.request.file.read_text() for each in seeds}) > 5
    assert prompts_of(request, checked, Part(0, 1, 4)) == first


def test_a_synthesis_keeps_the_answer_so_that_its_reply_can_be_scored(tmp_path: Path) -> None:
    rows = [{**row, "expected_answer": "7"} for row in ROWS]
    place = write_solutions(tmp_path / "in", expected_answer="7")
    request = combining(tmp_path, place, combine="synthesis")
    request.file.write_text("".join(json.dumps(row) + "\n" for row in rows))
    made = prompts_of(request, check_file(request), Part(0, 1, 4))
    lines = [json.loads(line) for line in made.request.file.read_text().splitlines()]
    assert [line["answer"] for line in lines] == ["7"] * 3
    assert all(made.task_ids), "solutions that are alike are still made one"
    assert lines[0]["messages"][-1]["content"].endswith("What is 0 + 1?")


def edited(folder: Path, name: str, edit: Any) -> None:
    """Change a file of solutions."""
    path = folder / name
    path.write_text(edit(path.read_text()))


@pytest.mark.parametrize(
    ("edit", "words"),
    [
        (lambda text: "".join(text.splitlines(True)[:2]), r"rs1\.jsonl: has 2 lines for 3 rows"),
        (lambda text: text * 2, r"rs1\.jsonl: has more lines than the 3 rows"),
        (lambda text: text.replace('"q1"', '"q7"'), r"rs1\.jsonl:2: id: is not that of row 2 of"),
        (
            lambda text: "".join(reversed(text.splitlines(True))),
            r"rs1\.jsonl:1: id: is not that of row 1",
        ),
        (
            lambda text: text.replace('"generation": "one"', '"generation": 1'),
            "generation: 1 is",
        ),
        (lambda text: text.replace('"generation"', '"gen"'), r"rs1\.jsonl:1: generation: absent"),
        (lambda text: text.replace("}\n", "\n", 1), r"rs1\.jsonl:1: not JSON"),
    ],
)
def test_solutions_of_other_rows_are_named_by_line_and_field(
    tmp_path: Path, edit: Any, words: str
) -> None:
    """The error is raised before any call."""
    place = write_solutions(tmp_path / "in")
    request = combining(tmp_path, place)
    check_file(request)
    edited(place, "output-rs1.jsonl", edit)
    with pytest.raises(UsageError, match=words):
        check_file(request)


def test_with_a_limit_the_files_may_be_longer(tmp_path: Path) -> None:
    request = combining(tmp_path, write_solutions(tmp_path / "in"), limit=2)
    assert len(check_file(request).task_ids) == 2


def test_other_solutions_are_other_settings(tmp_path: Path) -> None:
    """Fields that a grader added to the lines have no effect."""
    place = write_solutions(tmp_path / "in")
    request = combining(tmp_path, place)
    before = check_file(request).content
    edited(place, "output-rs0.jsonl", lambda text: text.replace("}\n", ', "judgement": "Yes"}\n'))
    assert check_file(request).content == before
    edited(place, "output-rs0.jsonl", lambda text: text.replace('"two"', '"too"'))
    assert check_file(request).content != before


def test_files_are_a_folders_seeds_or_those_of_a_glob(tmp_path: Path) -> None:
    """Files are in the order of their numbers; chunks and marker files do not count."""
    place = tmp_path / "in"
    place.mkdir()
    for name in ("output-rs10.jsonl", "output-rs9.jsonl", "output-rs9.jsonl.done"):
        (place / name).touch()
    (place / "output-rs3_chunk_0.jsonl").touch()
    names = ["output-rs9.jsonl", "output-rs10.jsonl"]
    for text in (str(place), f"{place}/output-rs*[0-9].jsonl"):
        found = solution_files(GivenSolutions(text), tmp_path / "out")
        assert [path.name for path in found if "chunk" not in path.name] == names
    with pytest.raises(UsageError, match="is the folder of the solutions; give another"):
        solution_files(GivenSolutions(str(place)), place)
    (place / names[0]).unlink()
    with pytest.raises(UsageError, match="has 1 files output-rs"):
        solution_files(GivenSolutions(str(place)), tmp_path / "out")
    with pytest.raises(UsageError, match="has 0 files"):
        solution_files(GivenSolutions(str(tmp_path / "nowhere")), tmp_path / "out")


@pytest.mark.parametrize(
    ("text", "more", "tag", "shown"),
    [
        ("<think>hm</think> 4", {}, "off", "<think>hm</think> 4"),
        ("<think>hm</think> 4", {}, None, "4"),
        ("<think>hm", {}, None, ""),
        ("<think>hm</think> 4", {}, "</think>", "4"),
        ("hm", {}, "</think>", ""),
        ("4", {"_full_generation": "hm</think>4"}, "</think>", "4"),
        ("4", {"reasoning_content": "hm"}, "</think>", "4"),
    ],
)
def test_reasoning_that_never_ended_is_no_solution(
    tmp_path: Path, text: str, more: Any, tag: str | None, shown: str
) -> None:
    """The reasoning of a complete solution is not shown either, unless --reasoning is off."""
    place = write_solutions(tmp_path / "in", [[text, "x", "y"]] * 3, **more)
    request = combining(tmp_path, place, settings={"reasoning": tag}, combine="synthesis")
    made = prompts_of(request, check_file(request), Part(0, 1, 4))
    line = json.loads(made.request.file.read_text().splitlines()[0])
    assert (f">\n{shown}\n<" in line["messages"][0]["content"]) == bool(shown)
    assert ("hm" in line["messages"][0]["content"]) == ("hm" in shown)


def solved(texts: Sequence[str], combine: Any = "select") -> SolvedRow:
    """Return a row with these solutions of 10, 11 … tokens."""
    solutions = [Solution(text, 10 + number) for number, text in enumerate(texts)]
    return SolvedRow(solutions, Combination(combine, texts, 99, "seed"))


def reply(text: str, **more: Any) -> dict[str, Any]:
    """Return the fields of a combining call's reply."""
    figures = {"num_generated_tokens": 5, "num_input_tokens": 50, "finish_reason": "stop"}
    return {"generation": text, **figures, **more}


def test_a_line_has_the_fields_of_nemo_skills(tmp_path: Path) -> None:
    """The line also has the position of the selected solution; `tutti import` reads it as parallel
    thinking."""
    request, row = combining(tmp_path, "in"), solved(["41", "42"])
    place = row.combination.shown.index(1)
    fields = combined_fields(request, row, reply(f"It holds.\nVerdict: {place + 1}"))
    shown = [["41", "42"][number] for number in row.combination.shown]
    assert fields == {
        "generation": "42",
        "num_generated_tokens": 26,
        "num_input_tokens": 50,
        "finish_reason": "stop",
        "solution_list": shown,
        "solution_numbers": list(row.combination.shown),
        "selected_solution": place,
        "genselect_comparison": f"It holds.\nVerdict: {place + 1}",
        "genselect_successful": True,
        "genselect_num_generated_tokens": 5,
        "total_solution_generated_tokens": 21,
        "num_best_solution_generated_tokens": 11,
    }
    bench = tmp_path / "mine"
    bench.mkdir()
    (bench / "output-rs0.jsonl").write_text(json.dumps({**ROWS[0], **fields}) + "\n")
    (trial,) = read(bench, "run")
    assert [run["name"] for run in trial.tool_runs] == ["solution", "solution", "select"]  # type: ignore[union-attr]


def test_what_could_not_be_combined_is_in_the_line(tmp_path: Path) -> None:
    """The answer is then a solution drawn by the seed; a synthesis is its own answer."""
    request = combining(tmp_path, "in")
    failed = combined_fields(request, solved(["41", "42"]), reply("Both."))
    assert failed["generation"] in ("41", "42") and not failed["genselect_successful"]
    assert failed["genselect_error"] == "no_verdict"
    long = reply("", error="context_exceeded", detailed_error="too long")
    failed = combined_fields(request, solved(["41", "42"]), long)
    assert failed["genselect_error"] == "context_exceeded" and "error" not in failed
    alike = combined_fields(request, solved(["42", "42"]), {})
    assert (alike["generation"], alike["genselect_num_generated_tokens"]) == ("42", 0)
    assert alike["genselect_successful"] and alike["selected_solution"] == 0
    none = combined_fields(request, solved(["", ""]), {})
    assert (none["solution_list"], none["selected_solution"]) == ([], None)
    assert none["genselect_error"] == "no_candidate"
    request = combining(tmp_path, "in", combine="synthesis")
    made = combined_fields(request, solved(["41", "42"], "synthesis"), reply("So 42."))
    assert (made["generation"], made["selected_solution"]) == ("So 42.", None)
    assert made["gensynthesis_successful"]
    assert "num_best_solution_generated_tokens" not in made


def test_each_seed_is_a_part_and_its_written_file_is_known_again(tmp_path: Path) -> None:
    """A seed draws other solutions, so each seed is a separate cell."""
    request = combining(tmp_path, write_solutions(tmp_path / "in"), samples=2)
    assert open_work(request, 4).left == (Part(0, 1, 4), Part(1, 1, 4))
    path = request.path_of(0)
    path.parent.mkdir(exist_ok=True)
    fields = combined_fields(request, solved(["1", "1"]), {})
    path.write_text("".join(json.dumps({**row, **fields}) + "\n" for row in ROWS))
    check_written(request, len(ROWS))


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"window": 1}, "--window: 1 solutions are not compared"),
        ({"settings": {"search_index": "x"}}, "--search-index: solutions are combined without"),
    ],
)
def test_impossible_combinations_are_refused(tmp_path: Path, fields: Any, words: str) -> None:
    with pytest.raises(UsageError, match=words):
        combining(tmp_path, "in", **fields)
