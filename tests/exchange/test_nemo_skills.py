"""Tests of NeMo-Skills' output: a file per seed, rows with the fields of the benchmark and the
graders."""

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.exchange.imported import (
    DROP,
    Record,
    changed,
    check_others_are_kept,
    keys,
    mutated_lines,
    said,
    taken,
    write_lines,
)
from tutti.tasks.exchange.base.imported import ImportedAttempt
from tutti.tasks.exchange.nemo_skills.read import read

T0 = 1_780_000_000.0


def row(id: Any = "aime-1", **more: Any) -> Record:
    """Return a row of a maths benchmark after grading."""
    return {
        "generation": "So the answer is \\boxed{4}.",
        "num_generated_tokens": 12,
        "num_input_tokens": 30,
        "generation_start_time": T0,
        "generation_end_time": T0 + 2.5,
        "generation_time": 2.5,
        "finish_reason": "stop",
        "reasoning_content": "2 and 2",
        "serialized_output": [{"role": "assistant", "content": "So the answer is \\boxed{4}."}],
        "id": id,
        "problem": "What is 2+2?",
        "expected_answer": "4",
        "predicted_answer": "4",
        "symbolic_correct": True,
    } | more


def with_tools(**more: Any) -> Record:
    """Return a row of a run with tools: the whole conversation, and lists over its steps."""
    call = {"id": "c1", "type": "function", "function": {"name": "python", "arguments": '{"c": 1}'}}
    record = row(**more)
    del record["serialized_output"]
    return record | {
        "finish_reason": ["tool_calls", "stop"],
        "reasoning_content": ["a", "b"],
        "num_tool_calls": 1,
        "conversation": [
            {"role": "user", "content": "Example?"},
            {"role": "assistant", "content": "An example's answer."},
            {"role": "user", "content": "What is 2+2?"},
            {"role": "assistant", "content": None, "tool_calls": [call], "reasoning_content": "a"},
            {"role": "tool", "name": "python", "tool_call_id": "c1", "content": "4"},
            {"role": "assistant", "content": "\\boxed{4}"},
        ],
    }


@pytest.fixture
def bench(tmp_path: Path) -> Path:
    """Return a benchmark's folder in the layout of `ns eval`."""
    return tmp_path / "out" / "eval-results" / "aime25"


def only(bench: Path, record: Record) -> ImportedAttempt:
    """Return the only attempt of a file with one row and no issues."""
    trials, problems = taken(read(write_lines(bench / "output-rs3.jsonl", [record]), "exp"))
    assert problems == []
    (trial,) = trials
    return trial


def test_a_row_becomes_a_trial(bench: Path) -> None:
    """The benchmark is the folder's name, the trial is the seed."""
    trial = only(bench, row())
    assert (trial.cell.run, trial.cell.benchmark, trial.cell.model) == ("exp", "aime25", "unknown")
    assert (trial.task_id, trial.trial, trial.line) == ("aime-1", 3, 1)
    assert trial.messages == [
        {"role": "user", "content": "What is 2+2?"},
        {
            "role": "assistant",
            "content": "So the answer is \\boxed{4}.",
            "reasoning": "2 and 2",
            "call_id": "call-1",
        },
    ]
    (call,) = trial.calls
    assert (call["prompt_tokens"], call["completion_tokens"], call["latency_s"]) == (30, 12, 2.5)
    assert (call["finish_reason"], call["status"]) == ("stop", "ok")
    assert trial.outcome["working_s"] == 2.5
    assert (trial.outcome["answer"], trial.outcome["score"]) == ("4", 1.0)
    assert trial.outcome["correct"] is True
    (score,) = trial.scores
    assert score["scorer"] == "symbolic_correct"
    assert json.loads(score["detail"]) == {"expected_answer": "4"}


