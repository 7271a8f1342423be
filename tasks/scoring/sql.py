"""SQL by execution: the predicted query's rows against the gold query's; tutti's rule, and BIRD's.

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

import re
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from tutti.tasks.scoring.children.sql_rows import ROUNDS, Queries, QueryFailed
from tutti.tasks.scoring.children.workers import WorkerDied, WorkerLate, child_pool
from tutti.tasks.scoring.score import (
    Score,
    Scorer,
    ScorerFailed,
    ScoringResources,
    Submission,
    needed,
    said,
)

TIMEOUT_S = 30.0  # BIRD's own
MAX_WORKERS = 4
_SPARE_S = 5.0  # for what SQLite cannot interrupt, and for comparing the rows
_FENCE = re.compile(r"```[ \t]*+(?:sql|sqlite)?[ \t]*\n(.*?)(?:```|\Z)", re.DOTALL | re.IGNORECASE)
_NOT_CODE = re.compile(
    r"--[^\n]*|/\*.*?\*/|'(?:[^']|'')*'|\"(?:[^\"]|\"\")*\"|`[^`]*`|\[[^\]]*\]", re.S
)


async def measure_rows(measure: str, queries: Queries, rounds: int = 0) -> dict[str, Any]:
    """What the worker measures of the queries, each of which may run `rounds` more times.

    Raises ScorerFailed if the gold query fails, QueryFailed if the other does.
    """
    request, runs = asdict(queries) | {"measure": measure}, 2 + 2 * rounds
    try:
        answer = await child_pool("sql_child", MAX_WORKERS).ask(
            request, runs * queries.seconds + _SPARE_S
        )
    except (WorkerLate, WorkerDied) as error:  # the gold query is the benchmark's, and runs first
        raise QueryFailed(f"stopped: {error}") from error
    if "gold failed" in answer:
        raise ScorerFailed(f"sql: the gold query failed: {answer['gold failed']}")
    if "error" in answer:
        raise ScorerFailed(f"sql: {answer['error']}")
    if "failed" in answer:
        raise QueryFailed(answer["failed"])
    return answer


def is_ordered(query: str) -> bool:
    """Whether the outermost part of the query has ORDER BY."""
    plain, depth, outer = _NOT_CODE.sub(" ", query), 0, []
    for character in plain:
        depth += {"(": 1, ")": -1}.get(character, 0)
        outer.append(character if depth == 0 else " ")
    return re.search(r"\border\s+by\b", "".join(outer), re.IGNORECASE) is not None


def query_in(submission: Submission) -> str:
    """The query of an attempt."""
    text = submission.answer or said(submission)
    fenced = _FENCE.findall(text)
    return str(fenced[-1] if fenced else text).strip()


class Sql(Scorer):
    """Compares the query's rows with those of the gold query."""

    name = "sql"

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


class BirdMeasure(Scorer):
    """BIRD's published measures of a query: EX, soft-F1 and R-VES.

    Target: ``{"sql": gold query, "database": path of a SQLite file}``. Both queries run for at most
    30 s; rows are tuples of values in the order of the columns. A predicted query that fails scores
    0; if the gold query fails, ScorerFailed is raised. `children.sql_rows` has the measures.
    """

    def __init__(self, name: str, timeout_s: float = TIMEOUT_S) -> None:
        """`name`: ``bird_ex``, ``bird_soft_f1`` or ``bird_r_ves``; `timeout_s`: of each query."""
        self.name = name
        self.timeout_s = timeout_s

    async def score(
        self, target: Mapping[str, Any], submission: Submission, resources: ScoringResources
    ) -> Score:
        """The measure; correct by EX whatever is measured. Raises ScorerFailed."""
        gold, database = needed(target, "sql", str), needed(target, "database", str)
        if not Path(database).is_file():
            raise ScorerFailed(f"bird: no database {database}")
        queries = Queries(gold, query_in(submission), database, self.timeout_s)
        rounds = ROUNDS if self.name == "bird_r_ves" else 0
        try:
            detail = await measure_rows(self.name, queries, rounds)
        except QueryFailed as error:
            detail = {"value": 0.0, "ex": False, "error": str(error)}
        value = detail.pop("value")
        return Score(self.name, self.version, value, detail["ex"], queries.given, detail)
