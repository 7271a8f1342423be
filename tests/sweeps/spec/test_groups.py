"""Groups of a suite's fields, and its old keys: lifted, told once for a file, refused if twice."""

import json
import re
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st
from prefect.utilities.callables import parameter_schema
from prefect.utilities.schema_tools import validate
from pydantic import ValidationError

from tests.sweeps.plan.test_identity import CHANGES, NEEDS
from tutti.flows.sweep import eval_sweep
from tutti.tasks.nights import read_night
from tutti.tasks.project import SUITES
from tutti.tasks.reporting.settings import GROUPS, settings_of
from tutti.tasks.sweeps.spec.marks import Group, places_of, value_of
from tutti.tasks.sweeps.spec.suite import (
    PLACES,
    Suite,
    SuiteError,
    read_suite,
    with_fields,
    with_values,
)

GROUPED = {name: place for name, place in PLACES.items() if len(place) > 1}
TOP = ["name", "benchmark", "benchmarks", "model", "models", "concurrency", "policies", "limit"]
"""What most suites set: the first fields of the form, in this order."""


def nested(fields: dict[str, Any]) -> dict[str, Any]:
    """Fields by their own names, each in its group."""
    content: dict[str, Any] = {}
    for name, value in fields.items():
        *group, _ = PLACES[name]
        (content.setdefault(group[0], {}) if group else content)[name] = value
    return content


def given_with(name: str) -> dict[str, Any]:
    """The field with another value than its default, and what it needs beside it."""
    return NEEDS.get(name, {}) | {name: CHANGES[name]}


