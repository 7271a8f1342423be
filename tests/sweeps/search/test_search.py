"""Tests of the search for the highest concurrency: correct for any monotonic truth, and bounded."""

import math
from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from tutti.tasks.sweeps.search.search import (
    Figure,
    Objectives,
    Outcome,
    Probe,
    Search,
    judge_probe,
    out_of_order,
    pooled,
)

MET, NOT_MET = Outcome("met", True, ""), Outcome("not met", False, "")
UNSURE = Outcome("inconclusive", True, "")
LIMITS = Objectives(step_latency_p95=2.0, accuracy=0.6)


def search_of(
    truth: Callable[[int], bool], lowest: int, highest: int, resolution: float = 0.1
) -> tuple[Search, list[int]]:
    """Return a finished search and its requested levels."""
    search, asked = Search(lowest, highest, resolution), []
    while (level := search.next()) is not None:
        asked.append(level)
        assert len(asked) < 100, "it must end"
        search.tell(level, MET if truth(level) else NOT_MET)
    return search, asked


RIGHT = Figure(0.9, 0.8, 0.95)


def probe(level: int, latency: Figure, accuracy: Figure = RIGHT) -> Probe:
    """Return the measurement of a level."""
    return Probe(level, (f"cell-{level}",), latency, accuracy, Figure())


@given(st.integers(1, 40), st.integers(0, 1_000), st.integers(0, 1_200), st.floats(0.01, 1.0))
def test_any_level_is_found_within_the_resolution(
    lowest: int, width: int, edge: int, resolution: float
) -> None:
    """For any highest level that meets the limits, there are at most about 2 log2 probes, each
    level once, and none above twice the answer."""
    highest = lowest + width
    search, asked = search_of(lambda level: level <= edge, lowest, highest, resolution)
    truth = min(edge, highest)
    if edge < lowest:
        assert (search.answer, asked) == (None, [lowest])
        return
    assert search.answer is not None and search.answer <= truth
    assert truth - search.answer <= max(0.0, max(1.0, resolution * search.answer) - 1)
    most = math.ceil(math.log2(highest / lowest)) + math.ceil(math.log2(1 / resolution)) + 2
    assert len(asked) == len(set(asked)) <= most
    assert max(asked) <= min(highest, max(lowest, 2 * truth))
    assert search.is_sure and search.next() is None


@given(st.integers(1, 10), st.integers(0, 200), st.sets(st.integers(1, 210)))
def test_with_any_answers_it_ends_at_a_level_that_meets_them(
    lowest: int, width: int, bad: set[int]
) -> None:
    """For a non-monotonic truth, the answer meets the limits, and a level close above it does
    not."""
    highest = lowest + width
    levels = {n: n not in bad for n in range(lowest, highest + 1)}
    search, asked = search_of(levels.__getitem__, lowest, highest)
    if search.answer is None:
        assert not levels[lowest]
        return
    assert levels[search.answer]
    near = max(1.0, 0.1 * search.answer)
    assert search.answer == highest or any(
        not levels[n] for n in asked if search.answer < n <= search.answer + near
    )


def test_it_doubles_and_then_halves() -> None:
    """The levels are checked manually for 1 to 64 with the truth at 11, and with the truth beyond
    the range."""
    search, asked = search_of(lambda level: level <= 11, 1, 64)
    assert (search.answer, asked) == (11, [1, 2, 4, 8, 16, 12, 10, 11])
    search, asked = search_of(lambda level: True, 3, 40)
    assert (search.answer, asked) == (40, [3, 6, 12, 24, 40])


def test_the_same_level_is_asked_until_it_is_told() -> None:
    """Requesting the level has no side effect."""
    search = Search(1, 8)
    assert [search.next(), search.next()] == [1, 1]


def test_what_intervals_leave_open_is_measured_again_and_then_decided_by_value() -> None:
    """There are at most `times` measurements, and the result is marked as decided by value."""
    search = Search(1, 8, times=3)
    search.tell(1, MET)
    for told in (1, 2):
        search.tell(2, UNSURE)
        assert (search.next(), search.times(2)) == (2, told)
    search.tell(2, UNSURE)
    assert (search.next(), search.by_value) == (4, [2])
    search.tell(4, NOT_MET)
    search.tell(3, NOT_MET)
    assert (search.next(), search.answer, search.is_sure) == (None, 2, False)


def test_a_second_measurement_may_decide() -> None:
    """The result is then not decided by a value alone."""
    search = Search(1, 2)
    search.tell(1, UNSURE)
    search.tell(1, MET)
    search.tell(2, UNSURE)
    search.tell(2, NOT_MET)
    assert (search.next(), search.answer, search.is_sure) == (None, 1, True)


