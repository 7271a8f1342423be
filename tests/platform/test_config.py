"""Tests of files that people write: errors with their line, unique keys, and secrets that are never
shown."""

from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from time import process_time
from typing import Any

import pytest
import yaml
from pydantic import BaseModel, ConfigDict, Field

from tutti.cli.sql.statements import typed
from tutti.tasks.agents.models.calls import _arguments
from tutti.tasks.benchmarks import BadRow
from tutti.tasks.benchmarks.tau2.domain import _toml
from tutti.tasks.platform.config import MAX_NODES, Document, read_document
from tutti.tasks.retrieval.request import read_pools
from tutti.tasks.serving import RegistryError
from tutti.tasks.serving.registry import read_registry
from tutti.tasks.serving.simulation.calibrate import read_calibration
from tutti.tasks.serving.simulation.workload import CalibrationError, SimulationError, parse_policy
from tutti.tasks.sweeps.spec.load import read_trace
from tutti.tasks.sweeps.spec.suite import SuiteError, read_suite


class Refused(ValueError):
    """Error raised for the tests' files."""


class Inner(BaseModel):
    """Nested part of the file."""

    model_config = ConfigDict(extra="forbid")
    limit: int = Field(1, ge=1)
    api_key: int | None = None


class File(BaseModel):
    """Model of the tests' file."""

    model_config = ConfigDict(extra="forbid")
    name: str
    parts: dict[str, Inner] = {}
    numbers: list[int] = []


def refusal(path: Path, text: str) -> str:
    """Return the error for a file with this text, without its path."""
    path.write_text(text)
    with pytest.raises(Refused) as caught:
        read_document(path, Refused).check(File)
    said = str(caught.value)
    assert said.startswith(f"{path}: ")
    return said.removeprefix(f"{path}: ")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("name: a\nnumbers: [1, x]", "line 2: numbers.1: "),
        ("name: a\nnumbers:\n- 1\n# a remark\n- x", "line 5: numbers.1: "),
        ("name: a\nparts:\n  one:\n    limit: 0\n", "line 4: parts.one.limit: "),
        ("name: a\nparts:\n  one: {}\n  two:\n    size: 3\n", "line 5: parts.two.size: "),
        ("# nothing\n\nname: a\nparts:\n  one: 3", "line 5: parts.one: "),
        ("numbers: []", "name: Field required (given: nothing)"),
        ("", "name: Field required (given: nothing)"),
        ("- a", "file: Input should be a valid dictionary"),
        ("name: a\nname: b", "line 2: name is given twice"),
        ("name: a\nparts:\n  one:\n    limit: 1\n    limit: 2", "line 5: limit is given twice"),
        ("name: a\nnumbers: [", "line 2: not YAML: "),
        ("name: a\n--- \nname: b", "line 2: not YAML: "),
        ("name: !!python/object:os.system a", "line 1: not YAML: "),
    ],
)
def test_a_fault_is_told_with_its_line(tmp_path: Path, text: str, said: str) -> None:
    """The line is that of a value, of a list's entry, of the mapping with a missing key, or of the
    YAML error."""
    assert refusal(tmp_path / "file.yaml", text).startswith(said)


def test_several_faults_are_told_at_once(tmp_path: Path) -> None:
    """Each has its own line."""
    said = refusal(tmp_path / "file.yaml", "name: a\nnumbers: [x]\nparts:\n  one: {limit: 0}")
    first, second = said.split("; ")
    assert first.startswith("line 4: parts.one.limit: ") and second.startswith("line 2: numbers.0")


def test_a_key_is_not_shown(tmp_path: Path) -> None:
    """A key is shown neither as an invalid number nor beside invalid YAML."""
    file = tmp_path / "file.yaml"
    said = refusal(file, "name: a\nparts:\n  one:\n    api_key: sk-123")
    assert said.startswith("line 4: parts.one.api_key: ") and "sk-123" not in said
    assert "sk-123" not in refusal(file, "parts: {one: {api_key: sk-123, limit: [}}")


