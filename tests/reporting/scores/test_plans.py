"""Tests of m&m's figures of several plans, with manually computed cases and from stored scores."""

from pathlib import Path
from typing import Any

import pytest

from tests.reporting.scores.test_named import declared, metrics
from tutti.tasks.reporting.measures.named import plan_measures, tool_f1


def figures(right: str = "", missed: str = "", surplus: str = "", **more: Any) -> dict[str, Any]:
    """Return the figures of one plan with tools given as words and an equal number of labels."""
    tools = {
        "right_tools": right.split(),
        "missed_tools": missed.split(),
        "surplus_tools": surplus.split(),
    }
    r, m, s = map(len, tools.values())
    counts = [r, r + s, r + m]
    labels = {"argument_names": counts, "argument_values": [0, *counts[1:]], "edges": [0, 0, 0]}
    exact = {"plan_names": not (m or s), "plan_values": False, "edit_distance": (m + s) / 10}
    return tools | labels | exact | more


PLANS = [figures("a b"), figures("a", missed="b"), figures("", missed="b", surplus="c")]


def test_the_tools_f1_is_the_mean_over_tools() -> None:
    """a: 2 of 2, F1 1. b: one of three, 2 / (2 + 2). c: none correct, 0."""
    assert tool_f1(PLANS) == pytest.approx((1 + 2 / 4 + 0) / 3)
    assert tool_f1([figures()]) is None


def test_other_f1s_are_those_of_sums() -> None:
    """Names: correct 2 + 1 + 0, predicted 2 + 1 + 1, gold 2 + 2 + 1. No plan has an edge."""
    found = {each.name: each for each in plan_measures([[plan] for plan in PLANS])}
    assert found["argument-name F1"].value == pytest.approx(6 / 9)
    assert found["argument-value F1"].value == 0
    assert found["edge F1"] == ("edge F1", None, None, None)
    assert found["plans right by names"].value == pytest.approx(1 / 3)
    assert found["edit distance"].value == pytest.approx((0 + 0.1 + 0.2) / 3)
    for each in found.values():
        for end in (each.low, each.high):
            assert end is None or 0 <= end <= 1


def test_plans_of_one_task_are_one_cluster() -> None:
    """The sums are equal, but the interval differs."""
    one, other = (plan_measures(tasks) for tasks in ([[p] for p in PLANS], [PLANS[:2], PLANS[2:]]))
    assert one[1].value == other[1].value and one[1][2:] != other[1][2:]


@pytest.mark.parametrize("name", ["mnms", "mnms-code"])
def test_a_report_shows_them(tmp_path: Path, name: str) -> None:
    """The figures are shown beside the share of correct plans; a score without figures is left out
    and counted."""
    scores: dict[str, tuple[float, str | None, dict[str, Any] | None]] = {
        f"t{nth}": (1.0, None, {"plan_figures": plan}) for nth, plan in enumerate(PLANS)
    }
    found = metrics(tmp_path, scores | {"t9": (0.0, None, {"error": "x"})}, declared(name))
    assert [each.value for each in plan_measures([[plan] for plan in PLANS])] == [
        each.value for each in found.values()
    ]
    assert {(each.n, each.left_out) for each in found.values()} == {(3, 1)}