@pytest.mark.parametrize(
    ("latency", "accuracy", "word", "by_value"),
    [
        (Figure(1.0, 0.9, 1.1), Figure(0.8, 0.7, 0.9), "met", True),
        (Figure(2.0, 2.0, 2.0), Figure(0.6, 0.6, 0.6), "met", True),
        (Figure(3.0, 2.5, 3.5), Figure(0.8, 0.7, 0.9), "not met", False),
        (Figure(1.0, 0.9, 1.1), Figure(0.4, 0.3, 0.5), "not met", False),
        (Figure(3.0, 2.5, 3.5), Figure(0.6, 0.5, 0.7), "not met", False),
        (Figure(1.9, 1.7, 2.1), Figure(0.8, 0.7, 0.9), "inconclusive", True),
        (Figure(2.1, 1.7, 2.5), Figure(0.8, 0.7, 0.9), "inconclusive", False),
        (Figure(1.0, 0.9, 1.1), Figure(0.55, 0.5, 0.65), "inconclusive", False),
        (Figure(1.0), Figure(0.8, 0.7, 0.9), "inconclusive", True),
        (Figure(), Figure(0.8, 0.7, 0.9), "inconclusive", False),
    ],
)
def test_a_level_is_judged_by_its_intervals(
    latency: Figure, accuracy: Figure, word: str, by_value: bool
) -> None:
    """A level is good with both figures certainly good, bad with one certainly bad, and open
    otherwise."""
    found = judge_probe(probe(8, latency, accuracy), LIMITS)
    assert (found.word, found.by_value) == (word, by_value)
    assert ("without an interval" in found.reason) == (latency.low is None and word != "not met")


def test_accuracy_that_nobody_asked_for_is_not_judged() -> None:
    """Latency alone decides."""
    low = probe(8, Figure(1.0, 0.9, 1.1), Figure(0.0, 0.0, 0.1))
    assert judge_probe(low, Objectives(step_latency_p95=2.0)).word == "met"


def test_a_cell_that_was_ended_for_a_lower_limit_says_nothing_of_a_higher_one() -> None:
    """Ended at 2 s, it is above 2 s and above 1 s; for 3 s its own figures decide."""
    ended = Probe(8, ("cell",), Figure(2.6), Figure(0.9, 0.8, 0.95), Figure(), saturated_s=2.0)
    words = {
        limit: judge_probe(ended, Objectives(step_latency_p95=limit)).word
        for limit in (1.0, 2.0, 2.000001, 3.0)
    }
    assert words == {1.0: "not met", 2.0: "not met", 2.000001: "not met", 3.0: "inconclusive"}


def test_levels_that_are_surely_out_of_order_are_named() -> None:
    """Levels whose intervals touch are not reported."""
    probes = [
        probe(16, Figure(1.0, 0.9, 1.1), Figure(0.9, 0.85, 0.95)),
        probe(8, Figure(2.0, 1.8, 2.2), Figure(0.5, 0.4, 0.6)),
        probe(24, Figure(2.1, 1.9, 2.3), Figure(0.5, 0.4, 0.6)),
        probe(32, Figure(9.0), Figure(0.9)),
    ]
    assert out_of_order(probes) == [
        "p95 of step latency is higher at 8 than at 16: load alone does not explain it",
        "accuracy is lower at 8 than at 16: load alone does not explain it",
    ]


def test_repeats_are_pooled() -> None:
    """Two that agree halve the squared errors, two that do not span both, and a single one keeps
    its interval; repeats without intervals get one from their values."""
    assert pooled([(1.0, (0.8, 1.4))]) == pytest.approx((1.0, 0.8, 1.4))
    agreeing = [(1.0, (0.7, 1.3)), (1.2, (0.8, 1.6))]
    assert pooled(agreeing) == pytest.approx((1.1, 0.85, 1.35))
    assert pooled([(1.0, (0.8, 1.2)), (3.0, (2.5, 3.5))]) == pytest.approx((2.0, 0.8, 3.5))
    assert pooled([(1.0, None), (None, None)]) == Figure(1.0)
    half = 4.302653 * 0.1 / math.sqrt(3)  # Student's, two degrees of freedom
    by_values = pooled([(1.0, (0.8, 1.2)), (1.1, None), (1.2, None)])
    assert by_values == pytest.approx((1.1, 1.1 - half, 1.1 + half))
    assert pooled([(1.0, None), (3.0, None)]).low == 0.0
    assert pooled([]) == Figure()


@settings(max_examples=settings().max_examples // 2)
@given(st.lists(st.tuples(st.floats(0.1, 9), st.floats(0, 1), st.floats(0, 1)), min_size=1))
def test_a_pooled_interval_holds_its_value(repeats: list[tuple[float, float, float]]) -> None:
    """This holds for any repeats."""
    found = pooled([(value, (value - below, value + above)) for value, below, above in repeats])
    assert found.low is not None and found.high is not None and found.value is not None
    assert found.low <= found.value + 1e-9 and found.value <= found.high + 1e-9


def test_refusals() -> None:
    """Errors are raised for invalid searches and search files."""
    for bad in ((0, 4), (5, 4), (1, 4, 0.0), (1, 4, 1.5), (1, 4, 0.1, 0)):
        with pytest.raises(ValueError, match="no range"):
            Search(*bad)
    with pytest.raises(ValidationError, match="lowest is 8, above highest, 4"):
        Objectives(lowest=8, highest=4)
