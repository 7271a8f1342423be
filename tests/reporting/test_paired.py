"""Tests of comparisons: pairing, verdicts for known data, and Holm's correction over a figure's
pairs."""

import pytest
from duckdb import DuckDBPyConnection

from tests.reporting.conftest import Connect
from tutti.tasks.reporting.measures.pairs import model_pairs, policy_pairs
from tutti.tasks.reporting.text.words import gaps
from tutti.tasks.sweeps.analysis import (
    CellComparison,
    Figure,
    Pair,
    compare,
    compare_pairs,
    compare_rates,
)
from tutti.tasks.sweeps.results import CellSummary, summarise


@pytest.fixture(scope="module")
def cells(connection: DuckDBPyConnection) -> list[CellSummary]:
    return summarise(connection, "load")


@pytest.fixture(scope="module")
def found(connection: DuckDBPyConnection, cells: list[CellSummary]) -> list[CellComparison]:
    return compare_pairs(connection, policy_pairs(cells))


def test_policies_are_judged_against_passthrough_at_each_load(cells: list[CellSummary]) -> None:
    pairs = policy_pairs(cells)
    assert [(p.where, p.name_a, p.name_b) for p in pairs] == [
        ("2 at once", "passthrough", "cap"),
        ("8 at once", "passthrough", "cap"),
    ]
    assert policy_pairs([c for c in cells if c.policy == "cap"]) == []


def test_scores_are_paired_by_task(found: list[CellComparison]) -> None:
    scores = [each for each in found if each.metric == Figure.SCORE]
    assert [each.n for each in scores] == [10, 10]  # tasks, not attempts
    # Attempt i of 40 is at task i % 10 and right below 30 or 31: one task's mean is 1/4 better.
    assert scores[0].difference == pytest.approx(1 / 40)
    assert scores[0].mean_a == pytest.approx(0.75)


def test_the_void_attempt_is_at_a_task_of_its_own(found: list[CellComparison]) -> None:
    """An infra_error counts on neither side, and its task is not counted as left out."""
    assert all(each.left_out == 0 for each in found if each.metric == Figure.SCORE)


def test_what_was_lost_to_infrastructure_leaves_no_verdict(
    connection: DuckDBPyConnection, cells: list[CellSummary], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The loss is one of dozens of a side's samples; with a bound below that, the comparison is
    undecided."""
    pairs = policy_pairs(cells)
    lost = {cell.concurrency for cell in cells if cell.n_infra}
    assert {f"{at} at once" for at in lost} < {"nowhere", *(pair.where for pair in pairs)}
    before = compare_pairs(connection, pairs)
    monkeypatch.setattr(compare, "MOST_LOST", 0.001)
    after = compare_pairs(connection, pairs)
    assert [each.difference for each in after] == [each.difference for each in before]
    hit = [each for each in after if each.where in {f"{at} at once" for at in lost}]
    assert hit and {each.verdict for each in hit} == {"inconclusive"}
    assert all("samples were lost to infrastructure" in each.reason for each in hit)
    assert {each.verdict for each in before if each.where in {e.where for e in hit}} > {
        "inconclusive"
    }


def test_faster_is_better(found: list[CellComparison], cells: list[CellSummary]) -> None:
    seconds = {each.where: each for each in found if each.metric == "seconds an attempt"}
    eight = seconds["8 at once"]
    assert eight.verdict == "better" and eight.difference is not None and eight.difference < 0
    rates = {each.where: each for each in compare_rates(policy_pairs(cells), cells)}
    assert rates["8 at once"].verdict == "better" and (rates["8 at once"].difference or 0) > 1
    assert rates["8 at once"].metric == Figure.RATE
    assert rates["2 at once"].n == cells[0].steps + cells[1].steps


def test_costs_that_are_all_alike_are_the_same(found: list[CellComparison]) -> None:
    for each in (c for c in found if c.metric == "USD an attempt"):
        assert each.difference == 0


def test_a_model_without_a_price_is_not_cheaper(connect_to: Connect) -> None:
    """An unknown cost is not compared; a stated price of 0 is a price."""
    paid = {"model": "paid", "samples": 40, "correct": 20, "usd": 0.01}
    for usd, verdicts in ((None, []), (0.0, ["better"])):
        other = {"model": "other", "samples": 40, "correct": 20, "usd": usd, "sweep_id": f"{usd}"}
        with connect_to(paid | {"sweep_id": f"{usd}"}, other) as connection:
            cells = summarise(connection, f"{usd}")
            (pair,) = model_pairs(cells)
            assert pair.name_a == "paid"
            found = compare_pairs(connection, [pair], [Figure.COST])
            assert [each.verdict for each in found] == verdicts
            assert cells[1].cost_usd == usd
            assert any("cost of an attempt unknown" in gap for gap in gaps(cells)) == (usd is None)


def test_models_over_all_of_their_cells(connection: DuckDBPyConnection) -> None:
    (pair,) = model_pairs(summarise(connection, "models"))
    assert (pair.name_a, pair.name_b) == ("before <b>", "after $1 & $2")
    (score,) = compare_pairs(connection, [pair], [Figure.SCORE])
    assert score.verdict == "better" and score.n == 10


def test_a_cell_against_itself_is_never_better(
    connection: DuckDBPyConnection, cells: list[CellSummary]
) -> None:
    side = (cells[0].cell_id,)
    for each in compare_pairs(connection, [Pair("here", "a", side, "b", side)]):
        assert each.difference == 0 and each.verdict in ("same", "inconclusive")


def test_holm_over_the_pairs_of_a_figure(
    connection: DuckDBPyConnection, cells: list[CellSummary]
) -> None:
    """Each p-value grows with the number of comparisons."""
    (_, eight) = policy_pairs(cells)
    (alone,) = compare_rates([eight], cells)
    among = compare_rates([eight] * 5, cells)
    assert alone.p_holm is not None and among[0].p_holm == pytest.approx(min(1, 5 * alone.p_holm))


def test_nothing_to_compare(connection: DuckDBPyConnection) -> None:
    assert compare_pairs(connection, []) == []
    nowhere = Pair("nowhere", "a", ("no cell",), "b", ("none",))
    assert compare_pairs(connection, [nowhere]) == []