def test_a_conversation_with_tools(bench: Path) -> None:
    """The last replies of the conversation are calls, earlier ones are examples of the prompt, and
    sums are assigned to no call."""
    trial = only(bench, with_tools())
    assert [message.get("call_id") for message in trial.messages] == [
        None,
        None,
        None,
        "call-1",
        None,
        "call-2",
    ]
    assert [call["finish_reason"] for call in trial.calls] == ["tool_calls", "stop"]
    assert trial.tool_runs == [
        {"step": 1, "name": "python", "arguments": '{"c": 1}', "result": "4"}
    ]
    assert (trial.outcome["tool_calls"], trial.outcome["completion_tokens"]) == (1, 12)
    assert "completion_tokens" not in trial.calls[0]


def test_thinking_is_cut_off_the_front(bench: Path) -> None:
    more = {"_full_generation": "<think>hm</think>four", "generation": "four"}
    trial = only(bench, changed(row(**more), "reasoning_content", DROP))
    assert trial.messages[1]["content"] == "four"
    assert trial.messages[1]["reasoning"] == "<think>hm</think>"


def test_the_answer_lost_its_blanks_by_the_split(bench: Path) -> None:
    """NeMo-Skills strips the text after the tag; the reasoning does not contain the answer."""
    record = {"_full_response": "hm</think>\n\nfour\n", "response": "four"}
    trial = only(
        bench, changed(changed(row(**record), "reasoning_content", DROP), "generation", DROP)
    )
    assert (trial.messages[1]["content"], trial.messages[1]["reasoning"]) == (
        "four",
        "hm</think>\n\n",
    )


def test_parallel_thinking_is_stored_as_ours(bench: Path) -> None:
    """Each solution and the choice is a run; the token sum belongs to the attempt and to no
    call."""
    record = row(
        generation="four",
        solution_list=["five", "four"],
        genselect_comparison="Judgment: 1",
        genselect_successful=True,
        genselect_num_generated_tokens=7,
        total_solution_generated_tokens=30,
        num_generated_tokens=37,
    )
    trial = only(bench, record)
    assert [(run["name"], run["arguments"], run["result"]) for run in trial.tool_runs] == [
        ("solution", '{"number": 0}', "five"),
        ("solution", '{"number": 1}', "four"),
        ("select", '{"taken": 1}', "Judgment: 1"),
    ]
    assert trial.outcome["completion_tokens"] == 37
    assert [(call["role"], call.get("completion_tokens")) for call in trial.calls] == [
        ("orchestrator", None),
        ("selector", 7),
    ]
    failed = only(bench, record | {"genselect_successful": False})
    assert failed.tool_runs[-1]["error_type"] == "no_verdict"
    none = {"solution_list": [], "genselect_comparison": "", "generation": ""}
    nothing = only(bench, record | none)
    assert (nothing.tool_runs, len(nothing.calls)) == ([], 1)


@pytest.mark.parametrize("key", ["response", "completion"])
def test_the_answers_field_has_other_names(bench: Path, key: str) -> None:
    """Benchmarks of instruction following and code rename the field."""
    record = row(**{key: "text"})
    del record["generation"]
    assert only(bench, record).messages[1]["content"] == "text"


@pytest.mark.parametrize(
    "fields, scorer, value",
    [
        ({"symbolic_correct": False}, "symbolic_correct", 0.0),
        ({"judgement": "Reasoning: …\nJudgement: Yes"}, "judge_correct", 1.0),
        ({"judgement": "Judgement: No"}, "judge_correct", 0.0),
        ({"judgement": "Judgement: Yes. No: Judgement: maybe"}, "judge_correct", 0.0),
        ({"judgement": "A"}, "judge_correct", 1.0),
        ({"judgement": "C: not attempted"}, "judge_correct", 0.0),
        ({"judgement": "INCORRECT, because"}, "judge_correct", 0.0),
        ({"is_correct": 0.5}, "is_correct", 0.5),
        ({"graded_list": [True, False]}, "graded_list", 1.0),
        ({"is_passed": False}, "is_passed", 0.0),
        ({"proof_status": "completed"}, "lean4_correct", 1.0),
        ({"proof_status": "timeout"}, "lean4_correct", 0.0),
        ({"status": "pass"}, "passed", 1.0),
        ({"seq_match_ratio": 0.25}, "seq_match_ratio", 0.25),
        ({"strict_eval": {"follow_all_instructions": True}}, "strict_follow_all", 1.0),
        ({"swe-bench-metrics": {"resolved": False}}, "issues_resolved", 0.0),
    ],
)
def test_each_graders_field_is_a_score(
    bench: Path, fields: Record, scorer: str, value: float
) -> None:
    """A partial score is neither correct nor wrong."""
    record = row()
    del record["symbolic_correct"]
    trial = only(bench, record | fields)
    assert [(s["scorer"], s["value"]) for s in trial.scores] == [(scorer, value)]
    assert trial.outcome["score"] == value
    assert trial.outcome.get("correct") == {0.0: False, 1.0: True}.get(value)


