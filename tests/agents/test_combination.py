"""Tests of the solutions shown to a combining call: chosen by seed, at most a window, none
unusable."""

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from tutti.tasks.agents.parallel import Combination, Taken

TEXTS = st.lists(st.text("abc", max_size=6), min_size=1, max_size=12)


@given(
    texts=TEXTS,
    combine=st.sampled_from(["select", "synthesis"]),
    window=st.none() | st.integers(2, 12),
    seed=st.integers(0, 99),
)
def test_what_is_shown_and_what_may_be_drawn(
    texts: list[str], combine: Any, window: int | None, seed: int
) -> None:
    """All usable solutions are shown, or a full window of them, and a drawn answer is one of the
    shown."""
    combination = Combination(combine, texts, 4, seed, window)
    usable = [number for number, text in enumerate(texts) if 0 < len(text) <= 4]
    assert len(combination.shown) == min(len(usable), window or len(texts))
    assert set(combination.shown) <= set(usable)
    drawn = combination.draw("no_verdict").number
    assert drawn in (combination.shown or range(len(texts)))
    again = Combination(combine, texts, 4, seed, window)
    assert (again.shown, again.draw("x").number) == (combination.shown, drawn)
    asked = combination.without_asking is None
    alike = len({texts[number] for number in combination.shown}) == 1
    assert asked == bool(usable and not (combine == "select" and alike))


def test_another_seed_shows_others() -> None:
    """Different seeds in a window see different solutions if there are many."""
    texts = [str(number) for number in range(32)]
    windows = {tuple(Combination("select", texts, 9, f"{seed} task", 8).shown) for seed in range(9)}
    assert len(windows) == 9


def test_a_verdict_names_a_place_and_the_answer_is_that_solution() -> None:
    combination = Combination("select", ["a", "b", "c"], 9, 1)
    for place, number in enumerate(combination.shown, 1):
        assert combination.read(f"So.\nVerdict: {place}") == Taken(number)
    assert combination.read("Verdict: 4").error == "no_verdict"