def test_what_is_no_text_is_refused(tmp_path: Path) -> None:
    """The cases are a folder and bytes that are not UTF-8; a missing file is reported by the
    caller."""
    (tmp_path / "bytes.yaml").write_bytes(b"name: \xff")
    for path, said in ((tmp_path, "directory"), (tmp_path / "bytes.yaml", "not UTF-8")):
        with pytest.raises(Refused, match=said):
            read_document(path, Refused)
    with pytest.raises(FileNotFoundError):
        read_document(tmp_path / "absent.yaml", Refused)


def test_anchors_and_merges_are_read(tmp_path: Path) -> None:
    """A value that is used in several places has the line where it is written; one that contains
    itself is refused and not followed forever."""
    file = tmp_path / "file.yaml"
    text = "name: a\nparts:\n  one: &one\n    limit: 2\n  two:\n    <<: *one\n  three: *one\n"
    file.write_text(text)
    parts = read_document(file, Refused).check(File).parts
    assert [parts[name].limit for name in ("one", "two", "three")] == [2, 2, 2]
    said = refusal(file, text.replace("limit: 2", "limit: 0"))
    assert said.count("line 4: parts.") == 2  # `one` and `three`
    assert refusal(file, "name: &a [*a]").startswith("line 1: the alias a stands in")


def test_content_without_a_file_has_no_lines(tmp_path: Path) -> None:
    """An example is a document composed of several files."""
    with pytest.raises(Refused, match=r"x: numbers\.0: "):
        Document(Path("x"), {"name": "a", "numbers": ["y"]}, {}, Refused).check(File)


def test_suites_and_registries_say_the_line(tmp_path: Path) -> None:
    """The errors are those that a user gets."""
    suite, models = tmp_path / "suite.yaml", tmp_path / "models.yaml"
    suite.write_text("name: mine\nconcurrency: [4]\npolicies:\n- passthrough\n- fifo\n")
    with pytest.raises(SuiteError, match=r"suite\.yaml: line [35]: policies"):
        read_suite(suite)
    suite.write_text("name: mine\nconcurrency: [4]\nbudget:\n  minutes: -1\n")
    with pytest.raises(SuiteError, match=r"suite\.yaml: line 4: budget\.minutes: "):
        read_suite(suite)
    models.write_text("models:\n  one:\n    provider: vllm\n    endpoint: nowhere\n")
    with pytest.raises(RegistryError, match=r"models\.yaml: line 4: models\.one\.endpoint: "):
        read_registry(models)


LAUGHS = "a: &a [x, x, x, x, x, x, x, x, x, x]\n" + "".join(
    f"{name}: &{name} [{', '.join([f'*{inner}'] * 10)}]\n" for inner, name in pairwise("abcdefghi")
)
"""A thousand million values in nine lines."""
MERGES = "a: &a {x: 1}\n" + "".join(
    f"{name}: &{name}\n  <<: [{', '.join([f'*{inner}'] * 10)}]\n"
    for inner, name in pairwise("abcdefghi")
)
SELF_HOLDING = ("a: &a [*a]", "&a {b: *a}", "a: &a\n  <<: *a\n", "&a [[*a], &b {c: [*b]}]")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (LAUGHS, "line 4: more than 10000 names and values"),
        (MERGES, "more than 10000 names and values"),
        ("- x\n" * 25_000, "line 10000: more than 10000 names and values"),
        *((text, "the alias a stands in what it names") for text in SELF_HOLDING),
        ("a:\n- " + "[" * 1000 + "]" * 1000, "line 2: nested more than 64 levels deep"),
        ("[" * 100_000, "line 1: nested more than 64 levels deep"),
        ("{a: " * 1000 + "1" + "}" * 1000, "line 1: nested more than 64 levels deep"),
        ("\n".join(" " * deep + "a:" for deep in range(500)), "nested more than 64 levels deep"),
        ("- " * 1000, "line 1: nested more than 64 levels deep"),
        ("# x\n" * 70_000, "line 65537: the file is longer than 256 KiB"),
        ("a: '" + "ü" * 200_000 + "'", "line 1: the file is longer than 256 KiB"),
        ("a: 1\nb: " + "1" * 5000, "line 2: a number of more than 400 characters"),
        ("a: 1" + ":1" * 100_000, "line 1: a number of more than 400 characters"),
    ],
    ids=lambda given: given[:12],
)
def test_what_is_out_of_bounds_is_refused_at_once(tmp_path: Path, text: str, said: str) -> None:
    """Anchors that multiply or contain themselves, deep nesting, long files and long numbers are
    refused before they are built."""
    began = process_time()
    assert said in refusal(tmp_path / "file.yaml", text)
    assert process_time() - began < 5, "one second on a machine that does nothing else"


