"""Measures of the rows of two SQL queries, which the worker computes: tutti's and BIRD's.

The file is opened read-only, and an authorizer permits reading only. ``bird_ex``: right if the sets
of rows are equal. ``bird_soft_f1``: rows without duplicates are paired by position; of a pair,
values that both have, that only the prediction has, and that only the gold has, each over the
number of the gold's columns, are summed; F1 = 2PR / (P + R) of these sums. ``bird_r_ves``: 0 if EX
is wrong. Else by the ratio of the gold query's time to the predicted one's, the mean of `ROUNDS`
without those beyond three standard deviations: at least 2: 1.25; at least 1: 1; at least .5: .75;
at least .25: .5; else .25. The value is the root of that reward; the published figure is 100 times
its mean.
"""

import math
import sqlite3
import time
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import dataclass
from itertools import zip_longest
from pathlib import Path
from statistics import fmean, pstdev
from time import perf_counter
from typing import Any

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
ROUNDS = 100
TRIMMED_DEVIATIONS = 3.0
REWARDS = ((2.0, 1.25), (1.0, 1.0), (0.5, 0.75), (0.25, 0.5), (0.0, 0.25))
"""By the least ratio of times, the reward."""

Row = tuple[Any, ...]


class QueryFailed(RuntimeError):
    """The query gave no rows: refused, timed out, too large, or invalid SQL."""


class GoldFailed(RuntimeError):
    """The gold query gave no rows."""


@dataclass(frozen=True)
class Queries:
    """The two queries of an attempt."""

    gold: str
    given: str
    database: str
    seconds: float  # the time limit of each
    how: str = "set"

    def rows(self) -> tuple[list[Row], list[Row]]:
        """Both results, the gold one first. Raises GoldFailed, and QueryFailed for the other."""
        try:
            gold = self.run(self.gold)
        except QueryFailed as error:
            raise GoldFailed(str(error)) from error
        return gold, self.run(self.given)

    def run(self, query: str) -> list[Row]:
        return run_query(Path(self.database), query, self.seconds)


def run_query(database: Path, query: str, timeout_s: float) -> list[Row]:
    """All rows of one read-only statement. Raises QueryFailed."""
    address = f"{database.absolute().as_uri()}?mode=ro"
    try:
        with closing(sqlite3.connect(address, uri=True, check_same_thread=False)) as connection:
            connection.text_factory = lambda value: value.decode("utf-8", "replace")
            connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, MAX_VALUE_BYTES)
            connection.setlimit(sqlite3.SQLITE_LIMIT_LIKE_PATTERN_LENGTH, MAX_PATTERN)
            connection.set_authorizer(
                lambda action, *_: sqlite3.SQLITE_OK if action in _ALLOWED else sqlite3.SQLITE_DENY
            )
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


def compare_rows(queries: Queries) -> dict[str, Any]:
    """Whether both results are the same rows, by "set" (BIRD's EX), "bag" or "order"."""
    gold, given = queries.rows()
    if queries.how == "order":
        same = gold == given
    else:
        same = Counter(gold) == Counter(given) if queries.how == "bag" else set(gold) == set(given)
    return {"value": float(same), "ex": same, "gold_rows": len(gold), "given_rows": len(given)}


def soft_f1_of(queries: Queries) -> dict[str, Any]:
    gold, given = queries.rows()
    counts = {"gold_rows": len(gold), "given_rows": len(given)}
    return {"value": soft_f1(gold, given), "ex": set(gold) == set(given), **counts}


def soft_f1(gold: Sequence[Row], given: Sequence[Row]) -> float:
    """Soft-F1 of two results, 0 to 1."""
    wanted, made = list(dict.fromkeys(gold)), list(dict.fromkeys(given))
    if not wanted and not made:
        return 1.0
    both = only_made = only_wanted = 0.0
    for row, other in zip_longest(wanted, made):
        if other is None:
            only_wanted += 1
        elif row is None:
            only_made += 1
        else:
            both += sum(value in row for value in other) / len(row)
            only_made += sum(value not in row for value in other) / len(row)
            only_wanted += sum(value not in other for value in row) / len(row)
    precision = both / (both + only_made) if both + only_made else 0.0
    recall = both / (both + only_wanted) if both + only_wanted else 0.0
    return 2 * precision * recall / (precision + recall) if precision + recall else 0.0


def r_ves(queries: Queries) -> dict[str, Any]:
    found = compare_rows(queries)
    if not found["ex"]:
        return found
    ratios = [_time(queries, queries.gold) / _time(queries, queries.given) for _ in range(ROUNDS)]
    ratio = trimmed_mean(ratios)
    return found | {"time_ratio": ratio, "value": math.sqrt(reward_of(ratio))}


def _time(queries: Queries, query: str) -> float:
    start = perf_counter()
    queries.run(query)
    return perf_counter() - start


def trimmed_mean(values: Sequence[float]) -> float:
    """The mean without values three standard deviations or more from the mean of all."""
    mean, spread = fmean(values), pstdev(values)
    near = [value for value in values if abs(value - mean) < TRIMMED_DEVIATIONS * spread]
    return fmean(near) if near else mean


def reward_of(ratio: float) -> float:
    return next(reward for least, reward in REWARDS if ratio >= least)


MEASURES: dict[str, Callable[[Queries], dict[str, Any]]] = {
    "sql": compare_rows,
    "bird_ex": compare_rows,
    "bird_soft_f1": soft_f1_of,
    "bird_r_ves": r_ves,
}
