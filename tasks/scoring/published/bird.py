"""BIRD's published measures of a query: EX, soft-F1 and R-VES.

Target: ``{"sql": gold query, "database": path of a SQLite file}``. Both queries run for at most
30 s; rows are tuples of values in the order of the columns. A predicted query that fails scores 0;
if the gold query fails, ScorerFailed is raised. Queries run as in `tutti.tasks.scoring.sql`: on a
file that is opened read-only.

- ``bird_ex``: right if the sets of rows are equal: order and duplicates do not matter, the order of
  columns does.
- ``bird_soft_f1``: each result without duplicates, in its order; rows are paired by position. Of a
  pair, values that both have, that only the prediction has, and that only the gold has, each
  over the number of the gold's columns, are summed; F1 = 2PR / (P + R) of these sums. Two empty
  results: 1.
- ``bird_r_ves``: 0 if EX is wrong. Else by the ratio of the gold query's time to the predicted
  one's: the mean of `ROUNDS` ratios, without those beyond three standard deviations. At least 2:
  1.25; at least 1: 1; at least .5: .75; at least .25: .5; else .25. The value is the square root
  of that reward, up to 1.118; the published figure is 100 times its mean. Times are those of the
  machine that scores.
"""

import asyncio
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import fmean, pstdev
from time import perf_counter
from typing import Any

from tutti.tasks.scoring.score import Needs, Score, ScorerFailed, ScoringResources, Submission
from tutti.tasks.scoring.sql import TIMEOUT_S, QueryFailed, Row, query_in, run_query
from tutti.tasks.scoring.target import needed

ROUNDS = 100
TRIMMED_DEVIATIONS = 3.0
REWARDS = ((2.0, 1.25), (1.0, 1.0), (0.5, 0.75), (0.25, 0.5), (0.0, 0.25))
"""By the least ratio of times, the reward."""


class Queries:
    """The two queries of an attempt."""

    def __init__(self, target: Mapping[str, Any], submission: Submission, timeout_s: float) -> None:
        """Raises ScorerFailed for a target without query or database."""
        self.gold, self.given = needed(target, "sql", str), query_in(submission)
        self.database = Path(needed(target, "database", str))
        self.timeout_s = timeout_s
        if not self.database.is_file():
            raise ScorerFailed(f"bird: no database {self.database}")

    def rows(self) -> tuple[list[Row], list[Row]]:
        """Both results, the gold one first. Raises ScorerFailed, and QueryFailed for the other."""
        try:
            gold = run_query(self.database, self.gold, self.timeout_s)
        except QueryFailed as error:
            raise ScorerFailed(f"bird: the gold query failed: {error}") from error
        return gold, run_query(self.database, self.given, self.timeout_s)

    def ratio(self) -> float:
        """The trimmed mean of the gold query's time over the other's. Raises QueryFailed."""
        ratios = [self._time(self.gold) / self._time(self.given) for _ in range(ROUNDS)]
        return trimmed_mean(ratios)

    def _time(self, query: str) -> float:
        start = perf_counter()
        run_query(self.database, query, self.timeout_s)
        return perf_counter() - start


def trimmed_mean(values: Sequence[float]) -> float:
    """The mean without values three standard deviations or more from the mean of all."""
    mean, spread = fmean(values), pstdev(values)
    near = [value for value in values if abs(value - mean) < TRIMMED_DEVIATIONS * spread]
    return fmean(near) if near else mean


def soft_f1(gold: Sequence[Row], given: Sequence[Row]) -> float:
    """Soft-F1 of two results, 0 to 1."""
    wanted, made = list(dict.fromkeys(gold)), list(dict.fromkeys(given))
    if not wanted and not made:
        return 1.0
    both = only_made = only_wanted = 0.0
    for place in range(max(len(wanted), len(made))):
        if place >= len(made):
            only_wanted += 1
        elif place >= len(wanted):
            only_made += 1
        else:
            row, other = wanted[place], made[place]
            both += sum(value in row for value in other) / len(row)
            only_made += sum(value not in row for value in other) / len(row)
            only_wanted += sum(value not in other for value in row) / len(row)
    precision = both / (both + only_made) if both + only_made else 0.0
    recall = both / (both + only_wanted) if both + only_wanted else 0.0
    return 2 * precision * recall / (precision + recall) if precision + recall else 0.0


def reward_of(ratio: float) -> float:
    """The reward of a right query, by the ratio of times."""
    return next(reward for least, reward in REWARDS if ratio >= least)


class BirdMeasure:
    """One of BIRD's measures."""

    needs: Needs = "pure"
    version: str = "1"

    def __init__(self, name: str, timeout_s: float = TIMEOUT_S) -> None:
        """`name`: ``bird_ex``, ``bird_soft_f1`` or ``bird_r_ves``; `timeout_s`: of each query."""
        self.name = name
        self.timeout_s = timeout_s

    async def score(
        self, target: Mapping[str, Any], submission: Submission, resources: ScoringResources
    ) -> Score:
        """The measure; correct by EX whatever is measured. Raises ScorerFailed."""
        queries = Queries(target, submission, self.timeout_s)
        try:
            value, detail = await asyncio.to_thread(self._measure, queries)
        except QueryFailed as error:
            value, detail = 0.0, {"ex": False, "error": str(error)}
        return Score(self.name, self.version, value, detail["ex"], queries.given, detail)

    def _measure(self, queries: Queries) -> tuple[float, dict[str, Any]]:
        gold, given = queries.rows()
        right = set(gold) == set(given)
        detail: dict[str, Any] = {"ex": right, "gold_rows": len(gold), "given_rows": len(given)}
        if self.name == "bird_soft_f1":
            return soft_f1(gold, given), detail
        if self.name == "bird_ex" or not right:
            return float(right), detail
        detail["time_ratio"] = ratio = queries.ratio()
        return math.sqrt(reward_of(ratio)), detail