def test_what_is_within_the_bounds_is_read(tmp_path: Path) -> None:
    """This holds up to the last permitted node and level."""
    file = tmp_path / "file.yaml"
    for text in ("[" * 64 + "]" * 64, "- x\n" * (MAX_NODES - 1), f"- {'1' * 400}\n- 0.5\n"):
        file.write_text(text)
        assert read_document(file, Refused).content == yaml.safe_load(text)


@pytest.mark.parametrize("text", ["2001-99-01", "!!bool maybe", "!!timestamp x", "0b_", "!!int x"])
def test_a_value_that_its_tag_cannot_be_is_told_with_its_line(tmp_path: Path, text: str) -> None:
    """PyYAML raises its own ValueError, KeyError and AttributeError for these."""
    said = refusal(tmp_path / "file.yaml", f"name: a\nnumbers: [{text}]")
    assert said.startswith("line 2: not YAML: a value that is no ")


def test_a_device_without_an_end_is_not_read_for_ever() -> None:
    """The path of a suite may be any path."""
    with pytest.raises(Refused, match="longer than 256 KiB"):
        read_document(Path("/dev/zero"), Refused)


@pytest.mark.parametrize(
    ("read", "refused"),
    [
        (read_calibration, CalibrationError),
        (read_pools, ValueError),
        (read_trace, SuiteError),
        (_toml, BadRow),
    ],
)
def test_other_files_that_are_nested_deeply_are_refused_too(
    tmp_path: Path, read: Callable[[Path], Any], refused: type[Exception]
) -> None:
    """JSON and TOML raise their parser's error and no RecursionError."""
    file = tmp_path / "file"
    file.write_text(("a = " if read is _toml else "") + "[" * 100_000 + "]" * 100_000)
    with pytest.raises(refused, match="file"):
        read(file)


def test_arguments_that_are_nested_deeply_are_text() -> None:
    """Such arguments are those of `tutti sql --param`, of a policy, and of a call that a model
    wrote."""
    deep = "[" * 100_000
    assert typed(deep) == _arguments(deep) == deep
    with pytest.raises(SimulationError, match="policy 'adaptive:no_such="):
        parse_policy(f"adaptive:no_such={deep}")


@pytest.mark.parametrize(
    ("text", "near"),
    [
        ("modell: x\n", "`model`"),
        ("limits: {max_turn: 3}\n", "`limits.max_turns`"),
        ("max_turn: 3\n", "`limits.max_turns`"),
        ("data: {limit: 3}\n", "`limit`"),
        ("limits: {temperatur: 0}\n", "`sampling.temperature`"),
    ],
)
def test_an_unknown_key_names_the_near_one(tmp_path: Path, text: str, near: str) -> None:
    """This includes a key that belongs in a group, or in another one."""
    path = tmp_path / "suite.yaml"
    path.write_text(text)
    with pytest.raises(SuiteError, match=f"did you mean {near}"):
        read_suite(path)
