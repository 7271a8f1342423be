"""SQL by execution: the predicted query's rows against the gold query's; tutti's rule, and BIRD's.

Rows are tuples of values in the order of the columns. The predicted query is the last fenced
``sql`` block of the answer (or message), else all of it. A query that times out, needs too much, is
refused or is invalid SQL is wrong; a gold query that fails raises ScorerFailed.
"""

import re
from dataclasses import asdict
from pathlib import Path
from typing import Any

from tutti.tasks.scoring.children.sql_rows import ROUNDS, Queries, QueryFailed
from tutti.tasks.scoring.children.workers import WorkerDied, WorkerLate, child_pool
from tutti.tasks.scoring.rules.score import (
    Score,
    Scorer,
    ScorerFailed,
    ScoringResources,
    Submission,
    Target,
    needed,
)

TIMEOUT_S = 30.0  # BIRD's own
MAX_WORKERS = 4
_SPARE_S = 5.0  # for what SQLite cannot interrupt, and for comparing the rows
_FENCE = re.compile(r"```[ \t]*+(?:sql|sqlite)?[ \t]*\n(.*?)(?:```|\Z)", re.DOTALL | re.IGNORECASE)
_NOT_CODE = re.compile(
    r"--[^\n]*|/\*.*?\*/|'(?:[^']|'')*'|\"(?:[^\"]|\"\")*\"|`[^`]*`|\[[^\]]*\]", re.S
)


async def _measure(measure: str, queries: Queries) -> dict[str, Any]:
    runs = 2 + 2 * (ROUNDS if measure == "bird_r_ves" else 0)
    request = asdict(queries) | {"measure": measure}
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
    plain, depth, outer = _NOT_CODE.sub(" ", query), 0, []
    for character in plain:
        depth += {"(": 1, ")": -1}.get(character, 0)
        outer.append(character if depth == 0 else " ")
    return re.search(r"\border\s+by\b", "".join(outer), re.IGNORECASE) is not None


def query_in(submission: Submission) -> str:
    text = submission.answer or submission.final_text
    fenced = _FENCE.findall(text)
    return str(fenced[-1] if fenced else text).strip()


class BirdMeasure(Scorer):
    """BIRD's published measures of a query: EX, soft-F1 and R-VES (`children.sql_rows`).

    Target: ``{"sql": gold query, "database": path of a SQLite file}``. A query that fails scores 0.
    """

    def __init__(self, name: str, timeout_s: float = TIMEOUT_S) -> None:
        """`name`: ``bird_ex``, ``bird_soft_f1`` or ``bird_r_ves``; `timeout_s`: of each query."""
        self.name = name
        self.timeout_s = timeout_s

    async def score(
        self, target: Target, submission: Submission, resources: ScoringResources
    ) -> Score:
        query, detail = await self.measured(target, submission)
        return self.result(detail["ex"], detail.pop("value"), answer=query, detail=detail)

    async def measured(
        self, target: Target, submission: Submission, how: str = "set"
    ) -> tuple[str, dict[str, Any]]:
        """Return the predicted query, and the worker's measurements of it. Raises ScorerFailed."""
        gold, database = needed(target, "sql", str), needed(target, "database", str)
        if not Path(database).is_file():
            raise ScorerFailed(f"{self.name}: no database {database}")
        query = query_in(submission)
        try:
            queries = Queries(gold, query, database, self.timeout_s, how)
            return query, await _measure(self.name, queries)
        except QueryFailed as error:
            return query, {"value": 0.0, "ex": False, "error": str(error)}


class Sql(BirdMeasure):
    """Compares the query's rows with those of the gold query, by the target's ``rows``: ``set``
    (the default): the same rows; ``order`` (where the gold query's outermost part has ORDER BY):
    the same rows in the same order, though rows that tie have no defined one; ``bag``: equally
    often."""

    def __init__(self, timeout_s: float = TIMEOUT_S) -> None:
        super().__init__("sql", timeout_s)

    async def score(
        self, target: Target, submission: Submission, resources: ScoringResources
    ) -> Score:
        how = target.get("rows") or ("order" if is_ordered(needed(target, "sql", str)) else "set")
        if how not in ("set", "bag", "order"):
            raise ScorerFailed(f"sql: rows is {how!r}, not 'set', 'bag' or 'order'")
        query, detail = await self.measured(target, submission, how)
        correct, value = detail.pop("ex"), detail.pop("value")
        return self.result(correct, value, answer=query, detail={"rows": how, **detail})