@pytest.mark.parametrize("name", GROUPED)
def test_an_old_key_is_the_field_in_its_group(
    name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Given from Python, by a flag or in stored parameters; nobody is told anything."""
    fields = given_with(name)
    new = Suite.model_validate(nested(fields))
    assert Suite.model_validate(fields) == new != Suite.model_validate(NEEDS.get(name, {}))
    assert with_fields(Suite(), fields) == new
    stored = json.dumps(fields, default=str)
    assert Suite.model_validate_json(stored) == new
    assert Suite.model_validate_json(new.model_dump_json()) == new
    assert capsys.readouterr() == ("", "")


@pytest.mark.parametrize("name", GROUPED)
def test_a_field_is_given_once(name: str, tmp_path: Path) -> None:
    """Both spellings are named, with file, line and value."""
    fields = given_with(name)
    content = nested(fields) | {name: CHANGES[name]}
    place = ".".join(PLACES[name])
    file = tmp_path / "twice.yaml"
    file.write_text(yaml.safe_dump(json.loads(json.dumps(content, default=str)), sort_keys=False))
    line = next(n for n, text in enumerate(file.read_text().splitlines(), 1) if _starts(text, name))
    with pytest.raises(SuiteError) as caught:
        read_suite(file)
    told = f"{file}: line {line}: {name}: is also given as `{place}`; keep that one (given: "
    assert str(caught.value).startswith(told)


def _starts(text: str, name: str) -> bool:
    return text.startswith(f"{name}:")


@pytest.mark.parametrize("name", GROUPED)
def test_a_file_with_an_old_key_is_told_once(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """One line that names file, key and new place; a file in the new form says nothing."""
    fields = json.loads(json.dumps(given_with(name), default=str))
    old, new = tmp_path / "old.yaml", tmp_path / "new.yaml"
    old.write_text(yaml.safe_dump(fields))
    new.write_text(yaml.safe_dump(nested(fields)))
    assert read_suite(old) == read_suite(old) == read_suite(new)
    told = capsys.readouterr().err.splitlines()
    assert len(told) == 1 and told[0].startswith(f"tutti: deprecated: {old}: ")
    assert f"`{name}` is now `{'.'.join(PLACES[name])}`" in told[0]


def test_all_old_keys_of_a_file_are_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "old.yaml"
    file.write_text("repeats: 2\npolicies: [cap]\ncap: 4\nlimits: {cell_s: 5}\nmax_turns: 3\n")
    suite = read_suite(file)
    assert (suite.repetition.repeats, suite.limits.max_turns, suite.limits.cell_s) == (2, 3, 5)
    assert suite.each_policy["cap"].options == {"limit": 4}
    assert capsys.readouterr().err == (
        f"tutti: deprecated: {file}: `repeats` is now `repetition.repeats`; "
        "`cap` is now `policies: [{name: cap, limit: N}]`; `max_turns` is now `limits.max_turns`\n"
    )


def test_a_night_files_suites_are_told_with_their_place(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """And their errors have their lines."""
    file = tmp_path / "night.yaml"
    text = "stages:\n  a:\n    suite:\n      repetition: {trials: 2}\n      repeats: 2\n"
    file.write_text(text)
    assert read_night(file).stages["a"].suite.repetition.repeats == 2
    assert capsys.readouterr().err == (
        f"tutti: deprecated: {file}: `stages.a.suite.repeats` is now "
        "`stages.a.suite.repetition.repeats`\n"
    )
    file.write_text(text.replace("repeats: 2", "repeats: -2"))
    with pytest.raises(SuiteError, match=r": line 5: stages\.a\.suite\.repetition\.repeats: .*-2"):
        read_night(file)


@pytest.mark.parametrize("path", sorted(SUITES.glob("*.yaml")), ids=lambda path: path.stem)
def test_our_own_suites_have_no_old_keys(path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    read_night(path)
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize(
    ("text", "line", "told"),
    [
        ("name: a\nrepeats: -1\n", 2, "repetition.repeats: Input should be greater"),
        ("repeats: -1\nrepetition: {trials: 2}\n", 1, "repetition.repeats: "),
        ("repetition:\n  trials: 2\n  repeats: -1\n", 3, "repetition.repeats: "),
        ("limits:\n  max_turn: 3\n", 2, "limits.max_turn: Extra inputs"),
        ("name: a\nmax_turn: 3\n", 2, "max_turn: Extra inputs"),
        ("saturation:\n  step_latency_p95: -1\n", 2, "stopping.saturation.step_latency_p95: "),
        ("gates:\n  - {at_least: 1}\n  - {}\n", 3, "report.gates.1: needs exactly one"),
        ("windows: {a: [9, 3]}\n", 1, "report.windows: a: [9, 3) is no window"),
        ("name: a\ncap: 0\n", 2, "cap: Input should be greater than or equal to 1 (given: 0)"),
        ("repeats: 2\nrepetition: none\n", 2, "repetition: Input should be"),
        ("repetition:\nrepeats: 2\n", 1, "repetition: Input should be"),
    ],
)
def test_an_error_has_the_line_that_was_written(
    text: str, line: int, told: str, tmp_path: Path
) -> None:
    """Of a field in its group, and of an old key."""
    file = tmp_path / "wrong.yaml"
    file.write_text(text)
    with pytest.raises(SuiteError, match=re.escape(f"{file}: line {line}: {told}")) as caught:
        read_suite(file)
    assert "(given: " in str(caught.value) and "\n" not in str(caught.value)


def test_the_old_cap_is_a_limit_of_the_policy() -> None:
    """A policy with a limit of its own keeps it; without the policy, the old key does nothing."""
    both = {"policies": ["passthrough", "cap", {"name": "cap", "limit": 4}], "cap": 6}
    limits = [each.options for each in Suite.model_validate(both).each_policy.values()]
    assert limits == [{}, {"limit": 6}, {"limit": 4}]
    assert Suite.model_validate({"cap": 8}) == Suite()
    assert Suite.model_validate({"cap": 3}).each_policy["cap"].options == {"limit": 3}
    assert Suite.model_validate({"policies": ["adaptive"], "cap": 3}).policies == ("adaptive",)
    with pytest.raises(ValidationError, match="valid integer"):
        Suite.model_validate({"cap": "many"})


@given(st.dictionaries(st.text() | st.integers(), st.none() | st.integers() | st.text()))
def test_what_is_no_suite_is_refused_not_a_crash(content: dict[Any, Any]) -> None:
    """Keys of any type, groups that are none."""
    for name in ("limits", "repetition", "policies"):
        with pytest.raises(ValidationError):
            Suite.model_validate(content | {name: 3, "repeats": 2, "cap": 2})


def test_values_are_replaced_also_by_none() -> None:
    """Flags name a field without its group."""
    suite = with_fields(Suite(), {"benchmark": "gsm8k", "limit": 3, "judge": "a", "user": None})
    assert (suite.limit, suite.roles.judge, suite.roles.user) == (3, "a", None)
    assert with_values(suite, {"judge": None, "limit": None}).roles.judge is None
    assert value_of(suite, "judge") == "a" and with_fields(suite, {}) is suite
    with pytest.raises(ValidationError, match="Extra inputs"):
        with_fields(suite, {"judges": "a"})


def test_a_field_stands_once() -> None:
    """Two groups with a field of one name would be one key of an id."""

    class One(Group):
        size: int = 1

    class Twice(Group):
        one: One = One()
        size: int = 2

    with pytest.raises(TypeError, match="two fields called size"):
        places_of(Twice)


def test_the_form_has_what_everyone_sets_on_top() -> None:
    """Then the groups, each an object with a title and a description."""
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


def test_prefects_server_takes_both_forms() -> None:
    """It checks parameters, also those stored before there were groups, by the schema alone."""
    schema = parameter_schema(eval_sweep.fn).model_dump()
    old: dict[str, Any] = {"max_turns": 3, "cap": 4, "experts": {}}
    for suite in (old, {"limits": {"max_turns": 3}}, Suite().model_dump(mode="json")):
        assert not validate({"suite": suite}, schema)


def test_stored_suites_of_both_forms_are_compared_field_by_field() -> None:
    """As the report of two sweeps compares them."""
    assert {name for name, each in Suite() if isinstance(each, Group)} == set(GROUPS)
    fields = {"repeats": 2, "max_turns": 3, "saturation": {"step_latency_p95": 2.0}, "cap": 6}
    old = json.dumps(fields | {"policies": ["passthrough", "cap"], "name": "a"})
    new = settings_of(Suite.model_validate_json(old).model_dump_json())
    assert settings_of(old).items() <= new.items()
    assert new["policies"] == ["passthrough", {"name": "cap", "limit": 6}]
    assert set(new) == set(PLACES) and settings_of(None) == {}
