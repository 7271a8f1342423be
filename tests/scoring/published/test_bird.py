"""Tests of BIRD's measures: rows as a set, rows paired by position, and time relative to the gold
query's."""

import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from tutti.tasks.scoring import SCORERS, Score, ScorerFailed, ScoringResources, Submission
from tutti.tasks.scoring.children.sql_rows import reward_of, soft_f1, trimmed_mean

Rows = list[tuple[Any, ...]]


@pytest.fixture
def database(tmp_path: Path) -> Path:
    path = tmp_path / "t.sqlite"
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("CREATE TABLE t (a INTEGER, b TEXT)")
        connection.executemany("INSERT INTO t VALUES (?, ?)", [(1, "x"), (2, "y"), (2, "y")])
        connection.commit()
    return path


async def scored(name: str, database: Path, gold: str, query: str) -> Score:
    target = {"sql": gold, "database": str(database)}
    return await SCORERS[name].score(target, Submission(query), ScoringResources())


@pytest.mark.parametrize(
    ("query", "right"),
    [
        ("SELECT a FROM t ORDER BY a DESC", True),
        ("SELECT DISTINCT a FROM t", True),
        ("SELECT a, b FROM t", False),
        ("SELECT b FROM t", False),
        ("SELECT nothing FROM t", False),
        ("DROP TABLE t", False),
    ],
)
async def test_ex_ignores_order_and_duplicates(database: Path, query: str, right: bool) -> None:
    score = await scored("bird_ex", database, "SELECT a FROM t ORDER BY a", query)
    assert (score.correct, score.value) == (right, float(right))
    with pytest.raises(ScorerFailed, match="the gold query failed"):
        await scored("bird_ex", database, "SELECT nothing", query)


@pytest.mark.parametrize(
    ("gold", "given", "value"),
    [
        ([], [], 1.0),
        ([(1,)], [], 0.0),
        ([(1, "x")], [(1, "x")], 1.0),
        ([(1, "x")], [("x", 1)], 1.0),  # within a row the order does not matter
        ([(1,), (2,)], [(2,), (1,)], 0.0),  # paired by position
        ([(1,), (1,), (2,)], [(1,), (2,)], 1.0),  # duplicates are dropped
        # 1.5 matched, .5 only predicted, .5 only gold: P = R = 3/4
        ([(1, "x"), (2, "y")], [(1, "x"), (2, "z")], 0.75),
        # the second gold row is missing: P = 1, R = 1/2
        ([(1,), (2,)], [(1,)], 2 / 3),
    ],
)
def test_soft_f1(gold: Rows, given: Rows, value: float) -> None:
    assert soft_f1(gold, given) == pytest.approx(value)


def test_rewards_by_time() -> None:
    ratios = {3.0: 1.25, 2.0: 1.25, 1.0: 1.0, 0.5: 0.75, 0.3: 0.5, 0.1: 0.25}
    assert {ratio: reward_of(ratio) for ratio in ratios} == ratios
    assert trimmed_mean([1.0] * 99 + [1000.0]) == 1.0
    assert trimmed_mean([2.0, 2.0]) == 2.0


async def test_r_ves_of_a_right_and_a_wrong_query(database: Path) -> None:
    """A correct query gets one of the rewards, with the ratio in the detail; a wrong one gets 0
    without a measurement."""
    gold = "SELECT a FROM t"
    right = await scored("bird_r_ves", database, gold, "SELECT a FROM t ORDER BY a")
    assert right.correct and 0.5 <= right.value <= 1.25**0.5 and right.detail["time_ratio"] > 0
    wrong = await scored("bird_r_ves", database, gold, "SELECT b FROM t")
    assert wrong.value == 0.0 and "time_ratio" not in wrong.detail


async def test_soft_f1_is_partial_credit(database: Path) -> None:
    score = await scored("bird_soft_f1", database, "SELECT a, b FROM t", "SELECT a FROM t")
    assert 0 < score.value < 1 and not score.correct