def test_a_judge_goes_before_the_symbols(bench: Path) -> None:
    trial = only(bench, row(judgement="Judgement: No"))
    assert [(s["scorer"], s["correct"]) for s in trial.scores] == [
        ("judge_correct", False),
        ("symbolic_correct", True),
    ]
    assert trial.outcome["correct"] is False


def test_a_judge_under_test_is_scored_against_people(bench: Path) -> None:
    record = row(judgement="Judgement: No", expected_judgement="Judgement: Yes")
    trial = only(bench, changed(record, "symbolic_correct", DROP))
    assert [(s["scorer"], s["value"]) for s in trial.scores] == [
        ("correct_judgement", 0.0),
        ("judge_correct", 0.0),
    ]


def test_verdicts_between_two_answers_have_no_number(bench: Path) -> None:
    record = row(**{"judgement-gen-base": "[[A>>B]]", "judgement-base-gen": "[[B>A]]"})
    trial = only(bench, changed(record, "symbolic_correct", DROP))
    assert [(s["scorer"], s.get("value")) for s in trial.scores] == [
        ("judgement-gen-base", None),
        ("judgement-base-gen", None),
    ]
    assert json.loads(trial.scores[0]["detail"])["judgement-base-gen"] == "[[B>A]]"
    assert "score" not in trial.outcome


@pytest.mark.parametrize(
    "more, status, stop",
    [
        ({"finish_reason": "length"}, "limit", "length"),
        (
            {"generation": "", "error": "context_window_exceeded"},
            "limit",
            "context_window_exceeded",
        ),
        ({"generation": "", "error": "See detailed_error"}, "infra_error", "See detailed_error"),
        ({"finish_reason": None}, "ok", None),
    ],
)
def test_status(bench: Path, more: Record, status: str, stop: str | None) -> None:
    """A soft failure of the server is no wrong answer."""
    trial = only(bench, row(**more))
    assert (trial.outcome["status"], trial.outcome.get("stop_reason")) == (status, stop)


def test_tasks_without_an_id_are_told_by_their_problem(bench: Path) -> None:
    """The same problem twice is two tasks; a grown file gives the same ids."""
    rows = [changed(row(), "id", DROP), changed(row(problem="?"), "id", DROP), row(7), row(7)]
    rows.insert(2, rows[0])
    before, problems = taken(read(write_lines(bench / "output-rs0.jsonl", rows), "exp"))
    assert problems == []
    first = before[0].task_id
    assert [t.task_id for t in before][2:] == [f"{first}#2", "7", "7#2"]
    more = [*rows, row("new")]
    after, _ = taken(read(write_lines(bench / "output-rs0.jsonl", more), "exp"))
    assert keys(after)[:5] == keys(before)


def test_every_folder_that_results_lie_in_is_read(bench: Path) -> None:
    """The folders are the output folder, its eval-results and a benchmark's folder; seeds are
    trials of one cell."""
    for seed in (0, 1, 10):
        write_lines(bench / f"output-rs{seed}.jsonl", [row()])
    write_lines(bench.parent / "gsm8k" / "output.jsonl", [row()])
    (bench / "metrics.json").write_text("{}")
    (bench.parent / "gsm8k-logs").mkdir()
    for path in (bench.parent.parent, bench.parent):
        trials, problems = taken(read(path, "exp"))
        assert problems == []
        assert [(t.cell.benchmark, t.trial) for t in trials] == [
            ("aime25", 0),
            ("aime25", 1),
            ("aime25", 10),
            ("gsm8k", 0),
        ]
    trials, _ = taken(read(bench, "exp"))
    assert [trial.trial for trial in trials] == [0, 1, 10]
    assert len({trial.cell for trial in trials}) == 1


