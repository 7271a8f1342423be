"""Tests that copies of held-out questions are detected with any formatting, and questions of the
same templates are not: shares with Wilson intervals, on real questions where available."""

import json
import os
from pathlib import Path
from random import Random

import pytest

pytest.importorskip("sqlalchemy", reason="the store needs the platform: make test-fast")

from tests.leaks.copies import KINDS, sibling, templated
from tests.leaks.rewordings import PAIRS
from tutti.tasks.leaks import LeakIndex
from tutti.tasks.platform.project import PROJECT
from tutti.tasks.scoring.statistics import wilson

DATA = Path(os.environ.get("TUTTI_TEST_DATA", PROJECT.parent / "shared" / "data"))
REAL = {
    "gsm8k": ("gsm8k/test.jsonl", "question"),
    "ifeval": ("ifeval/input_data.jsonl", "prompt"),
    "frames": ("frames/frames.jsonl", "question"),
}


def questions(name: str) -> list[str]:
    file, field = REAL[name]
    if not (DATA / file).is_file():
        pytest.skip(f"no public data at {DATA / file}")
    lines = (DATA / file).read_text(encoding="utf-8").splitlines()
    texts = list(dict.fromkeys(json.loads(line)[field] for line in lines))
    Random(1).shuffle(texts)
    return texts


def share(found: int, of: int) -> str:
    low, high = wilson(found, of) or (0.0, 1.0)
    return f"{found} of {of} ({low:.1%} to {high:.1%})"


def count_caught(held: list[str], seed: int = 1) -> dict[str, int]:
    index, rng = LeakIndex(held), Random(seed)
    return {
        kind: sum(index.find(copy(each, rng)) is not None for each in held)
        for kind, copy in KINDS.items()
    }


def test_made_copies_are_caught_and_their_siblings_are_not() -> None:
    """At least 98 % of each kind and at most 0.5 % of the other half of each template are detected.
    Words inserted between brackets are not counted."""
    made = templated(Random(2))
    dropped = total = 0
    for name, every in made.items():
        half = len(every) // 2
        held, honest = every[:half], every[half:]
        for kind, caught in count_caught(held[:60]).items():
            if name not in ("brackets", "booleans") or "inserted" not in kind:
                assert caught >= 0.98 * len(held[:60]), (name, kind, caught)
        index = LeakIndex(held)
        dropped += sum(index.find(each) is not None for each in honest)
        total += len(honest)
    assert total > 900 and dropped <= 0.005 * total, share(dropped, total)


@pytest.mark.slow
@pytest.mark.parametrize("name", REAL)
def test_real_copies_are_caught(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    held = questions(name)
    for kind, caught in count_caught(held).items():
        with capsys.disabled():
            print(f"\n{name:7} {kind:31} {share(caught, len(held))}", end="")
        assert caught >= 0.98 * len(held), kind


@pytest.mark.slow
def test_honest_questions_stay(capsys: pytest.CaptureFixture[str]) -> None:
    """Two thirds have the template of a held-out question, with other numbers and names or one
    other number."""
    dropped = total = 0
    for name in REAL:
        every = questions(name)
        held, honest = every[: len(every) // 2], every[len(every) // 2 :]
        index, rng = LeakIndex(held), Random(3)
        if name == "gsm8k":
            twice = [sibling(each, rng) for each in held for _ in range(4)]
            honest += [each for each in twice if each not in held]
        found = sum(index.find(each) is not None for each in honest)
        with capsys.disabled():
            print(f"\n{name:7} honest ones dropped: {share(found, len(honest))}", end="")
        dropped, total = dropped + found, total + len(honest)
    assert dropped <= 0.005 * total, share(dropped, total)


@pytest.mark.parametrize(
    ("held", "text", "how"),
    [
        ("What is 80 - 85?", "What is 80 + 85?", None),
        ("Add 3, 4 and 5 to 17.", "Please add 3, 4 and 5 to 17, thanks.", "near"),
        ("Sort the numbers 45, 80, 32", "Sort the numbers 45, 80, 32, 26", None),
        ("Sort the numbers 45, 80, 32, 26", "Sort the numbers 45, 80, 32", None),
        ("Sum three and 1,200.50 in Oslo", "sum 3 AND 1200.5 in Oslo", "same"),
        ("( not True ) or ( not False ) is", "not ( True ) or ( not False ) is", None),
        ("Input: [ [ ( < >", "Input: [ [ ( < > )", None),
        ("Input: [ [ ( < >", "Please complete. Input: [ [ ( < >", "words"),
        ("add the numbers 12 and 3 to 45", "addthenumbers12and3to45", "same"),
        ("add the numbers 12 and 3 to 45", "add the num bers 12 and 3 to 45", "same"),
        ("list the numbers 12, 345 and 6", "listthenumbers12,345and6", "same"),
        ("list the numbers 12, 345 and 6", "list the numbers 123, 45 and 6", None),
        ("Tom has 3 cats and Ann 5", "Tom has 5 cats and Ann 3", None),
        ("Tom pays Ann 5 euros for the hat", "Ann pays Tom 5 euros for the hat", None),
        ("Which of these is a prime above 90", "Which of these is not a prime above 90", None),
        (
            "Is Norway larger than Oslo or Ann older",
            "Is Ann larger than Norway or Oslo older",
            None,
        ),
        ("", "What is held?", None),
        ("What is held?", "", None),
    ],
)
def test_what_makes_another_question(held: str, text: str, how: str | None) -> None:
    found = LeakIndex([held, "Tell Tom and Ann of Norway and Oslo"]).find(text)
    assert (found and found.how) == how


def test_no_rewording_is_caught_without_an_embedder() -> None:
    """docs/training.md says so; with all-MiniLM-L6-v2, 26 of the 40 were detected."""
    index = LeakIndex([question for question, _ in PAIRS])
    assert sum(index.find(again) is not None for _, again in PAIRS) == 0
