"""Tests of pass_at_k, pass_hat_k and majority_at_k against the Python metrics, and of counted
trials."""

# Hypothesis keeps a test that it ran; a type in its annotations is what nanobind calls leaked.
from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import duckdb
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.storage.sql.tables import connect, refill
from tutti.storage import COUNTED
from tutti.tasks.scoring.metrics import avg_at_n, best_of_k, majority_at_k, pass_at_k, pass_hat_k

MACROS = ("pass_at_k", "pass_hat_k", "majority_at_k", "best_of_k")
TOLERANCE = 1e-9


class Trial(NamedTuple):
    """One attempt: the status, the verdict (None for no score) and the answer."""

    status: str
    correct: bool | None
    answer: str | None


Tasks = Sequence[Sequence[Trial]]


@pytest.fixture(scope="module")
def connection() -> Iterator[duckdb.DuckDBPyConnection]:
    """Yield empty tables and the macros."""
    with connect() as connection:
        yield connection


def fill(connection: duckdb.DuckDBPyConnection, cells: dict[str, Tasks]) -> None:
    """Replace the cells of the sweep `sweep:1`, named demo, in this order."""
    for table in ("sweeps", "cells", "scores", "artifacts"):
        connection.execute(f"delete from {table}")
    enter_sweep(connection, "sweep:1", 1)
    rows = [
        (cell, f"t{task}", f"{cell}-t{task}-{nth}", f"{cell}-t{task}-{nth}-1", 1, *trial)
        for cell, tasks in cells.items()
        for task, trials in enumerate(tasks)
        for nth, trial in enumerate(trials)
    ]
    for position, cell in enumerate(cells):
        enter_cell(connection, cell, "sweep:1", position)
    names = ("cell_id", "task_id", "sample_id", "attempt_id", "attempt", "status", "correct")
    columns = list(zip(*rows, strict=True)) if rows else [()] * 8
    kinds = {"attempt": pa.int64(), "correct": pa.bool_()}
    given = {
        name: pa.array(column, kinds.get(name, pa.string()))
        for name, column in zip((*names, "answer"), columns, strict=True)
    }
    refill(connection, "attempts", given)


def enter_sweep(connection: duckdb.DuckDBPyConnection, sweep_id: str, day: int) -> None:
    """Add a sweep named demo, created on that day."""
    connection.execute(
        "insert into sweeps by name select $id as sweep_id, 'demo' as name, "
        "make_timestamptz(2026, 1, $day, 0, 0, 0, 'UTC') as created_at",
        {"id": sweep_id, "day": day},
    )


def enter_cell(
    connection: duckdb.DuckDBPyConnection,
    cell_id: str,
    sweep_id: str,
    position: int = 0,
    status: str = "finished",
) -> None:
    """Add a cell of the sweep."""
    connection.execute(
        "insert into cells by name select $cell as cell_id, $sweep as sweep_id, 'b' as benchmark, "
        "'m' as model, 'cap' as policy, 4 as concurrency, 0 as repeat, $position as position, "
        "$status as status",
        {"cell": cell_id, "sweep": sweep_id, "position": position, "status": status},
    )


def ask(connection: duckdb.DuckDBPyConnection, macro: str, k: int) -> list[dict[str, Any]]:
    """Return the macro's rows for sweep:1."""
    cursor = connection.execute(f"from {macro}('sweep:1', $k)", {"k": k})
    names = [column[0] for column in cursor.description or []]
    return [dict(zip(names, row, strict=True)) for row in cursor.fetchall()]


def counted(tasks: Tasks, k: int) -> list[list[tuple[str | None, float]]]:
    """Return (answer, score) of the counted trials of tasks that have `k` of them."""
    groups = [
        [(each.answer, float(bool(each.correct))) for each in trials if each.status in COUNTED]
        for trials in tasks
    ]
    return [group for group in groups if len(group) >= k]


def expected(macro: str, tasks: Tasks, k: int) -> float | None:
    """Return the Python metric, or None if no task has `k` counted trials."""
    groups = counted(tasks, k)
    if not groups:
        return None
    if macro == "majority_at_k":
        return majority_at_k(groups, k).value
    scores = [[score for _, score in group] for group in groups]
    metrics = {"pass_at_k": pass_at_k, "pass_hat_k": pass_hat_k, "best_of_k": best_of_k}
    return metrics[macro](scores, k).value


