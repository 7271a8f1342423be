"""Tests that paced programs send an engine the load that their rows specify."""

from pathlib import Path
from typing import Any

import pytest

from bench.scheduling.work import WORDS as BENCH_WORDS
from tests.benchmarks.conftest import write_lines
from tests.benchmarks.games.test_worlds import attempted
from tutti.tasks.agents.models.model import Reply
from tutti.tasks.benchmarks import BadRow, Source, benchmark_named
from tutti.tasks.benchmarks.definition import DATA
from tutti.tasks.benchmarks.paced import WORDS

PACED = benchmark_named("paced")


class Talker:
    """Model with the same reply for each call that records the length of each prompt."""

    def __init__(self) -> None:
        self.words: list[int] = []

    async def complete(self, messages: Any, tools: Any, step: int, positions: Any = None) -> Reply:
        """Return three words."""
        self.words.append(sum(len(message["content"].split()) for message in messages))
        return Reply({"role": "assistant", "content": "bab dad gag"}, "")


async def test_a_program_makes_its_calls_and_grows_as_its_row_says(tmp_path: Path) -> None:
    """First prompt, growth and number of calls follow the row; the attempt is correct when all
    calls are made."""
    row = {"id": "p", "first_words": 40, "added_words": 7, "pauses_s": [0.0, 0.01, 0]}
    (task,) = PACED.load(Source(write_lines(tmp_path / "test.jsonl", [row])))
    model = Talker()
    done, score = await attempted("paced", task, model)
    assert model.words == [40, 50, 60, 70]
    assert (done.steps, done.status, score.value) == (4, "ok", 1.0)
    assert done.partner_s >= 0.01
    assert [(step, name) for step, name, *_ in done.tool_runs] == [
        (step, "environment") for step in (1, 2, 3)
    ]


def test_tutti_brings_programs_of_its_own() -> None:
    """The programs need no source, no two have the same text, and a row always gives the same
    text."""
    tasks = list(PACED.load(Source()))
    assert len({task.inputs["question"] for task in tasks}) == len(tasks) == 96
    assert tasks[0].inputs == next(iter(PACED.load(Source(DATA / "paced")))).inputs


def test_its_words_are_the_random_models() -> None:
    """Each word is one token of the random model; the models environment reads the words without
    tutti."""
    assert WORDS == BENCH_WORDS


@pytest.mark.parametrize(
    "wrong",
    [{"pauses_s": [-1]}, {"pauses_s": 3}, {"first_words": 0}, {"added_words": "many"}],
)
def test_a_bad_row_is_named(tmp_path: Path, wrong: dict[str, Any]) -> None:
    """The error names file, line and field."""
    row = {"id": "p", "first_words": 4, "added_words": 7, "pauses_s": [0.0]} | wrong
    path = write_lines(tmp_path / "test.jsonl", [row])
    with pytest.raises(BadRow, match=f"test.jsonl:1: {next(iter(wrong))}: "):
        list(PACED.load(Source(path)))
