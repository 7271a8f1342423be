"""Tests of compare(a, b) against `compare_paired` and scipy: interval, p, counted attempts, and
coverage."""

# Hypothesis keeps a test that it ran; a type in its annotations is what nanobind calls leaked.
from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from tests.storage.sql.tables import connect, refill
from tutti import storage
from tutti.tasks.scoring.statistics import compare_paired

Scores = Sequence[float | None]
FIGURES = ("n", "mean_a", "mean_b", "difference", "standard_error", "ci_low", "ci_high", "p")


@pytest.fixture(scope="module")
def connection() -> Iterator[duckdb.DuckDBPyConnection]:
    """Yield empty tables and the macros."""
    with connect() as connection:
        yield connection


Row = tuple[str, str, int, str, float | None, bool | None]
"""Cell, task (`task#trial` where a task has several), attempt, status, score, correct."""


def fill(connection: duckdb.DuckDBPyConnection, rows: Sequence[Row]) -> None:
    """Replace the attempts in the table."""
    cells, tasks, attempts, statuses, scores, corrects = (
        zip(*rows, strict=True) if rows else [()] * 6
    )
    columns = {
        "cell_id": pa.array(cells, pa.string()),
        "task_id": pa.array([task.split("#")[0] for task in tasks], pa.string()),
        "sample_id": pa.array([c + t for c, t in zip(cells, tasks, strict=True)], pa.string()),
        "attempt_id": pa.array([f"attempt{i}" for i in range(len(rows))], pa.string()),
        "attempt": pa.array(attempts, pa.int64()),
        "status": pa.array(statuses, pa.string()),
        "score": pa.array(scores, pa.float64()),
        "correct": pa.array(corrects, pa.bool_()),
    }
    refill(connection, "attempts", columns)


def compared(connection: duckdb.DuckDBPyConnection, rows: Sequence[Row]) -> Any:
    """Return the one row of compare('a', 'b') for these attempts, by column."""
    fill(connection, rows)
    cursor = connection.execute("select * from compare('a', 'b')")
    names = [column[0] for column in cursor.description or []]
    (row,) = cursor.fetchall()
    return dict(zip(names, row, strict=True))


def of_scores(a: Scores, b: Scores) -> list[Row]:
    """Return one attempt per task; None means that the cell has none."""
    pairs = [("a", a), ("b", b)]
    return [
        (cell, f"t{i}", 1, "ok", score, None)
        for cell, scores in pairs
        for i, score in enumerate(scores)
        if score is not None
    ]


def test_a_paired_t_test_as_scipy_has_it(connection: duckdb.DuckDBPyConnection) -> None:
    """For continuous scores, difference, standard error, interval and p agree."""
    random = np.random.default_rng(1)
    a = random.normal(0.5, 0.2, 40)
    b = a + random.normal(0.06, 0.1, 40)
    found = compared(connection, of_scores(list(a), list(b)))
    test = stats.ttest_rel(b, a)
    low, high = test.confidence_interval(0.95)
    assert (found["n"], found["test"]) == (40, "paired t-test")
    expected = [np.mean(a), np.mean(b), np.mean(b - a), stats.sem(b - a), low, high, test.pvalue]
    names = ("mean_a", "mean_b", "difference", "standard_error", "ci_low", "ci_high", "p")
    assert [found[name] for name in names] == pytest.approx(expected, rel=1e-6)


def test_right_or_wrong_is_tested_by_mcnemar(connection: duckdb.DuckDBPyConnection) -> None:
    """With nine tasks gained and one lost of 30, the exact binomial test is used, not the
    t-test."""
    a = [0.0] * 9 + [1.0] + [1.0] * 20
    b = [1.0] * 9 + [0.0] + [1.0] * 20
    found = compared(connection, of_scores(a, b))
    assert found["test"] == "exact McNemar"
    assert found["p"] == pytest.approx(stats.binomtest(1, 10).pvalue, rel=1e-9)


def assert_equal_to_python(
    connection: duckdb.DuckDBPyConnection, pairs: Sequence[tuple[float, float]]
) -> None:
    """Check that every figure of the macro equals that of `compare_paired`."""
    a, b = ([pair[side] for pair in pairs] for side in (0, 1))
    found = compared(connection, of_scores(a, b))
    known = compare_paired([[x] for x in a], [[x] for x in b])
    assert (found["test"] or "") == known.test
    expected = [known.n, known.first, known.second, known.difference, known.se]
    expected += [known.low, known.high, known.p]
    for name, value in zip(FIGURES, expected, strict=True):
        close = None if value is None else pytest.approx(value, rel=1e-6, abs=1e-9)
        assert found[name] == close, name


