"""Tests of RULER's tasks: the text contains its references, which are computed here
independently."""

import re
from collections import Counter
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tutti.tasks.benchmarks.ruler.tasks import ADJECTIVES, HOPS, NOUNS, PAIRS, TASKS, draw_pairs

SEEDS = st.integers(0, 10_000)
SIZES = st.integers(60, 400)
NEEDLE = re.compile(r"secret numbers for (\S+) is: (\d{7})\.")


@pytest.mark.parametrize("name", [name for name in TASKS if name.startswith("niah")])
@given(seed=SEEDS, size=st.integers(4, 90))
def test_the_needles_asked_for_are_the_references(name: str, seed: int, size: int) -> None:
    """The references are all values of the keys in the question and of no other key."""
    made = TASKS[name].make(Random(seed), size, 4096)
    question = made.text.rsplit("\n\n", 1)[1]
    found = [value for key, value in NEEDLE.findall(made.text) if key in question]
    assert sorted(found) == sorted(made.references)
    keys = {key for key, value in NEEDLE.findall(made.text) if value in made.references}
    counts = {"niah_multivalue": (1, 4), "niah_multiquery": (4, 4)}
    assert (len(keys), len(found)) == counts.get(name, (1, 1))
    others = len(NEEDLE.findall(made.text)) - len(found)
    assert others == (size if name == "niah_multikey" else 0)


@given(SEEDS, st.integers(HOPS + 1, 90))
def test_the_variables_with_the_value_are_the_references(seed: int, size: int) -> None:
    """The assignments are followed in the order of the text."""
    made = TASKS["vt"].make(Random(seed), size, 4096)
    wanted = re.findall(r"have the value (\d+)", made.text)[-1]
    values: dict[str, str] = {}
    for name, source in re.findall(r"VAR (\w+) = (?:VAR )?(\w+)", made.text):
        values[name] = values.get(source, source)
    assert tuple(name for name, value in values.items() if value == wanted) == made.references
    assert len(made.references) == HOPS + 1


@given(SEEDS, SIZES, st.sampled_from([1000, 8192]))
def test_the_common_words_are_the_references(seed: int, size: int, length: int) -> None:
    """The common words in the second list occur ten times as often as the others, or six times in a
    short one."""
    made = TASKS["cwe"].make(Random(seed), size, length)
    words = Counter(
        re.findall(r"\d+\. (\S+-\S+)", made.text.split("Answer: ")[1].split("\n\n", 1)[1])
    )
    common = words.most_common(11)
    assert {word for word, _ in common[:10]} == set(made.references)
    assert (common[9][1], common[10][1]) == ((6, 1) if length < 4096 else (30, 3))
    assert len(words) == size


@given(SEEDS, st.integers(60, 5000))
def test_the_frequent_words_are_the_references(seed: int, size: int) -> None:
    """The dots are excluded, and there is no tie between the third and the fourth word."""
    made = TASKS["fwe"].make(Random(seed), size, 4096)
    text = made.text.split("\n\n")[1].split()
    common = Counter(word for word in text if word != "....").most_common(4)
    assert tuple(word for word, _ in common[:3]) == made.references
    assert common[2][1] > common[3][1]


def test_no_pair_of_words_contains_another() -> None:
    """Otherwise a wrong pair could be scored as correct."""
    assert not [(a, b) for a in ADJECTIVES for b in ADJECTIVES if a != b and b.endswith(a)]
    assert not [(a, b) for a in NOUNS for b in NOUNS if a != b and b.startswith(a)]
    assert len(set(draw_pairs(Random(1), PAIRS))) == PAIRS == len(ADJECTIVES) * len(NOUNS)