def test_greedy_decoding_is_a_run_of_its_own(bench: Path) -> None:
    """Seed 0's answers are different answers to the same task."""
    write_lines(bench / "output.jsonl", [row()])
    write_lines(bench / "output-rs0.jsonl", [row()])
    trials, _ = taken(read(bench, "exp"))
    assert [trial.cell.run for trial in trials] == ["exp/greedy", "exp"]


def test_chunks_are_taken_until_they_are_merged(bench: Path) -> None:
    """Chunks are read in the order of their numbers; remaining chunks beside the merged file are
    reported."""
    for chunk in (0, 2, 10):
        write_lines(bench / f"output-rs1_chunk_{chunk}.jsonl", [row(f"t{chunk}")])
    trials, problems = taken(read(bench, "exp"))
    assert problems == []
    assert [(t.task_id, t.trial) for t in trials] == [("t0", 1), ("t2", 1), ("t10", 1)]
    write_lines(bench / "output-rs1.jsonl", [row("t0")])
    trials, problems = taken(read(bench, "exp"))
    assert len(trials) == 1
    assert [p.file.name for p in problems] == [f"output-rs1_chunk_{n}.jsonl" for n in (0, 2, 10)]


def test_a_job_that_has_not_ended_is_named(bench: Path) -> None:
    """The rows of such a job have no fixed order and no grades."""
    path = write_lines(bench / "output-rs0.jsonl-async", [row(_async_position=0)])
    for given_path in (bench, path):
        trials, problems = taken(read(given_path, "exp"))
        assert trials == []
        assert "output-rs0.jsonl" in problems[0].reason


def test_other_files_are_problems(bench: Path, tmp_path: Path) -> None:
    path = write_lines(bench / "input.jsonl", [row()])
    assert "is not an output.jsonl" in taken(read(path, "exp"))[1][0].reason
    assert len(taken(read(tmp_path / "out", "exp"))[1]) == 1


@pytest.mark.parametrize(
    "path, value, field, kept",
    [
        ("num_generated_tokens", "12", "num_generated_tokens", True),
        ("num_generated_tokens", -1, "num_generated_tokens", True),
        ("generation_time", float("nan"), "generation_time", True),
        ("generation_start_time", "T", "generation_start_time", True),
        ("symbolic_correct", "yes", "symbolic_correct", True),
        ("finish_reason", [1], "finish_reason", True),
        ("judgement", "perhaps", "judgement", True),
        ("generation", 5, "generation", False),
        ("generation", DROP, "generation", False),
        ("id", {"a": 1}, "id", True),
    ],
)
def test_a_bad_field_is_named(bench: Path, path: str, value: Any, field: str, kept: bool) -> None:
    """A row with a broken id is still identified by its problem."""
    record = row("b", judgement="Judgement: Yes")
    lines = [row("a"), changed(record, path, value), row("c")]
    trials, problems = taken(read(write_lines(bench / "output-rs0.jsonl", lines), "exp"))
    assert len(trials) == (3 if kept else 2)
    assert said(problems)[0] == (2, field)


def test_a_row_without_anything_to_tell_it_by_is_refused(bench: Path) -> None:
    """The row's position in the file could be another row's position in a chunk."""
    record = row()
    del record["id"], record["problem"]
    trials, problems = taken(read(write_lines(bench / "output-rs0.jsonl", [record]), "exp"))
    assert trials == []
    assert "to tell its task by" in problems[0].reason


@given(line=st.data())
def test_no_line_costs_another_its_trial(
    tmp_path_factory: pytest.TempPathFactory, line: st.DataObject
) -> None:
    path = tmp_path_factory.mktemp("n") / "output-rs0.jsonl"
    make = line.draw(st.sampled_from([row, with_tools]))
    records = [make(id=name) for name in ("alpha", "beta", "gamma")]
    check_others_are_kept(read, path, records, line.draw(mutated_lines(records[1])))
