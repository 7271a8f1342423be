"""Files that people write: faults told with their line, names given once, keys never shown."""

from pathlib import Path

import pytest
from pydantic import BaseModel, ConfigDict, Field

from tasks.config import Document, read_document
from tasks.serving import RegistryError, read_registry
from tasks.sweeps.suite import SuiteError, read_suite


class Refused(ValueError):
    """What the tests' files are refused with."""


class Inner(BaseModel):
    """A nested part."""

    model_config = ConfigDict(extra="forbid")
    limit: int = Field(1, ge=1)
    api_key: int | None = None


class File(BaseModel):
    """The tests' file."""

    model_config = ConfigDict(extra="forbid")
    name: str
    parts: dict[str, Inner] = {}
    numbers: list[int] = []


def refusal(path: Path, text: str) -> str:
    """What is said of a file with this text, without its path."""
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
    """Of a value, of a list's entry, of the mapping where something is missing, of the YAML."""
    assert refusal(tmp_path / "file.yaml", text).startswith(said)


def test_several_faults_are_told_at_once(tmp_path: Path) -> None:
    """Each with its own line."""
    said = refusal(tmp_path / "file.yaml", "name: a\nnumbers: [x]\nparts:\n  one: {limit: 0}")
    first, second = said.split("; ")
    assert first.startswith("line 4: parts.one.limit: ") and second.startswith("line 2: numbers.0")


def test_a_key_is_not_shown(tmp_path: Path) -> None:
    """Neither as a value that is no number, nor beside what is no YAML."""
    file = tmp_path / "file.yaml"
    said = refusal(file, "name: a\nparts:\n  one:\n    api_key: sk-123")
    assert said.startswith("line 4: parts.one.api_key: ") and "sk-123" not in said
    assert "sk-123" not in refusal(file, "parts: {one: {api_key: sk-123, limit: [}}")


def test_what_is_no_text_is_refused(tmp_path: Path) -> None:
    """A folder, bytes that are not UTF-8; a file that is absent is the caller's to explain."""
    (tmp_path / "bytes.yaml").write_bytes(b"name: \xff")
    for path, said in ((tmp_path, "directory"), (tmp_path / "bytes.yaml", "not UTF-8")):
        with pytest.raises(Refused, match=said):
            read_document(path, Refused)
    with pytest.raises(FileNotFoundError):
        read_document(tmp_path / "absent.yaml", Refused)


def test_anchors_and_merges_are_read(tmp_path: Path) -> None:
    """A value that stands in several places has the line of where it is written; one that holds
    itself is refused, and not followed for ever."""
    file = tmp_path / "file.yaml"
    text = "name: a\nparts:\n  one: &one\n    limit: 2\n  two:\n    <<: *one\n  three: *one\n"
    file.write_text(text)
    parts = read_document(file, Refused).check(File).parts
    assert [parts[name].limit for name in ("one", "two", "three")] == [2, 2, 2]
    said = refusal(file, text.replace("limit: 2", "limit: 0"))
    assert said.count("line 4: parts.") == 2  # `one` and `three`
    assert refusal(file, "name: &a [*a]").startswith("line 1: name: ")


def test_content_without_a_file_has_no_lines(tmp_path: Path) -> None:
    """A document put together of several files."""
    with pytest.raises(Refused, match=r"x: numbers\.0: "):
        Document(Path("x"), {"name": "a", "numbers": ["y"]}, {}, Refused).check(File)


def test_suites_and_registries_say_the_line(tmp_path: Path) -> None:
    """As a user meets them."""
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
