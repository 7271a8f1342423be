"""SQL by execution: the predicted query's rows against the gold query's; tutti's own rule.

BIRD's published measures are in `tutti.tasks.scoring.published.bird`.

Target: ``{"sql": gold query, "database": path of a SQLite file, "rows": "set"}``. Rows are tuples
of values in the order of the columns; names of columns are ignored. How rows are compared:

- ``set``: the same rows, ignoring duplicates and order; the default;
- ``order``: the same rows in the same order, duplicates counted; the default where the gold query's
  outermost part has ORDER BY. Rows that tie in it have no defined order, so a right query may be
  scored wrong;
- ``bag``: the same rows equally often, ignoring order.

The file is opened read-only, and an authorizer permits reading only. Queries run in a process with
limits of memory and file size (`sql_child`). A query that times out, needs too much, is refused or
is invalid SQL is wrong; if the gold query fails or the file is missing, ScorerFailed is raised.

The predicted query is the last fenced ``sql`` block of the answer (or message), else all of it.
"""

import os
import re
import sqlite3
import sys
import time
from collections import Counter
from collections.abc import Mapping
from contextlib import closing
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path
from typing import Any

from tutti.tasks.scoring.children.workers import WorkerDied, WorkerLate, WorkerPool
from tutti.tasks.scoring.score import Needs, Score, ScorerFailed, ScoringResources, Submission
from tutti.tasks.scoring.target import needed, said

TIMEOUT_S = 30.0  # BIRD's own
MAX_WORKERS = 4
_SPARE_S = 5.0  # for what SQLite cannot interrupt, and for comparing the rows
MAX_ROWS = 1_000_000
MAX_VALUE_BYTES = 16 * 2**20
MAX_BYTES = 256 * 2**20  # of all texts and blobs of one result, which is held in memory
# limit of LIKE and GLOB patterns, whose time is quadratic and cannot be interrupted
MAX_PATTERN = 1000
_CHECK_EVERY = 10_000  # SQLite instructions between two checks of the clock: about a millisecond
_ALLOWED = {
    sqlite3.SQLITE_SELECT,
    sqlite3.SQLITE_READ,
    sqlite3.SQLITE_FUNCTION,
    sqlite3.SQLITE_RECURSIVE,
}
_FENCE = re.compile(r"```[ \t]*+(?:sql|sqlite)?[ \t]*\n(.*?)(?:```|\Z)", re.DOTALL | re.IGNORECASE)
_NOT_CODE = re.compile(
    r"--[^\n]*|/\*.*?\*/|'(?:[^']|'')*'|\"(?:[^\"]|\"\")*\"|`[^`]*`|\[[^\]]*\]", re.S
)

Row = tuple[Any, ...]


class QueryFailed(RuntimeError):
    """The query gave no rows to compare: refused, timed out, too large, or invalid SQL."""


class GoldFailed(RuntimeError):
    """The gold query gave no rows."""


@dataclass(frozen=True)
class Queries:
    """The two queries of an attempt."""

    gold: str
    given: str
    database: str
    seconds: float
    """The time limit of each."""
    how: str = "set"

    def rows(self) -> tuple[list[Row], list[Row]]:
        """Both results, the gold one first. Raises GoldFailed, and QueryFailed for the other."""
        try:
            gold = self.run(self.gold)
        except QueryFailed as error:
            raise GoldFailed(str(error)) from error
        return gold, self.run(self.given)

    def run(self, query: str) -> list[Row]:
        """All rows of a query. Raises QueryFailed."""
        return run_query(Path(self.database), query, self.seconds)


async def measure_rows(measure: str, queries: Queries, rounds: int = 0) -> dict[str, Any]:
    """What the worker measures of the queries, each of which may run `rounds` more times.

    Raises ScorerFailed if the gold query fails, QueryFailed if the other does.
    """
    request, runs = asdict(queries) | {"measure": measure}, 2 + 2 * rounds
    try:
        answer = await _pool_of(os.getpid()).ask(request, runs * queries.seconds + _SPARE_S)
    except (WorkerLate, WorkerDied) as error:  # the gold query is the benchmark's, and runs first
        raise QueryFailed(f"stopped: {error}") from error
    if "gold failed" in answer:
        raise ScorerFailed(f"sql: the gold query failed: {answer['gold failed']}")
    if "error" in answer:
        raise ScorerFailed(f"sql: {answer['error']}")
    if "failed" in answer:
        raise QueryFailed(answer["failed"])
    return answer