@settings(deadline=None, max_examples=settings().max_examples * 3 // 5)
@given(st.lists(st.tuples(st.booleans(), st.booleans()), min_size=1, max_size=60))
def test_right_and_wrong_as_in_python(
    connection: duckdb.DuckDBPyConnection, pairs: list[tuple[bool, bool]]
) -> None:
    assert_equal_to_python(connection, [(float(a), float(b)) for a, b in pairs])


THOUSANDTHS = st.integers(0, 1000).map(lambda k: k / 1000)


@settings(deadline=None, max_examples=settings().max_examples * 3 // 5)
@given(st.lists(st.tuples(THOUSANDTHS, THOUSANDTHS), min_size=1, max_size=40))
def test_scores_as_in_python(
    connection: duckdb.DuckDBPyConnection, pairs: list[tuple[float, float]]
) -> None:
    assert_equal_to_python(connection, pairs)


@settings(deadline=None, max_examples=settings().max_examples * 2 // 5)
@given(
    st.lists(st.tuples(st.integers(-9, 9), st.integers(-9, 9)), min_size=1, max_size=9),
    st.integers(0, 40),
    st.sampled_from([1, 1 / 3, 700]),
)
def test_few_that_differ_as_in_python(
    connection: duckdb.DuckDBPyConnection,
    unequal: list[tuple[int, int]],
    equal: int,
    unit: float,
) -> None:
    """The cases are sign flips, the task added in each direction, and scores far outside 0 to 1."""
    pairs = [(a * unit, b * unit) for a, b in unequal] + [(unit / 7, unit / 7)] * equal
    assert_equal_to_python(connection, pairs)


@pytest.mark.parametrize("n", [15, 31, 32, 33, 100, 1000, 10_001])
def test_quantile_and_tails_hold_for_any_degrees_of_freedom(
    connection: duckdb.DuckDBPyConnection, n: int
) -> None:
    """The values agree with t.ppf and t.sf to 1e-6, up to 10,000 degrees of freedom, in the centre
    and far in the tails."""
    for shift in (0.0, 0.3, 3.0, 60.0):
        d = np.random.default_rng(n).normal(0, 1, n)
        d = shift / math.sqrt(n) + (d - d.mean()) / d.std(ddof=1)
        found = compared(connection, of_scores([0.0] * n, [float(x) for x in d]))
        half = stats.t.ppf(0.975, n - 1) * found["standard_error"]
        assert found["ci_high"] - found["difference"] == pytest.approx(half, rel=1e-6)
        t = found["difference"] / found["standard_error"]
        assert found["p"] == pytest.approx(2 * stats.t.sf(abs(t), n - 1), rel=1e-6)


def test_a_p_far_below_one_in_a_million_keeps_its_digits(
    connection: duckdb.DuckDBPyConnection,
) -> None:
    """The tail itself is integrated, so it is no difference of two numbers near 1."""
    d = [1.0 + 0.1 * (-1) ** i for i in range(40)]
    found = compared(connection, of_scores([0.0] * 40, d))
    p = stats.ttest_1samp(d, 0).pvalue
    assert p < 1e-30
    assert found["p"] == pytest.approx(p, rel=1e-6)


@pytest.mark.parametrize("n", [2, 58, 59, 1000])
def test_no_difference_at_all_is_no_proof_of_none(
    connection: duckdb.DuckDBPyConnection, n: int
) -> None:
    """Identical scores have the rule-of-three bound."""
    found = compared(connection, of_scores([1.0] * n, [1.0] * n))
    bound = 1 - 0.05 ** (1 / n)
    interval = (found["ci_low"], found["ci_high"])
    assert interval == pytest.approx((-bound, bound), rel=1e-9)
    assert (found["difference"], found["p"]) == (0, 1)


def test_the_same_gain_on_every_task_has_a_width_too(
    connection: duckdb.DuckDBPyConnection,
) -> None:
    """All differences are 0.1 up to rounding: a t-test is impossible, the sign test is not."""
    a = [0.1 * (i % 9) for i in range(30)]
    found = compared(connection, of_scores(a, [x + 0.1 for x in a]))
    share = 1 - 0.05 ** (1 / 30)
    interval = (found["ci_low"], found["ci_high"])
    assert interval == pytest.approx((0.1 - 1.1 * share, 0.1 + 0.9 * share), rel=1e-9)
    assert (found["test"], found["standard_error"]) == ("sign test", 0)
    assert found["p"] == pytest.approx(2 * 0.5**30, rel=1e-9)
    few = compared(connection, of_scores([0.0] * 3, [1.0] * 3))
    assert few["p"] == pytest.approx(0.25)


def test_too_few_pairs_give_no_interval(connection: duckdb.DuckDBPyConnection) -> None:
    """With no or one paired task, nothing looks like a measured result."""
    none = compared(connection, of_scores([1.0, 0.0, None], [None, None, 1.0]))
    assert (none["n"], none["n_only_a"], none["n_only_b"]) == (0, 2, 1)
    one = compared(connection, of_scores([1.0], [0.0]))
    assert (one["n"], one["difference"]) == (1, -1)
    for found in (none, one, compared(connection, [])):
        assert [found[name] for name in ("ci_low", "ci_high", "p", "test")] == [None] * 4


def test_what_counts_as_a_score(connection: duckdb.DuckDBPyConnection) -> None:
    """The last counted attempt of a sample counts, repeats are averaged, and `score` is used before
    `correct`, else 0."""
    rows: list[Row] = [
        ("a", "t1", 1, "infra_error", 1.0, None),
        ("a", "t1", 2, "ok", 0.25, True),  # the score, not `correct`
        ("a", "t1", 3, "infra_error", 1.0, True),
        ("a", "t2#0", 1, "ok", None, True),
        ("a", "t2#1", 1, "limit", None, False),
        ("a", "t2#2", 1, "model_error", None, None),  # no score is 0
        ("a", "t2#3", 1, "limit", 0.5, None),
        ("a", "t2#4", 1, "cancelled", 1.0, None),
        ("a", "t2#5", 1, "scorer_error", 1.0, None),
        ("a", "t3", 1, "infra_error", None, None),
        ("b", "t1", 1, "ok", 0.75, None),
        ("b", "t1", 2, "ok", math.nan, True),  # no number is no score
        ("b", "t2", 1, "ok", 0.5, None),
        ("b", "t3", 1, "ok", 1.0, None),
        ("other", "t1", 9, "ok", 0.0, None),
    ]
    found = compared(connection, rows)
    assert (found["n"], found["n_only_a"], found["n_only_b"]) == (2, 0, 1)
    assert found["mean_a"] == pytest.approx((0.25 + 1.5 / 4) / 2)
    assert found["mean_b"] == pytest.approx((1 + 0.5) / 2)


def test_repeats_are_one_observation_of_their_task(connection: duckdb.DuckDBPyConnection) -> None:
    """Ten repeats of five tasks are five pairs."""
    random = np.random.default_rng(3)
    scores = {cell: random.random((5, 10)) for cell in "ab"}
    rows: list[Row] = [
        (cell, f"t{task}#{trial}", 1, "ok", float(scores[cell][task, trial]), None)
        for cell in "ab"
        for task in range(5)
        for trial in range(10)
    ]
    found = compared(connection, rows)
    known = compare_paired(scores["a"].tolist(), scores["b"].tolist())
    assert (found["n"], found["p"]) == (5, pytest.approx(known.p, rel=1e-6))


def test_the_interval_covers_as_often_as_it_says(connection: duckdb.DuckDBPyConnection) -> None:
    """In 4,000 seeded comparisons of 30 tasks, the 95 % interval covers the true difference as
    stated, and a difference of 0 is reported as one in at most 6 %."""
    random = np.random.default_rng(7)
    runs, n, truth = 4000, 30, 0.04
    a = random.beta(2, 2, (runs, n))
    b = a + random.normal(truth, 0.15, (runs, n))
    null = a + random.normal(0, 0.15, (runs, n))
    scores = np.concatenate([a, b, null]).ravel()
    number = np.arange(len(scores))
    cells = np.array(["a", "b", "n"])[number // (runs * n)]
    columns = {
        "cell_id": pa.array([f"{c}{i // n % runs}" for c, i in zip(cells, number, strict=True)]),
        "task_id": pa.array([f"t{i % n}" for i in number]),
        "attempt_id": pa.array([f"s{i}" for i in number]),
        "status": pa.array(["ok"] * len(scores)),
        "score": pa.array(scores),
    }
    refill(connection, "attempts", columns)
    covered, alarms = connection.execute(
        "select avg(cast(ci_low <= $truth and ci_high >= $truth as int)), (select avg(cast("
        "(v.ci_low > 0 or v.ci_high < 0) and v.p < 0.05 as int)) from range($runs) r(k), "
        "compare('a' || r.k, 'n' || r.k) v) from range($runs) s(i), "
        "compare('a' || s.i, 'b' || s.i) c",
        {"truth": truth, "runs": runs},
    ).fetchall()[0]
    assert 0.93 < covered < 0.97
    assert alarms < 0.06


def test_compare_over_a_store(catalog: storage.Catalog) -> None:
    """The macro reads the store's own tables."""
    rows = [
        {
            "cell_id": cell,
            "task_id": f"t{i}",
            "sample_id": f"{cell}{i}",
            "attempt_id": f"{cell}-{i}",
        }
        | {"attempt": 1, "status": "ok", "correct": cell == "b" or i < 4}
        for cell in "ab"
        for i in range(20)
    ]
    storage.commit(catalog, {"attempts": rows})
    with storage.connect(catalog.home) as connection:
        cursor = connection.execute("select n, difference, test from compare('a', 'b')")
        assert cursor.fetchall() == [(20, 0.8, "exact McNemar")]
