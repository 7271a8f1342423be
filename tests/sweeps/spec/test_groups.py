"""Tests of groups of a suite's fields: how a file, a flag and the form set each."""

import json
import re
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st
from prefect.utilities.callables import parameter_schema
from pydantic import ValidationError

from tests.sweeps.plan.test_identity import CHANGES, NEEDS
from tutti.flows.sweep import eval_sweep
from tutti.tasks.nights import read_night
from tutti.tasks.platform.project import SUITES
from tutti.tasks.sweeps.spec.marks import Group, places_of
from tutti.tasks.sweeps.spec.suite import (
    PLACES,
    Suite,
    SuiteError,
    read_suite,
)

GROUPED = {name: place for name, place in PLACES.items() if len(place) > 1}
TOP = ["name", "benchmark", "benchmarks", "model", "models", "concurrency", "policies", "limit"]
"""What most suites set: the first fields of the form, in this order."""


def nested(fields: dict[str, Any]) -> dict[str, Any]:
    """Return the fields by their own names, each in its group."""
    content: dict[str, Any] = {}
    for name, value in fields.items():
        *group, _ = PLACES[name]
        (content.setdefault(group[0], {}) if group else content)[name] = value
    return content


def given_with(name: str) -> dict[str, Any]:
    """Return the field with a value other than its default, and the fields that it requires."""
    return NEEDS.get(name, {}) | {name: CHANGES[name]}


@pytest.mark.parametrize("name", GROUPED)
def test_a_field_is_given_in_its_group(name: str, tmp_path: Path) -> None:
    """Outside its group it is refused with its place, file, line and value; flags name it by its
    own name."""
    fields = given_with(name)
    new = Suite.model_validate(nested(fields))
    assert new != Suite.model_validate(nested(NEEDS.get(name, {})))
    assert Suite().with_fields(fields) == new
    assert Suite.model_validate_json(new.model_dump_json()) == new
    content = json.loads(json.dumps(nested(fields) | {name: CHANGES[name]}, default=str))
    file = tmp_path / "twice.yaml"
    file.write_text(yaml.safe_dump(content, sort_keys=False))
    line = next(n for n, text in enumerate(file.read_text().splitlines(), 1) if _starts(text, name))
    told = f"{file}: line {line}: {name}: write `{'.'.join(PLACES[name])}` (given: "
    with pytest.raises(SuiteError) as caught:
        read_suite(file)
    assert str(caught.value).startswith(told)


def _starts(text: str, name: str) -> bool:
    return text.startswith(f"{name}:")


def test_a_stages_suite_has_its_lines(tmp_path: Path) -> None:
    file = tmp_path / "night.yaml"
    file.write_text("stages:\n  a:\n    suite:\n      repetition:\n        repeats: -2\n")
    with pytest.raises(SuiteError, match=r": line 5: stages\.a\.suite\.repetition\.repeats: .*-2"):
        read_night(file)


@pytest.mark.parametrize("path", sorted(SUITES.glob("*.yaml")), ids=lambda path: path.stem)
def test_our_own_suites_are_read(path: Path) -> None:
    assert read_night(path).stages


@pytest.mark.parametrize(
    ("text", "line", "told"),
    [
        ("name: a\nrepeats: -1\n", 2, "repeats: write `repetition.repeats`"),
        ("repetition:\n  trials: 2\n  repeats: -1\n", 3, "repetition.repeats: "),
        ("limits:\n  max_turn: 3\n", 2, "limits.max_turn: Extra inputs"),
        ("name: a\nmax_turn: 3\n", 2, "max_turn: Extra inputs"),
        ("stopping:\n  saturation:\n    step_latency_p95: -1\n", 3, "stopping.saturation.step_"),
        ("report:\n  gates:\n  - {at_least: 1}\n  - {}\n", 4, "report.gates.1: needs exactly one"),
        ("report:\n  windows: {a: [9, 3]}\n", 2, "report.windows: a: [9, 3) is no window"),
        ("name: a\ncap: 0\n", 2, "cap: Extra inputs"),
        ("repetition: none\n", 1, "repetition: Input should be"),
        ("name: a\nrepetition:\n", 2, "repetition: Input should be"),
    ],
)
def test_an_error_has_the_line_that_was_written(
    text: str, line: int, told: str, tmp_path: Path
) -> None:
    file = tmp_path / "wrong.yaml"
    file.write_text(text)
    with pytest.raises(SuiteError, match=re.escape(f"{file}: line {line}: {told}")) as caught:
        read_suite(file)
    assert "(given: " in str(caught.value) and "\n" not in str(caught.value)


@given(st.dictionaries(st.text() | st.integers(), st.none() | st.integers() | st.text()))
def test_what_is_no_suite_is_refused_not_a_crash(content: dict[Any, Any]) -> None:
    """Examples are keys of any type and groups that are no mappings."""
    for name in ("limits", "repetition", "policies"):
        with pytest.raises(ValidationError):
            Suite.model_validate(content | {name: 3, "repeats": 2, "cap": 2})


def test_values_are_replaced_also_by_none() -> None:
    """Flags name a field without its group."""
    suite = Suite().with_fields({"benchmark": "gsm8k", "limit": 3, "judge": "a", "user": None})
    assert (suite.limit, suite.roles.judge, suite.roles.user) == (3, "a", None)
    assert suite.with_values({"judge": None, "limit": None}).roles.judge is None
    assert suite.value_of("judge") == "a" and suite.with_fields({}) is suite
    with pytest.raises(ValidationError, match="Extra inputs"):
        suite.with_fields({"judges": "a"})


def test_a_field_stands_once() -> None:
    """Two groups with a field of the same name would give the same key of an id."""

    class One(Group):
        size: int = 1

    class Twice(Group):
        one: One = One()
        size: int = 2

    with pytest.raises(TypeError, match="two fields called size"):
        places_of(Twice)


def test_the_form_has_what_everyone_sets_on_top() -> None:
    """The groups follow, each an object with a title and a description."""
    schema = parameter_schema(eval_sweep.fn).model_dump()
    form = schema["definitions"]["Suite"]
    assert list(form["properties"])[: len(TOP)] == TOP
    assert list(form["properties"]) == list(Suite.model_fields)
    for name in (place[0] for place in GROUPED.values()):
        shown = form["properties"][name]
        inside = schema["definitions"][shown["$ref"].rpartition("/")[2]]
        assert shown.get("title", inside["title"]) == name.capitalize() and shown["description"]
        assert inside["type"] == "object"
        assert all("description" in field for field in inside["properties"].values())
        assert inside["additionalProperties"] is False
