"""Tests of the noise floor, and that its cells and superseded ones are excluded from pooled
figures."""

from collections.abc import Callable
from pathlib import Path

import pytest
from duckdb import DuckDBPyConnection

from tutti.tasks.reporting import build_report, family_scores
from tutti.tasks.reporting.figures.plots import first_repeats
from tutti.tasks.reporting.measures.pairs import (
    OTHER_SEEDS,
    SAME_SEEDS,
    noise_at,
    noise_floor,
    noise_words,
)
from tutti.tasks.sweeps.analysis.compare import Side, compare_sides, set_ups
from tutti.tasks.sweeps.results import summarise
from tutti.tasks.sweeps.results.summary import load_points

Connect = Callable[..., DuckDBPyConnection]
ONE = {"samples": 20, "correct": 10}
AGAIN = ONE | {"repeat": -1, "correct": 12, "step_s": 1.25}
OTHER = ONE | {"repeat": 1, "correct": 14, "step_s": 0.8}
OLD = ONE | {"repeat": 2, "correct": 0, "status": "superseded"}


def test_the_same_set_up_against_itself(connect_to: Connect) -> None:
    """A/A cells are compared with the first repeat, and repeats with each other, faster over
    slower."""
    cells = summarise(connect_to(ONE, AGAIN, OTHER), "s")
    same, others = noise_floor(cells)
    assert (same.kind, same.pairs, others.kind, others.pairs) == (SAME_SEEDS, 1, OTHER_SEEDS, 1)
    assert same.times == same.most_times == pytest.approx(1.25, rel=0.02)
    assert same.points == pytest.approx(0.1)
    assert others.times == pytest.approx(1.25, rel=0.02) and others.points == pytest.approx(0.2)
    assert noise_at([others, same], cells[0]) is same  # what shares the seeds says more
    assert noise_words(same) == "at most 1.25 times in steps/min and 10.0 points of score"


def test_what_was_measured_once_has_none(connect_to: Connect) -> None:
    """Without a pair there is no noise floor."""
    assert noise_floor(summarise(connect_to(ONE, ONE | {"policy": "x"}), "s")) == []


def test_a_a_and_superseded_cells_are_in_no_pooled_figure(connect_to: Connect) -> None:
    """Points, families and comparisons exclude them."""
    connection = connect_to(ONE, AGAIN, OTHER, OLD)
    cells = summarise(connection, "s")
    assert [cell.repeat for cell in cells] == [0, -1, 1]
    (point,) = load_points(cells)
    assert [cell.repeat for cell in point.cells] == [0, 1] and point.correct == 24
    assert [cell.repeat for cell in first_repeats(cells)] == [0]
    assert sum(score.correct for score in family_scores(connection, "s")) == 24
    side = Side.find(connection, "s")
    assert side is not None
    ((key, ids),) = set_ups(side.cells, side.cells)[0].items()
    assert dict(key)["policy"] == "cap" and ids == ["s-pocket-cap-2", "s-pocket-cap-2-1"]


def test_an_a_a_cell_that_is_named_is_compared(connect_to: Connect) -> None:
    """An A/A cell is left out of pooled figures only, not of an explicit request."""
    connection = connect_to(ONE, AGAIN)
    sides = [Side.find(connection, f"s-pocket-cap-2{end}") for end in ("", "--1")]
    first, again = sides
    assert first is not None and again is not None
    (row,) = compare_sides(connection, first, again)
    assert row.n == 10 and row.difference == pytest.approx(0.1)


def test_the_report_says_it_next_to_the_verdicts(connect_to: Connect, tmp_path: Path) -> None:
    """The noise floor is in the text under the verdicts of the highest load and in its own
    table."""
    cells = [ONE | {"policy": policy} for policy in ("passthrough", "cap")]
    connection = connect_to(*cells, AGAIN | {"policy": "passthrough"}, OLD)
    report = build_report(connection, ["s"], tmp_path, "Noise", {}, files=False)
    noise = "2 at once: passthrough measured twice (A/A, same seeds, 1 pair) differed by at most"
    place = next(i for i, text in enumerate(report.findings) if text.startswith(noise))
    assert "against passthrough" in report.findings[place - 1]
    assert "Noise floor: the same, measured twice" in report.page.read_text()
    assert not any(c.name_b == "passthrough" for c in report.compared)
