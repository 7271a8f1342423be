"""Tests of `bfcl_overall`: V4's weights over the measured categories; the others count 0."""

import duckdb
import pytest

from tests.storage.sql.tables import connect


@pytest.fixture
def connection() -> duckdb.DuckDBPyConnection:
    """Return empty tables and the macros."""
    return connect()


def measure(
    connection: duckdb.DuckDBPyConnection, category: str, correct: int, n: int, day: int = 1
) -> None:
    """Add a sweep of one category with `correct` of `n` correct and one lost attempt."""
    sweep = f"{category}-{day}"
    connection.execute(
        "insert into sweeps (sweep_id, name, created_at) "
        "values (?, ?, make_timestamptz(2026, 1, ?, 0, 0, 0, 'UTC'))",
        [sweep, f"bfcl-{category}", day],
    )
    cell = [sweep, sweep, f"set-{category}", "bfcl", "m", "cap", "finished"]
    connection.execute(
        "insert into cells (cell_id, sweep_id, task_set_id, benchmark, model, policy, status) "
        "values (?, ?, ?, ?, ?, ?, ?)",
        cell,
    )
    for nth in range(n + 1):
        if day == 1:
            slots = f'{{"category": "{category}"}}'
            task = [f"{category}-{nth}", f"set-{category}", slots]
            connection.execute(
                "insert into tasks (task_id, task_set_id, slots) values (?, ?, ?)", task
            )
        status = "ok" if nth < n else "infra_error"
        attempt = [f"{sweep}-{nth}", sweep, f"{category}-{nth}", status, nth < correct]
        connection.execute(
            "insert into attempts (attempt_id, cell_id, task_id, status, correct) "
            "values (?, ?, ?, ?, ?)",
            attempt,
        )


def test_weights_of_v4(connection: duckdb.DuckDBPyConnection) -> None:
    """Non-live is ((.5 + 0 + 0) / 3 + 1 + 0 + 0) / 4, live by size (1 + 3) / 6, irrelevance the
    mean of .5 and 0; multi-turn and agentic were not measured. Only the newest sweep counts."""
    measure(connection, "simple_python", 0, 4)
    measure(connection, "simple_python", 2, 4, day=2)
    measure(connection, "multiple", 3, 3)
    measure(connection, "live_simple", 1, 2)
    measure(connection, "live_multiple", 3, 4)
    measure(connection, "irrelevance", 1, 2)
    asked = "select overall, non_live, live, irrelevance, multi_turn, agentic, n, measured "
    (row,) = connection.execute(f"{asked} from bfcl_overall('bfcl-%')").fetchall()
    non_live, live, irrelevance = (0.5 / 3 + 1) / 4, 4 / 6, 0.25
    assert row[1:6] == pytest.approx((non_live, live, irrelevance, 0, 0))
    assert row[0] == pytest.approx(0.1 * (non_live + live + irrelevance))
    assert row[6] == 4 + 3 + 2 + 4 + 2
    assert row[7] == ["irrelevance", "live_multiple", "live_simple", "multiple", "simple"]
    assert connection.execute("select * from bfcl_overall('other-%')").fetchall() == []


def test_all_categories_right_is_one(connection: duckdb.DuckDBPyConnection) -> None:
    kinds = ("multiple", "parallel", "parallel_multiple")
    every = ["simple_python", "simple_java", "simple_javascript", *kinds, "live_simple"]
    every += [f"live_{kind}" for kind in kinds] + ["irrelevance", "live_irrelevance"]
    every += [f"multi_turn_{kind}" for kind in ("base", "miss_func", "miss_param", "long_context")]
    every += ["web_search_base", "web_search_no_snippet", "memory_kv", "memory_vector"]
    every += ["memory_rec_sum", "live_relevance"]
    for category in every:
        measure(connection, category, 1, 1)
    (row,) = connection.execute("select overall from bfcl_overall('bfcl-%')").fetchall()
    assert row[0] == pytest.approx(1.0)


def test_a_memory_counts_its_questions(connection: duckdb.DuckDBPyConnection) -> None:
    """An attempt is a scenario: 3 of 4 and 1 of 6 questions are 4 of 10, not 0 of 2 attempts. The
    benchmarks of the package count, too; others do not."""
    measure(connection, "memory_kv", 0, 2)
    connection.execute("update cells set benchmark = 'bfcl-memory-kv@1'")
    for nth, (right, questions) in enumerate(((3, 4), (1, 6))):
        detail = f'{{"right": {right}, "questions": {questions}}}'
        connection.execute(
            "insert into scores (attempt_id, scorer, detail) values (?, 'bfcl_memory', ?)",
            [f"memory_kv-1-{nth}", detail],
        )
    asked = "select agentic, n from bfcl_overall('bfcl-%')"
    assert connection.execute(asked).fetchone() == (pytest.approx(0.4 / 6), 10)
    connection.execute("update cells set benchmark = 'gsm8k'")
    assert connection.execute(asked).fetchone() is None
