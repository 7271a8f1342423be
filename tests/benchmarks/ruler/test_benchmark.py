"""Tests of RULER's items: the same row gives the same items, within the stated length, and gold
answers are correct; also the lengths of tutti's own rows."""

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.benchmarks.conftest import write_lines
from tutti.tasks.benchmarks import BadRow, Source, Task, benchmark_named
from tutti.tasks.benchmarks.ruler.benchmark import count_words, generate
from tutti.tasks.benchmarks.ruler.tasks import TASKS
from tutti.tasks.platform.project import PROJECT
from tutti.tasks.scoring import ScoringResources, Submission

RULER = benchmark_named("ruler")
ROW: dict[str, Any] = {"task": "vt", "length": 1000, "items": 2, "seed": 1}


def items_of(tmp_path: Path, **changed: Any) -> list[Task]:
    """Return the items of one row."""
    path = write_lines(tmp_path / "knobs.jsonl", [ROW | changed])
    return list(RULER.load(Source(path)))


@pytest.mark.parametrize("name", TASKS)
def test_a_row_gives_its_items_and_always_the_same(tmp_path: Path, name: str) -> None:
    """Another seed gives other items, and no two items are equal."""
    items = items_of(tmp_path, task=name)
    assert items == items_of(tmp_path, task=name)
    others = items_of(tmp_path, task=name, seed=2)
    assert len({item.inputs["question"] for item in (*items, *others)}) == 4
    assert items[0].attributes == {"task": name, "length": "1000", "unit": "words"}


@pytest.mark.parametrize("name", TASKS)
@given(seed=st.text(max_size=5), length=st.integers(900, 6000), tokens=st.integers(1, 2))
def test_the_length_is_kept_and_used(name: str, seed: str, length: int, tokens: int) -> None:
    """The prompt and the room for the response take at most the length and at least 93 % of it,
    also if a word is two tokens."""
    made = generate(TASKS[name], seed, length, lambda text: tokens * count_words(text))
    assert made is not None
    assert 0.93 * length < tokens * count_words(made.text) + TASKS[name].room <= length


@pytest.mark.parametrize("name", TASKS)
async def test_gold_is_right_and_half_of_it_half_right(tmp_path: Path, name: str) -> None:
    """The benchmark's own scorer is used; its headline figure is the mean."""
    item = items_of(tmp_path, task=name)[0]
    gold = await RULER.scoring.score(item.target, RULER.gold_attempt(item), ScoringResources())
    assert (gold.value, gold.correct) == (1.0, True)
    references = item.target["references"]
    half = ", ".join(references[: len(references) // 2])
    found = await RULER.scoring.score(item.target, Submission(half, half), ScoringResources())
    assert found.value == (len(references) // 2) / len(references)
    assert RULER.headline is not None and RULER.headline.measure == "mean score"


@pytest.mark.parametrize("name", RULER.splits)
def test_a_split_is_one_task_of_four_lengths(name: str) -> None:
    """The split needs no source."""
    items = list(RULER.load(Source(split=name)))
    lengths = {item.attributes["length"] for item in items}
    assert len(items) == 100 and lengths == {"4096", "8192", "16384", "32768"}
    assert {item.attributes["task"] for item in items} == {name}


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ({"task": "qa_1"}, "task: there is no task 'qa_1'; there are niah_single, "),
        ({"length": 200_000}, "length: 200000 is not between 1 and 131072"),
        ({"length": 100}, "length: 100 words do not hold the shortest question of vt"),
        ({"items": 0}, "items: 0 is not between 1 and 10000"),
        ({"seed": "x"}, "seed: 'x' is not a whole number"),
        ({"depth": 3}, "depth: is unknown; there are items, length, seed, task, tokenizer"),
    ],
)
def test_a_bad_row_is_named(tmp_path: Path, wrong: dict[str, Any], words: str) -> None:
    """The error names file, line and field."""
    with pytest.raises(BadRow) as caught:
        items_of(tmp_path, **wrong)
    assert f"knobs.jsonl:1: {words}" in str(caught.value)


def test_without_the_tokenizers_package_the_error_says_what_to_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Words are never counted instead of tokens."""
    monkeypatch.setitem(__import__("sys").modules, "tokenizers", None)
    with pytest.raises(BadRow, match=r"tokenizer: .*not installed: .*or leave the field out"):
        items_of(tmp_path, tokenizer="tokenizer.json")


def test_a_tokenizer_counts_the_length(tmp_path: Path) -> None:
    """The row's tokenizer file is used; an invalid file is named in the error."""
    library = pytest.importorskip("tokenizers")
    path = PROJECT / "assets" / "pocket" / "tokenizer.json"
    tokenizer = library.Tokenizer.from_file(str(path))
    for name, task in TASKS.items():
        for item in items_of(tmp_path, task=name, length=16_000, tokenizer=str(path)):
            used = len(tokenizer.encode(item.inputs["question"]).ids) + task.room
            assert 15_000 < used <= 16_000 and item.attributes["unit"] == "tokens"
    (tmp_path / "broken.json").write_text("{}")
    with pytest.raises(BadRow, match=r"tokenizer: .*broken.json is no tokenizer.json"):
        items_of(tmp_path, tokenizer="broken.json")