TRIAL = st.builds(
    Trial,
    st.sampled_from([*COUNTED, "ok", "infra_error", "scorer_error", "cancelled"]),
    st.sampled_from([True, False, None]),
    st.sampled_from(["a", "b", "c", None]),
)
TASKS = st.lists(st.lists(TRIAL, min_size=1, max_size=8), max_size=6)


@pytest.mark.parametrize("macro", MACROS)
@settings(deadline=None, max_examples=settings().max_examples // 2)
@given(cells=st.lists(TASKS, min_size=1, max_size=3), k=st.integers(1, 6))
def test_sql_and_python_agree(
    connection: duckdb.DuckDBPyConnection, macro: str, cells: list[Tasks], k: int
) -> None:
    """Every cell has a row, also if no task has k counted trials."""
    named = {f"cell:{place}": tasks for place, tasks in enumerate(cells)}
    fill(connection, named)
    rows = ask(connection, macro, k)
    assert [row["cell_id"] for row in rows] == list(named)
    for row in rows:
        tasks = named[row["cell_id"]]
        some = [trials for trials in tasks if any(each.status in COUNTED for each in trials)]
        n = len(counted(tasks, k))
        assert (row["n"], row["n_left_out"], row["k"]) == (n, len(some) - n, k)
        value = expected(macro, tasks, k)
        assert row["value"] == (None if value is None else pytest.approx(value, abs=TOLERANCE))


@pytest.mark.parametrize("macro", MACROS)
def test_many_ks_at_once(connection: duckdb.DuckDBPyConnection, macro: str) -> None:
    """Used laterally, each k has the same rows as alone."""
    right, wrong = Trial("ok", True, "a"), Trial("ok", False, "b")
    silent = Trial("limit", None, None)
    fill(
        connection,
        {
            "cell:0": [[right, right, wrong, silent], [wrong, wrong, right, right]],
            "cell:1": [[right] * 4, [wrong, right, right], [silent] * 4],
        },
    )
    together = connection.execute(
        f"select m.* from range(1, 5) t(k), {macro}('demo', t.k) m order by m.k, m.cell_id"
    ).fetchall()
    alone = [tuple(row.values()) for k in range(1, 5) for row in ask(connection, macro, k)]
    assert len(together) == 8
    for one, other in zip(together, alone, strict=True):
        assert one[:-1] == other[:-1] and one[-1] == pytest.approx(other[-1], abs=TOLERANCE)


def test_known_values(connection: duckdb.DuckDBPyConnection) -> None:
    """The task has four trials, two correct with one answer, two wrong with two answers."""
    right = Trial("ok", True, "4")
    fill(connection, {"c": [[right, right, Trial("ok", False, "5"), Trial("limit", None, "6")]]})
    found = {macro: ask(connection, macro, 2)[0]["value"] for macro in MACROS}
    # Of six pairs one is right twice (1), four are a tie of right and wrong (1/2), one has none.
    assert found == {
        "pass_at_k": pytest.approx(5 / 6),
        "pass_hat_k": pytest.approx(1 / 6),
        "majority_at_k": pytest.approx((1 + 4 / 2) / 6),
        "best_of_k": pytest.approx(5 / 6),
    }


def test_the_last_attempt_of_a_sample_counts(connection: duckdb.DuckDBPyConnection) -> None:
    """A retry is no additional trial."""
    fill(connection, {"c": [[Trial("ok", False, "a"), Trial("ok", False, "a")]]})
    connection.execute(
        "insert into attempts select * replace (attempt_id || 'b' as attempt_id, 2 as attempt, "
        "true as correct) from attempts where sample_id = 'c-t0-0'"
    )
    (row,) = ask(connection, "pass_hat_k", 2)
    assert (row["n"], row["value"]) == (1, 0.0)
    assert ask(connection, "pass_at_k", 1)[0]["value"] == 0.5


def test_votes_go_by_what_the_scorer_read(connection: duckdb.DuckDBPyConnection) -> None:
    """The answer of the newest score is the vote; an answer without a score is its own vote."""
    fill(
        connection,
        {"c": [[Trial("ok", True, "so 4"), Trial("ok", True, "it is 4"), Trial("ok", False, "5")]]},
    )
    assert ask(connection, "majority_at_k", 3)[0]["value"] == pytest.approx(2 / 3)
    for nth in (0, 1):
        for answer, second in (("x", 1), ("4", 2)):
            connection.execute(
                "insert into scores by name select 'c' as cell_id, $attempt as attempt_id, "
                "$answer as answer, $nth < 2 as correct, $at::timestamptz as scored_at",
                {
                    "attempt": f"c-t0-{nth}-1",
                    "nth": nth,
                    "answer": f"{answer}{nth}" if answer == "x" else answer,
                    "at": f"2026-01-01 00:00:0{second}+00",
                },
            )
    assert ask(connection, "majority_at_k", 3)[0]["value"] == 1.0


def test_an_answer_that_a_scorer_did_not_find_is_no_vote(
    connection: duckdb.DuckDBPyConnection,
) -> None:
    """Neither the attempt's text nor an older score's answer is used."""
    said = [Trial("ok", True, "4"), Trial("ok", False, "hm"), Trial("ok", False, "hm")]
    fill(connection, {"c": [said]})
    read: list[list[str | None]] = [["4"], [None], ["hm", None]]
    for nth, answers in enumerate(read):
        for second, answer in enumerate(answers):
            connection.execute(
                "insert into scores by name select 'c' as cell_id, $attempt as attempt_id, "
                "$answer as answer, $nth < 1 as correct, $at::timestamptz as scored_at",
                {
                    "attempt": f"c-t0-{nth}-1",
                    "nth": nth,
                    "answer": answer,
                    "at": f"2026-01-01 00:00:0{second}+00",
                },
            )
    assert ask(connection, "majority_at_k", 3)[0]["value"] == 1.0


def test_the_newest_sweep_of_a_name_is_meant(connection: duckdb.DuckDBPyConnection) -> None:
    """Superseded cells are excluded everywhere."""
    fill(connection, {"old": [[Trial("ok", True, "a")]]})
    enter_sweep(connection, "sweep:2", 2)
    for cell, status in (("new", "finished"), ("gone", "superseded")):
        enter_cell(connection, cell, "sweep:2", status=status)
    found = connection.execute("select cell_id, n, value from pass_at_k('demo', 1)").fetchall()
    assert found == [("new", 0, None)]


@pytest.mark.parametrize("macro", MACROS)
def test_k_is_at_least_one(connection: duckdb.DuckDBPyConnection, macro: str) -> None:
    fill(connection, {"c": [[Trial("ok", True, "a")]]})
    with pytest.raises(duckdb.Error, match=f"{macro}: k is at least 1"):
        ask(connection, macro, 0)


def test_many_trials(connection: duckdb.DuckDBPyConnection) -> None:
    """With 64 trials of a task, binomials lose no displayed digits."""
    trials = [Trial("ok", nth % 8 == 0, str(nth % 8)) for nth in range(64)]
    fill(connection, {"c": [trials]})
    for macro in MACROS:
        (row,) = ask(connection, macro, 32)
        assert row["value"] == pytest.approx(expected(macro, [trials], 32), abs=TOLERANCE)


def declare_mean_score(connection: duckdb.DuckDBPyConnection, cell_id: str) -> None:
    """Declare for the cell's task set that it reports its mean score."""
    connection.execute("update cells set task_set_id = 'set' where cell_id = $1", [cell_id])
    detail = '{"headline": {"measure": "mean score"}}'
    connection.execute(
        "insert into artifacts by name select 'set' as artifact_id, $1 as detail", [detail]
    )


GRADES = st.lists(
    st.lists(st.floats(0, 1, width=32), min_size=1, max_size=7), min_size=1, max_size=4
)


@settings(deadline=None, max_examples=settings().max_examples // 2)
@given(tasks=GRADES, k=st.integers(1, 5))
def test_degrees_in_sql_and_python(
    connection: duckdb.DuckDBPyConnection, tasks: list[list[float]], k: int
) -> None:
    """If a cell reports its mean score, avg@n and best of k use scores, not correctness."""
    fill(connection, {"c": [[Trial("ok", False, None) for _ in trials] for trials in tasks]})
    declare_mean_score(connection, "c")
    for task, trials in enumerate(tasks):
        for nth, score in enumerate(trials):
            sql = "update attempts set score = ? where sample_id = ?"
            connection.execute(sql, [score, f"c-t{task}-{nth}"])
    (mean,) = connection.execute("from avg_at_n('demo')").fetchall()
    assert mean[-1] == pytest.approx(avg_at_n(tasks).value, abs=TOLERANCE)
    assert mean[-3:-1] == (len(tasks), max(map(len, tasks)))
    (row,) = ask(connection, "best_of_k", k)
    enough = [trials for trials in tasks if len(trials) >= k]
    best = best_of_k(enough, k).value if enough else None
    assert row["value"] == (None if best is None else pytest.approx(best, abs=TOLERANCE))
    assert row["n_left_out"] == len(tasks) - len(enough)
