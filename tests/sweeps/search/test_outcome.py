"""Tests of a search with a measuring function: its answer as text and JSON, and objections to
it."""

import json
from collections.abc import Callable

import pytest

from tutti.tasks.reporting import concurrency_table
from tutti.tasks.sweeps.search.search import (
    Figure,
    Objectives,
    Probe,
    SearchOutcome,
    content_of,
    find_highest,
    lines_of,
)

LIMITS = Objectives(step_latency_p95=2.0, accuracy=0.5, highest=16)
RIGHT = Figure(0.8, 0.7, 0.9)


def at(level: int, p95: float, spread: float = 0.1, accuracy: Figure = RIGHT) -> Probe:
    """Return a level with this p95, measured so far."""
    latency = Figure(p95, p95 - spread, p95 + spread)
    return Probe(level, (f"cell-{level}",), latency, accuracy, Figure(60.0 * level))


async def found_with(
    measure: Callable[[int, int], Probe | str], asked: Objectives = LIMITS, lowest: int = 1
) -> SearchOutcome:
    async def measured(policy: str, level: int, repeats: int, limit_s: float) -> Probe | str:
        assert (policy, limit_s) == ("cap", asked.step_latency_p95)
        return measure(level, repeats)

    return await find_highest("cap", lowest, asked, measured)


async def test_an_answer_with_its_figures() -> None:
    """2 s are reached between 9 and 10, both of which were probed."""
    found = await found_with(lambda level, _: at(level, level / 4.75, spread=0.01))
    assert (found.concurrency, found.sure, found.words, found.notes) == (9, True, "9", [])
    levels = "1 met, 2 met, 4 met, 8 met, 16 not met, 12 not met, 10 not met, 9 met"
    assert lines_of(found) == [f"probed {levels}"]
    content = json.loads(json.dumps(content_of(found)))
    assert content["step_latency_p95"] == pytest.approx(
        {"value": 1.895, "low": 1.885, "high": 1.905}, abs=1e-3
    )
    assert content["steps_per_min"]["value"] == 540
    assert [each["concurrency"] for each in content["probes"]] == [1, 2, 4, 8, 16, 12, 10, 9]
    assert concurrency_table([found]) == [
        {
            "policy": "cap",
            "highest": "9",
            "p95, s": "1.89 (1.88 to 1.90)",
            "accuracy": "80.0 % (70.0 to 90.0)",
            "steps/min": "540",
        }
    ]


@pytest.mark.parametrize(
    ("p95", "said", "level"),
    [(9.0, "none, 1 is too high", None), (0.5, "16, the highest asked", 16)],
)
async def test_answers_at_the_ends_of_the_range(p95: float, said: str, level: int | None) -> None:
    """The answers are below the range, and at its upper end."""
    found = await found_with(lambda at_level, _: at(at_level, p95))
    assert (found.words, found.concurrency, found.sure) == (said, level, True)


async def test_the_lowest_level_may_be_above_the_highest_asked() -> None:
    """The range is a single level, the suite's own."""
    found = await found_with(lambda level, _: at(level, 1.0), lowest=32)
    assert (found.concurrency, found.words) == (32, "32, the highest asked")


async def test_a_level_on_the_edge_is_measured_thrice_and_said_to_be() -> None:
    """There is one more repeat each time; the values decide, and the answer is marked as
    uncertain."""
    times: list[tuple[int, int]] = []

    def measure(level: int, repeats: int) -> Probe:
        times.append((level, repeats))
        return at(level, 1.95 if level == 2 else level / 2)

    found = await found_with(measure, Objectives(step_latency_p95=2.0, highest=2))
    assert times == [(1, 1), (2, 1), (2, 2), (2, 3)]
    assert (found.concurrency, found.sure) == (2, False)
    assert found.words == "2, the highest asked, by values alone"
    assert lines_of(found)[0] == "probed 1 met, 2 met by values"
    assert found.notes == [
        "at 2: measured 3 times, still on either side of p95 2 s: decided by the values"
    ]


async def test_a_level_that_could_not_be_measured_breaks_the_search_off() -> None:
    """Earlier measurements are shown; there is no answer."""
    found = await found_with(lambda level, _: "3 are left" if level == 4 else at(level, 0.5))
    assert (found.concurrency, found.sure, found.words) == (
        None,
        False,
        "broken off at 4: 3 are left",
    )
    assert lines_of(found) == ["probed 1 met, 2 met"]
    assert concurrency_table([found])[0]["p95, s"] == "–"  # noqa: RUF001


async def test_what_speaks_against_an_answer_is_said() -> None:
    """The objections are levels out of order, and a client that was late."""

    def measure(level: int, _: int) -> Probe:
        probe = at(level, 1.5 if level == 1 else 0.5)
        late = ("its event loop lagged by 90 ms (p99)",) if level == 2 else ()
        return Probe(level, probe.cells, probe.latency, RIGHT, Figure(), doubts=late)

    found = await found_with(measure, Objectives(step_latency_p95=2.0, highest=2))
    assert found.notes == [
        "at 2: the client may have been the bottleneck in 1 of 1 cells: "
        "its event loop lagged by 90 ms (p99)",
        "p95 of step latency is higher at 1 than at 2: load alone does not explain it",
    ]
