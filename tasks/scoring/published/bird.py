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

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import fmean, pstdev
from time import perf_counter
from typing import Any

from tutti.tasks.scoring.score import Needs, Score, ScorerFailed, ScoringResources, Submission
from tutti.tasks.scoring.sql import TIMEOUT_S, Queries, QueryFailed, Row, measure_rows, query_in
from tutti.tasks.scoring.target import needed

ROUNDS = 100
TRIMMED_DEVIATIONS = 3.0
REWARDS = ((2.0, 1.25), (1.0, 1.0), (0.5, 0.75), (0.25, 0.5), (0.0, 0.25))
"""By the least ratio of times, the reward."""


def time_ratio(queries: Queries) -> float:
    """The trimmed mean of the gold query's time over the other's. Raises QueryFailed."""
    ratios = [_time(queries, queries.gold) / _time(queries, queries.given) for _ in range(ROUNDS)]
    return trimmed_mean(ratios)


def _time(queries: Queries, query: str) -> float:
    start = perf_counter()
    queries.run(query)
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


def ex(queries: Queries) -> dict[str, Any]:
    """EX, in the worker."""
    return _ex_of(*queries.rows())


def _ex_of(gold: list[Row], given: list[Row]) -> dict[str, Any]:
    right = set(gold) == set(given)
    return {"value": float(right), "ex": right, "gold_rows": len(gold), "given_rows": len(given)}


def soft_f1_of(queries: Queries) -> dict[str, Any]:
    """Soft-F1, in the worker."""
    gold, given = queries.rows()
    return _ex_of(gold, given) | {"value": soft_f1(gold, given)}


def r_ves(queries: Queries) -> dict[str, Any]:
    """The root of the reward, in the worker."""
    found = ex(queries)
    if not found["ex"]:
        return found
    ratio = time_ratio(queries)
    return found | {"time_ratio": ratio, "value": math.sqrt(reward_of(ratio))}


MEASURES = {"bird_ex": ex, "bird_soft_f1": soft_f1_of, "bird_r_ves": r_ves}


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
