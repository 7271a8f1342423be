"""Tests of `data.rule`, the scoring rule of a public benchmark; the default is its publisher's."""

from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from tutti.tasks.sweeps.plan.task_set import TaskSet
from tutti.tasks.sweeps.spec import Suite, open_named

QUESTION = (
    '{"id": "s_0", "question": [[{"role": "user", "content": "where?"}]], "function": [{"name": '
    '"f", "description": "", "parameters": {"type": "dict", "properties": {"n": {"type": '
    '"integer"}}, "required": ["n"]}}]}\n'
)
ANSWER = '{"id": "s_0", "ground_truth": [{"f": {"n": [1]}}]}\n'


def suite(**fields: Any) -> Suite:
    base: dict[str, Any] = {"policies": ("passthrough",), "concurrency": (1,)}
    if "benchmarks" not in fields:
        base["benchmark"] = "bfcl"
    return Suite().with_fields(base | fields)


@pytest.mark.parametrize(
    ("rule", "scorer"), [(None, "bfcl_ast"), ("published", "bfcl_ast"), ("strict", "tool_calls")]
)
def test_a_rule_chooses_the_scorer(rule: str | None, scorer: str) -> None:
    asked = suite(rule=rule)
    assert open_named("bfcl", asked.data).scoring.name == scorer


def test_only_another_rule_is_another_task_set(tmp_path: Path) -> None:
    """Naming the default rule gives the same task set as no name."""
    (tmp_path / "possible_answer").mkdir()
    (tmp_path / "BFCL_v4_simple.json").write_text(QUESTION)
    (tmp_path / "possible_answer" / "BFCL_v4_simple.json").write_text(ANSWER)
    plain, named, strict = (
        TaskSet.read(suite(rule=rule, source=tmp_path)) for rule in (None, "published", "strict")
    )
    assert plain.task_set_id == named.task_set_id != strict.task_set_id
    assert plain.tasks[0].task_id == strict.tasks[0].task_id


@pytest.mark.parametrize(
    ("benchmark", "rule", "said"),
    [
        ("bfcl", "lenient", "bfcl has no rule 'lenient'; it has published, strict"),
        ("gsm8k", "strict", "gsm8k has no rule 'strict'; it has one, numeric"),
        ("gsm8k", "published", "it has one, numeric"),
        ("./shop", "strict", "for a public benchmark, and shop is none"),
        ("stdlib", "strict", "stdlib has no data.rule"),
    ],
)
def test_a_rule_that_is_none(benchmark: str, rule: str, said: str) -> None:
    with pytest.raises(ValidationError, match=said):
        suite(benchmark=benchmark, rule=rule)


def test_of_several_benchmarks_those_with_the_rule_take_it() -> None:
    both = suite(benchmarks=("gsm8k", "bfcl"), rule="strict")
    assert [each.data.rule for each in both.parts()] == [None, "strict"]
