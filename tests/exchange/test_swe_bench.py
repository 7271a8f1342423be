"""Tests of the report of SWE-bench's own program: its verdicts become attempts and scores."""

import json
from pathlib import Path
from typing import Any

from tests.exchange.imported import write_json, write_lines
from tutti.tasks.exchange import detect
from tutti.tasks.exchange.base.imported import ImportedAttempt, ImportIssue
from tutti.tasks.exchange.swe_bench.read import read

REPORT: dict[str, Any] = {
    "total_instances": 6,
    "submitted_instances": 4,
    "resolved_instances": 1,
    "completed_ids": ["a__a-1", "a__a-2"],
    "incomplete_ids": ["a__a-5", "a__a-6"],
    "empty_patch_ids": ["a__a-3"],
    "submitted_ids": ["a__a-1", "a__a-2", "a__a-3", "a__a-4"],
    "resolved_ids": ["a__a-1"],
    "unresolved_ids": ["a__a-2"],
    "failure_reasons": {"a__a-4": "docker"},
    "error_ids": ["a__a-4"],
    "schema_version": 2,
}


def attempts(report: Path) -> list[ImportedAttempt]:
    """Return the attempts of a report without issues."""
    found = list(read(report, "given"))
    taken = [each for each in found if isinstance(each, ImportedAttempt)]
    assert len(taken) == len(found), found
    return taken


def test_each_submitted_instance_has_the_programs_verdict(tmp_path: Path) -> None:
    report = write_json(tmp_path / "org__model.night.json", REPORT)
    assert detect(report) == "swe-bench"
    taken = attempts(report)
    assert [each.task_id for each in taken] == REPORT["submitted_ids"]
    assert [each.outcome["correct"] for each in taken] == [True, False, False, False]
    words = [json.loads(each.scores[0]["detail"])["outcome"] for each in taken]
    assert words == ["resolved", "unresolved", "empty_patch", "error"]
    assert {each.cell.run for each in taken} == {"night"}
    assert taken[0].cell.model == "org/model" and taken[0].cell.detail["total_instances"] == 6
    assert json.loads(taken[3].scores[0]["detail"])["failure_reason"] == "docker"


def test_patches_are_the_answers(tmp_path: Path) -> None:
    report = write_json(tmp_path / "org__model.night.json", REPORT)
    row = {"instance_id": "a__a-1", "model_patch": "diff", "model_name_or_path": "my__own"}
    write_lines(tmp_path / "preds.jsonl", [row])
    assert [each.outcome.get("answer") for each in attempts(report)] == ["diff", None, None, None]
    write_json(tmp_path / "preds.json", {"a__a-1": row})
    first = attempts(report)[0]
    assert first.outcome["answer"] == "diff" and first.cell.model == "my__own"


def test_what_is_no_report_is_named(tmp_path: Path) -> None:
    (found,) = read(write_json(tmp_path / "x.json", {"a": 1}), "given")
    assert isinstance(found, ImportIssue) and "no report of swebench" in str(found)
    odd = write_json(tmp_path / "y.json", REPORT | {"unresolved_ids": [], "error_ids": [7]})
    issues = [str(each) for each in read(odd, "given") if isinstance(each, ImportIssue)]
    assert len(issues) == 3 and "a__a-2" in "".join(issues) and "error_ids.0" in "".join(issues)