@cache
def _pool_of(_process: int) -> WorkerPool:
    size = min(MAX_WORKERS, os.cpu_count() or 1)
    return WorkerPool([sys.executable, "-P", "-m", "tutti.tasks.scoring.children.sql_child"], size)


def run_query(database: Path, query: str, timeout_s: float) -> list[Row]:
    """All rows of one read-only statement. Raises QueryFailed."""
    address = f"{database.absolute().as_uri()}?mode=ro"
    try:
        with closing(sqlite3.connect(address, uri=True, check_same_thread=False)) as connection:
            connection.text_factory = lambda value: value.decode("utf-8", "replace")
            connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, MAX_VALUE_BYTES)
            connection.setlimit(sqlite3.SQLITE_LIMIT_LIKE_PATTERN_LENGTH, MAX_PATTERN)
            connection.set_authorizer(_authorize)
            deadline = time.monotonic() + timeout_s
            connection.set_progress_handler(lambda: time.monotonic() > deadline, _CHECK_EVERY)
            return _fetched(connection.execute(query))
    except (sqlite3.Error, sqlite3.Warning, ValueError, MemoryError) as error:
        raise QueryFailed(f"{type(error).__name__}: {error}") from error


def _fetched(cursor: sqlite3.Cursor) -> list[Row]:
    rows, held_bytes = [], 0
    for row in cursor:
        rows.append(row)
        held_bytes += sum(len(value) for value in row if isinstance(value, str | bytes))
        if len(rows) > MAX_ROWS or held_bytes > MAX_BYTES:
            raise QueryFailed(f"more than {MAX_ROWS} rows or {MAX_BYTES} bytes")
    return rows


def _authorize(action: int, *_: str | None) -> int:
    return sqlite3.SQLITE_OK if action in _ALLOWED else sqlite3.SQLITE_DENY


def is_ordered(query: str) -> bool:
    """Whether the outermost part of the query has ORDER BY."""
    plain, depth, outer = _NOT_CODE.sub(" ", query), 0, []
    for character in plain:
        depth += {"(": 1, ")": -1}.get(character, 0)
        outer.append(character if depth == 0 else " ")
    return re.search(r"\border\s+by\b", "".join(outer), re.IGNORECASE) is not None


def compare_rows(queries: Queries) -> dict[str, Any]:
    """Whether both results are the same rows, by "set", "bag" or "order"; in the worker."""
    gold, given = queries.rows()
    if queries.how == "order":
        same = gold == given
    else:
        same = Counter(gold) == Counter(given) if queries.how == "bag" else set(gold) == set(given)
    return {"same": same, "gold_rows": len(gold), "given_rows": len(given)}


def query_in(submission: Submission) -> str:
    """The query of an attempt."""
    text = submission.answer or said(submission)
    fenced = _FENCE.findall(text)
    return str(fenced[-1] if fenced else text).strip()


class Sql:
    """Compares the query's rows with those of the gold query."""

    name: str = "sql"
    version: str = "1"
    needs: Needs = "pure"

    def __init__(self, timeout_s: float = TIMEOUT_S) -> None:
        """`timeout_s`: time limit of each of the two queries."""
        self.timeout_s = timeout_s

    async def score(
        self, target: Mapping[str, Any], submission: Submission, resources: ScoringResources
    ) -> Score:
        """Right if the rows agree.

        Raises ScorerFailed if the database is missing or the gold query fails.
        """
        gold_query, database = needed(target, "sql", str), Path(needed(target, "database", str))
        how = target.get("rows") or ("order" if is_ordered(gold_query) else "set")
        if how not in ("set", "bag", "order"):
            raise ScorerFailed(f"sql: rows is {how!r}, not 'set', 'bag' or 'order'")
        if not database.is_file():
            raise ScorerFailed(f"sql: no database {database}")
        query = query_in(submission)
        queries = Queries(gold_query, query, str(database), self.timeout_s, how)
        try:
            found = await measure_rows("rows", queries)
        except QueryFailed as error:
            detail = {"rows": how, "error": str(error)}
            return Score(self.name, self.version, 0.0, False, query, detail)
        correct = found.pop("same")
        return Score(
            self.name, self.version, float(correct), correct, query, {"rows": how, **found}
        )
