"""Tests of benchmark definitions: each file's example is scored, and errors name an invalid
file."""

from pathlib import Path

import pytest

from tests.benchmarks.conftest import write_lines
from tutti.tasks.benchmarks import BadRow, BenchmarkError, Source, Task
from tutti.tasks.benchmarks.definition import SETS, Definitions
from tutti.tasks.scoring import SCORERS, ScoringResources, Submission

DEFINED = Definitions()
QUESTIONS = """
licence: mine
scorer: exact
splits: [test]
key: name id|
inputs: {question: asked|question}
target: {answer: name answer}
attributes: {level: number level, topic: topic|}
"""


def write(folder: Path, text: str, name: str = "mine") -> Definitions:
    (folder / f"{name}.yaml").write_text(text)
    return Definitions(folder)


def tasks_of(folder: Path, text: str, *rows: object) -> list[Task]:
    """Return the rows as tasks of the definition."""
    write_lines(folder / "test.jsonl", rows)
    return list(write(folder, text)["mine"].load(Source(folder)))


@pytest.mark.parametrize("name", [name for name in DEFINED if DEFINED.file(name).example])
async def test_an_example_scores(name: str, tmp_path: Path) -> None:
    """The correct reply to the example's row scores as correct, the wrong one as wrong."""
    example, benchmark = DEFINED.file(name).example, DEFINED[name]
    assert example is not None
    (task,) = benchmark.load(Source(write_lines(tmp_path / "rows.jsonl", [example.row])))
    for reply, is_right in ((example.right, True), (example.wrong, False)):
        messages = [{"role": "assistant", "content": reply}]
        submission = Submission(None, reply, messages)
        score = await benchmark.scoring.score(task.target, submission, ScoringResources())
        assert score.correct == is_right, (reply, score)


def test_each_set_of_questions_has_an_example() -> None:
    """This holds for question sets whose scorer needs neither a judge nor a sandbox. A row of BIRD
    needs a database."""
    for name in DEFINED:
        file = DEFINED.file(name)
        if file.inputs and SCORERS[file.scorer].needs == "pure" and name != "bird":
            assert file.example is not None, name


def test_names_of_files_are_not_used_twice() -> None:
    """A second file with the same name would hide the first."""
    names = [path.stem for path in SETS.rglob("*.yaml")]
    assert len(names) == len(set(names)) == len(DEFINED)


def test_columns_become_a_task(tmp_path: Path) -> None:
    """Alternatives, optional columns and kinds are supported; without a key, the row's number is
    the id."""
    first = {"id": 7, "question": "q", "answer": 4, "level": 2.0, "topic": "t"}
    one, two = tasks_of(tmp_path, QUESTIONS, first, {"asked": "r", "answer": "5", "level": 0.5})
    assert one == Task("7", {"question": "q"}, {"answer": "4"}, {"level": "2", "topic": "t"})
    assert two == Task("1", {"question": "r"}, {"answer": "5"}, {"level": "0.5", "topic": ""})
    with pytest.raises(BadRow, match=r"test.jsonl:1: level: 'x' is not a number"):
        tasks_of(tmp_path, QUESTIONS, first | {"level": "x"})
    with pytest.raises(BadRow, match=r"test.jsonl:1: id: is empty"):
        tasks_of(tmp_path, QUESTIONS, first | {"id": " "})


def test_a_definition_like_another(tmp_path: Path) -> None:
    """A definition inherits the other's fields except for those that it sets."""
    write(tmp_path, QUESTIONS + "options: {part: a}\nfiles: ['{part}/{split}.jsonl']\n")
    made = write(tmp_path, "like: mine\nscorer: numeric\noptions: {part: b}\n", "other")["other"]
    assert (made.name, made.scorer, made.licence) == ("other", "numeric", "mine")
    assert made.splits == {"test": ("b/test.jsonl",)} and made.prompt == "number"


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ("scorers: exact", "line 9: scorers: .*did you mean `scorer`"),
        ("hub: owner/name", "hub: write owner/name@commit"),
        ("world: games.chess.world", r"line 9: world: no such function .*games\.chess"),
        ("read: harness.read", "give one of `inputs`, a function as `read`, and `is_made`"),
        ("gold: two words", "gold: no such function"),
        ("example: {row: {}, right: r}", "example.wrong: Field required"),
    ],
)
def test_an_invalid_definition_is_named(tmp_path: Path, change: str, said: str) -> None:
    """The error names file, line and field."""
    with pytest.raises(BenchmarkError, match=rf"mine\.yaml: .*{said}"):
        write(tmp_path, f"{QUESTIONS}{change}\n")["mine"]


def test_columns_that_are_none(tmp_path: Path) -> None:
    """Errors are raised for an invalid column text, an unknown kind and an unknown base
    benchmark."""
    for text, said in (
        (QUESTIONS.replace("name answer", "one two three"), "target.answer: not a column"),
        (QUESTIONS.replace("name answer", "words answer"), "target.answer: no such function"),
        (f"{QUESTIONS}like: yours\n", "like: there is no benchmark 'yours'"),
    ):
        with pytest.raises(BenchmarkError, match=said):
            write(tmp_path, text)["mine"]
