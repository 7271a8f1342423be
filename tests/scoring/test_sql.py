"""Tests of SQL by execution: comparison of rows, and that a query can only read, within its
time."""

import resource
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from tutti.tasks.scoring import Score, ScorerFailed, ScoringResources, Submission
from tutti.tasks.scoring.children import sql_rows
from tutti.tasks.scoring.children.sql_rows import QueryFailed, run_query
from tutti.tasks.scoring.rules.sql import Sql, is_ordered

ENDLESS = "WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n) SELECT count(*) FROM n"


@pytest.fixture
def database(tmp_path: Path) -> Path:
    path = tmp_path / "a b?.sqlite"
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("CREATE TABLE t (a INTEGER, b TEXT)")
        rows = [(1, "x"), (2, "y"), (2, "y"), (3, "z")]
        connection.executemany("INSERT INTO t VALUES (?, ?)", rows)
        connection.commit()
    return path


async def scored(database: Path, gold: str, query: str, **more: Any) -> Score:
    target = {"sql": gold, "database": str(database), **more}
    return await Sql(timeout_s=1.0).score(target, Submission(query), ScoringResources())


@pytest.mark.parametrize(
    ("gold", "query", "rows", "correct"),
    [
        ("SELECT a FROM t", "SELECT DISTINCT a FROM t", None, True),
        ("SELECT a FROM t", "SELECT DISTINCT a FROM t", "bag", False),
        ("SELECT a FROM t", "SELECT a FROM t ORDER BY a DESC", "bag", True),
        ("SELECT a FROM t ORDER BY a", "SELECT a FROM t ORDER BY a DESC", None, False),
        ("SELECT a FROM t ORDER BY a", "SELECT a FROM t ORDER BY a DESC", "set", True),
        ("SELECT a FROM t", "SELECT b FROM t", None, False),
        ("SELECT a, b FROM t", "SELECT b, a FROM t", None, False),
        ("SELECT a FROM t", "So:\n```sql\nSELECT a\nFROM t;\n```\n", None, True),
        ("SELECT a FROM t", "SELECT 1.0 UNION SELECT 2 UNION SELECT 3", None, True),
    ],
)
async def test_rows(database: Path, gold: str, query: str, rows: str | None, correct: bool) -> None:
    assert (await scored(database, gold, query, rows=rows)).correct is correct


@pytest.mark.parametrize(
    "query",
    [
        "DROP TABLE t",
        "DELETE FROM t",
        "ATTACH 'other.db' AS o",
        "PRAGMA writable_schema = 1",
        "SELECT 1; SELECT 2",
        "SELECT * FROM nothing",
        "I do not know",
        "",
        "SELECT load_extension('x')",
        "SELECT zeroblob(1000000000)",
    ],
)
async def test_what_is_refused_is_wrong(database: Path, query: str) -> None:
    before = database.read_bytes()
    assert not (await scored(database, "SELECT a FROM t", query)).correct
    assert database.read_bytes() == before
    assert [path.name for path in database.parent.iterdir()] == [database.name]


async def test_a_late_query_is_stopped(database: Path) -> None:
    score = await scored(database, "SELECT a FROM t", ENDLESS)
    assert not score.correct and "interrupted" in score.detail["error"]


@pytest.mark.parametrize("limit", ["MAX_ROWS", "MAX_BYTES"])
def test_a_large_result_is_stopped(
    database: Path, limit: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sql_rows, limit, 5)
    with pytest.raises(QueryFailed, match="more than"):
        run_query(database, "SELECT hex(zeroblob(4)) FROM t, t", 1.0)


@pytest.mark.slow
async def test_a_query_cannot_take_all_memory(database: Path) -> None:
    """A row of 32 GB would end the scoring process, and nothing would be scored."""
    query = f"SELECT {', '.join(['zeroblob(16000000)'] * 2000)}"
    score = await scored(database, "SELECT a FROM t", query)
    assert not score.correct and "error" in score.detail
    assert (await scored(database, "SELECT a FROM t", "SELECT a FROM t")).correct
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss < 2**20  # KiB


async def test_a_gold_query_that_fails_is_an_error(database: Path) -> None:
    for gold in (ENDLESS, "SELECT * FROM nothing"):
        with pytest.raises(ScorerFailed, match="gold"):
            await scored(database, gold, "SELECT 1")
    with pytest.raises(ScorerFailed, match="no database"):
        await scored(database.with_name("other"), "SELECT 1", "SELECT 1")
    with pytest.raises(ScorerFailed, match="rows"):
        await scored(database, "SELECT 1", "SELECT 1", rows="list")


@pytest.mark.parametrize(
    ("query", "ordered"),
    [
        ("SELECT a FROM t order  by a", True),
        ("SELECT a FROM (SELECT a FROM t ORDER BY b)", False),
        ("SELECT rank() OVER (ORDER BY a) FROM t", False),
        ("SELECT 'order by' FROM t -- order by", False),
    ],
)
def test_is_ordered(query: str, ordered: bool) -> None:
    assert is_ordered(query) is ordered
