"""Tests of the user's own Python file: it is run by its path, and errors are one line."""

import sys
from pathlib import Path

import pytest

from tutti.tasks.benchmarks import (
    BenchmarkError,
    Source,
    Task,
    load_prompt,
    open_benchmark,
    parse_benchmark,
)
from tutti.tasks.benchmarks.errors import BadBenchmarkFile
from tutti.tasks.benchmarks.own import OwnReading
from tutti.tasks.scoring import ScorerFailed, ScoringResources, Submission

HEAD = "from tutti.tasks.benchmarks import Task, OwnBenchmark\n"
CLASS = HEAD + "class Mine(OwnBenchmark):\n    scorer = 'exact'\n"
LOAD = "    def load(self, source):\n        "


def tasks(folder: Path, text: str, source: Path | None = None) -> list[Task]:
    """Return the tasks of a file with this text."""
    path = folder / "mine.py"
    path.write_text(text)
    benchmark = open_benchmark(parse_benchmark(str(path)), OwnReading(source=source))
    return list(benchmark.load(Source(path)))


def test_a_file_is_run_by_its_path(tmp_path: Path) -> None:
    """The file may define dataclasses, its module name cannot be imported, and it gets
    `data.source`."""
    text = "from __future__ import annotations\nfrom dataclasses import dataclass\n" + CLASS
    text += LOAD + "yield Task(source.name, {'question': 'q'}, {'answer': 'a'})\n"
    text += "@dataclass\nclass Other:\n    x: int\n"
    (task,) = tasks(tmp_path, text, Path("a/data"))
    assert task == Task("data", {"question": "q"}, {"answer": "a"})
    assert "mine" not in sys.modules and str(tmp_path) not in sys.path


def test_a_prompt_file_is_beside_the_file(tmp_path: Path) -> None:
    (tmp_path / "brief.yaml").write_text("user: 'Briefly: {question}'\n")
    path = tmp_path / "mine.py"
    path.write_text(CLASS + "    prompt = 'brief.yaml'\n")
    prompt = load_prompt(open_benchmark(parse_benchmark(str(path))).prompt)
    assert prompt.render(Task("0", {"question": "q"}, {}))[0]["content"] == "Briefly: q"


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("x = (\n", r"mine\.py:1: .*never closed"),
        ("\nimport nothing_like_it\n", r"mine\.py:2: ModuleNotFoundError: No module"),
        (HEAD, r"mine\.py: the file needs one class derived from .*; it has none"),
        (CLASS + "class Two(Mine): pass\n", r"it has Mine, Two"),
        (HEAD + "class Mine(OwnBenchmark): pass\n", r"Mine needs `scorer` or a method.*neither"),
        (CLASS + "    def score(self, target, answer): return 1\n", r"`score`, and has both"),
        (CLASS.replace("exact", "exakt"), r"no scorer 'exakt'; there are exact"),
        (CLASS + "    def __init__(self): 1 / 0\n", r"mine\.py:4: Mine: ZeroDivisionError"),
        (CLASS, r"load: NotImplementedError: the class has no method `load`"),
        (CLASS + LOAD + "return 3\n", r"mine\.py: load: TypeError: 'int' object is not iterable"),
        (CLASS + LOAD + "yield {}['a']\n", r"mine\.py:5: load: KeyError: 'a'"),
        (CLASS + LOAD + "yield 'text'\n", r"load: task 0 is 'text', not a Task"),
        (CLASS + LOAD + "yield Task('0', {'n': 3}, {})\n", r"task 0: n: 3 is not text"),
        (CLASS + LOAD + "yield Task('0', {}, {'a': {1}})\n", r"task 0: target: .*not JSON ser"),
    ],
)
def test_a_wrong_file_is_told(tmp_path: Path, text: str, words: str) -> None:
    """The error is one line with the file and, if known, the line number."""
    with pytest.raises(BadBenchmarkFile, match=words) as caught:
        tasks(tmp_path, text)
    assert "\n" not in str(caught.value)


def test_two_items_with_one_id(tmp_path: Path) -> None:
    text = CLASS + LOAD + "return [Task('0', {}, {}), Task('0', {}, {})]\n"
    with pytest.raises(BenchmarkError, match="0 is a duplicate id"):
        tasks(tmp_path, text)


@pytest.mark.parametrize(("value", "score"), [("True", 1.0), ("0.5", 0.5), ("0", 0.0)])
async def test_own_scores(tmp_path: Path, value: str, score: float) -> None:
    """Only 1 counts as correct; a missing answer is wrong without a call of the scorer."""
    path = tmp_path / "mine.py"
    path.write_text(
        HEAD + f"class M(OwnBenchmark):\n    def score(self, target, answer): return {value}\n"
    )
    scorer = open_benchmark(parse_benchmark(str(path))).scoring
    found = await scorer.score({}, Submission("a"), ScoringResources())
    assert (found.value, found.correct) == (score, score == 1)
    assert (await scorer.score({}, Submission(None), ScoringResources())).value == 0


@pytest.mark.parametrize(("value", "words"), [("None", "returned None"), ("2", "returned 2")])
async def test_what_is_no_score(tmp_path: Path, value: str, words: str) -> None:
    path = tmp_path / "mine.py"
    path.write_text(
        HEAD + f"class M(OwnBenchmark):\n    def score(self, target, answer): return {value}\n"
    )
    scorer = open_benchmark(parse_benchmark(str(path))).scoring
    with pytest.raises(ScorerFailed, match=words):
        await scorer.score({}, Submission("a"), ScoringResources())
