"""Tests that every score figure agrees over random stores: the report, `results`, `window_summary`,
`avg_at_n`, `pass_at_k`, the macro `compare` and `tutti compare`, against the rule in plain Python.

The stores have retries, several trials, attempts without a score or with a failing scorer, a
gateway's programs without a task or a verdict, re-scores, unknown costs and unknown load.
"""

import math
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from random import Random
from typing import Any

import duckdb
import pyarrow as pa
import pytest

from tests.storage.sql.tables import connect, refill
from tutti.storage import COUNTED
from tutti.storage.write.encode import TABLES
from tutti.tasks.scoring.metrics import pass_at_k
from tutti.tasks.scoring.statistics import compare_paired, mean_interval
from tutti.tasks.sweeps.analysis.compare import Side, compare_sides
from tutti.tasks.sweeps.results import summarise
from tutti.tasks.sweeps.results.tables import rows

STORES, AT_ONCE = 200, 25
START = datetime(2026, 1, 1, tzinfo=UTC)
STATUSES = ("ok", "ok", "ok", "limit", "model_error", "infra_error", "scorer_error", "cancelled")
Row = dict[str, Any]


@dataclass
class Store:
    """Rows of two cells of one sweep; `measure` is declared by their task set."""

    attempts: list[Row]
    scores: list[Row]
    measure: str | None
    is_load_known: bool


def drawn(seed: int) -> Store:
    """Return a random store."""
    random = Random(seed)
    degrees = random.random() < 0.5
    store = Store([], [], random.choice(["accuracy", "mean score", None]), random.random() < 0.8)
    tasks, trials = random.randint(1, 9), random.randint(1, 3)
    for cell in "ab":
        for task in range(tasks):
            for trial in range(trials):
                _draw_sample(store, random, f"{cell}-{task}-{trial}", degrees)
    for row in store.attempts:
        row["started_at"] = START + timedelta(seconds=random.uniform(0, 50))
        row["ended_at"] = row["started_at"] + timedelta(seconds=random.uniform(1, 9))
    return store


def _draw_sample(store: Store, random: Random, name: str, degrees: bool) -> None:
    cell, task, trial = name.split("-")
    is_program = random.random() < 0.15
    for attempt in range(1, random.choice([2, 2, 2, 3, 4])):
        status = random.choice(STATUSES)
        has_verdict = status in COUNTED and random.random() < (0.4 if is_program else 0.85)
        score = random.random() if degrees else float(random.random() < 0.5)
        row: Row = {"sweep_id": "s", "cell_id": cell, "attempt_id": f"{name}-{attempt}"}
        row |= {"attempt": attempt, "trial": int(trial), "status": status, "benchmark": "b"}
        row |= {"source": "gateway" if is_program else "sweep", "working_s": random.uniform(1, 9)}
        row |= {"model": "m", "repeat": 0, "cost_usd": random.choice([0.1, 0.2, 0.3, None])}
        if random.random() < 0.9:
            row |= {"cost_usd": row["cost_usd"] or 0.4}
        if not is_program:
            row |= {"task_id": f"t{task}", "sample_id": name}
        if has_verdict:
            row |= {"score": score, "correct": score >= 1 if random.random() < 0.9 else None}
        store.attempts.append(row)
        _draw_scores(store, random, row, degrees)


def _draw_scores(store: Store, random: Random, row: Row, degrees: bool) -> None:
    """Add the attempt's own score, re-scores of some, and a judge's choices, which are no
    verdict."""
    key = {name: row[name] for name in ("sweep_id", "cell_id", "attempt_id")} | {"scorer": "x"}
    if row.get("correct") is not None:
        own = {"value": row["score"], "correct": row["correct"], "scored_at": START}
        store.scores.append(key | own)
    if random.random() < 0.3:
        value = random.random() if degrees else float(random.random() < 0.5)
        at = START + timedelta(hours=1)
        store.scores.append(key | {"value": value, "correct": value >= 1, "scored_at": at})
    if random.random() < 0.2:
        at = START + timedelta(hours=2)
        store.scores.append(key | {"scorer": "process", "value": 3.0, "scored_at": at})


def verdict(store: Store, row: Row) -> tuple[float | None, bool | None]:
    """Return score and correctness of an attempt by the newest verdict."""
    own = [each for each in store.scores if each["attempt_id"] == row["attempt_id"]]
    judged = [each for each in own if each.get("correct") is not None]
    if judged:
        newest = max(judged, key=lambda each: each["scored_at"])
        return newest["value"], newest["correct"]
    return row.get("score"), row.get("correct")


def expected(store: Store, cell: str) -> dict[str, list[tuple[Row, bool, float]]]:
    """Return the counted attempts by task, each with its correctness and headline score."""
    is_mean = measure_of(store, cell) == "mean score"
    last: dict[str, tuple[Row, bool, float]] = {}
    for row in sorted(store.attempts, key=lambda each: (each["attempt"], each["ended_at"])):
        score, correct = verdict(store, row)
        is_scored = score is not None or correct is not None
        counts = row["status"] in COUNTED or (row["status"] == "scorer_error" and is_scored)
        if row["cell_id"] != cell or not counts or (row["source"] == "gateway" and not is_scored):
            continue
        is_right = correct if correct is not None else score == 1
        degree = float(correct or 0) if score is None else score
        headline = degree if is_mean else float(is_right)
        last[row.get("sample_id") or row["attempt_id"]] = (row, is_right, headline)
    tasks: dict[str, list[tuple[Row, bool, float]]] = {}
    for each in last.values():
        tasks.setdefault(each[0].get("task_id") or each[0]["attempt_id"], []).append(each)
    return tasks


def measure_of(store: Store, cell: str) -> str:
    """Return the measure declared by the cell's task set; without one, it is the mean score if any
    score is fractional."""
    given = [row.get("score") for row in store.attempts if row["cell_id"] == cell]
    given += [
        row["value"]
        for row in store.scores
        if row["cell_id"] == cell and row.get("correct") is not None
    ]
    is_partial = any(value is not None and value not in (0, 1) for value in given)
    return store.measure or ("mean score" if is_partial else "accuracy")


@pytest.fixture(scope="module")
def connection() -> Iterator[duckdb.DuckDBPyConnection]:
    with closing(connect()) as connection:
        connection.execute("set timezone = 'UTC'")
        yield connection


def enter(connection: duckdb.DuckDBPyConnection, store: Store) -> None:
    """Replace the content of the tables by this store."""
    calls = [
        {"sweep_id": "s", "cell_id": row["cell_id"], "attempt_id": row["attempt_id"], "step": 1}
        | {"call_id": row["attempt_id"], "role": "orchestrator", "status": "ok"}
        | {"sent_at": START, "ended_at": row["ended_at"]}
        for row in store.attempts
    ]
    for table, given in (("attempts", store.attempts), ("scores", store.scores), ("calls", calls)):
        made = pa.Table.from_pylist(given, schema=TABLES[table])
        refill(connection, table, {name: made[name] for name in made.column_names})
    for table in ("sweeps", "cells", "artifacts"):
        connection.execute(f"delete from {table}")
    connection.execute("insert into sweeps (sweep_id, name, spec) values ('s', 's', '{}')")
    for position, cell in enumerate("ab"):
        load = ("cap", 2) if store.is_load_known else (None, None)
        connection.execute(
            "insert into cells (cell_id, sweep_id, benchmark, model, policy, concurrency, repeat, "
            "position, status, task_set_id, index_id, samples) "
            "values (?, 's', 'b', 'm', ?, ?, 0, ?, 'finished', 'set', '', 9)",
            [cell, *load, position],
        )
    if store.measure is not None:
        detail = f'{{"headline": {{"measure": "{store.measure}"}}}}'
        sql = "insert into artifacts (artifact_id, detail) values ('set', ?)"
        connection.execute(sql, [detail])


def close(value: float | None) -> Any:
    return None if value is None else pytest.approx(value, rel=1e-6, abs=1e-9)


def agree_on_cell(
    connection: duckdb.DuckDBPyConnection, store: Store, cell: str, read: dict[str, list[Any]]
) -> None:
    """Check one cell's figures from every source."""
    tasks = expected(store, cell)
    groups = [[headline for *_, headline in task] for task in tasks.values()]
    right = [[float(is_right) for _, is_right, _ in task] for task in tasks.values()]
    n = sum(map(len, groups))
    known = mean_interval(groups) if groups else None
    ends = (known.value, known.low, known.high) if known else (None, None, None)
    ended = [a for a in store.attempts if a["cell_id"] == cell and a["status"] != "cancelled"]
    is_paid = all(row["cost_usd"] is not None for row in ended)
    summary, result, average, *passes = read[cell]
    (window,) = rows(connection, "from window_summary($cell, 0, 1e6)", cell=cell)
    assert summary.n == result["n"] == window["trials"] == n
    assert summary.tasks == result["tasks"] == average["n"] == len(groups)
    assert summary.correct == result["correct"] == sum(map(sum, right))
    assert summary.measure == result["measure"] == measure_of(store, cell)
    assert (summary.accuracy, summary.accuracy_low, summary.accuracy_high) == close_all(ends)
    assert (result["score"], result["score_low"], result["score_high"]) == close_all(ends)
    assert (window["accuracy"], average["value"]) == close_all((ends[0], ends[0]))
    assert window["accuracy_se"] == close(known and known.se)
    assert (result["cost_usd"] is not None) == (window["cost_usd"] is not None) == is_paid
    assert summary.cost_usd == close(result["cost_usd"])
    assert window["cost_usd"] == close(result["cost_usd"])
    assert result["cost_mean_usd"] == close(summary.cost_mean)
    for k, row in enumerate(passes, 1):
        enough = [group for group in right if len(group) >= k]
        value = pass_at_k(enough, k).value if enough else None
        assert (row["n"], row["value"]) == (len(enough), close(value))
        for trial in summary.trials:
            if trial.k == k:
                assert (trial.n, trial.pass_at_k) == (len(enough), close(value))


def read_cells(connection: duckdb.DuckDBPyConnection) -> dict[str, list[Any]]:
    """Return by cell the report's summary and its rows of `results`, `avg_at_n` and `pass_at_k`."""
    every = ["results", "avg_at_n('s')", *(f"pass_at_k('s', {k})" for k in (1, 2, 3))]
    tables = [{row["cell_id"]: row for row in rows(connection, f"from {each}")} for each in every]
    return {
        summary.cell_id: [summary, *(table[summary.cell_id] for table in tables)]
        for summary in summarise(connection, "s")
    }


def close_all(values: tuple[float | None, ...]) -> tuple[Any, ...]:
    return tuple(close(value) for value in values)


def agree_on_comparison(connection: duckdb.DuckDBPyConnection, store: Store) -> None:
    """Check the comparison of both cells by `compare`, by `tutti compare`, and by the statistics of
    shared tasks."""
    sides = [expected(store, cell) for cell in "ab"]
    means = [{task: [each[2] for each in some] for task, some in side.items()} for side in sides]
    shared = sorted(means[0].keys() & means[1].keys())
    (row,) = rows(connection, "from compare('a', 'b')")
    assert row["n"] == len(shared)
    only = [len(side) - len(shared) for side in means]
    assert [row["n_only_a"], row["n_only_b"]] == only
    first, second = (Side.find(connection, cell) for cell in "ab")
    assert first is not None and second is not None
    (ours,) = compare_sides(connection, first, second)
    assert (ours.n, ours.n_only_a, ours.n_only_b) == (len(shared), *only)
    if not shared:
        return
    a, b = ([side[task] for task in shared] for side in means)
    known = compare_paired(a, b)
    figures = (known.first, known.second, known.difference, known.low, known.high, known.p)
    names = ("mean_a", "mean_b", "difference", "ci_low", "ci_high", "p")
    assert tuple(row[name] for name in names) == close_all(figures)
    assert tuple(getattr(ours, name) for name in names) == close_all(figures)


@pytest.mark.slow
@pytest.mark.parametrize("block", range(STORES // AT_ONCE))
def test_every_figure_agrees(connection: duckdb.DuckDBPyConnection, block: int) -> None:
    for seed in range(block * AT_ONCE, (block + 1) * AT_ONCE):
        store = drawn(seed)
        enter(connection, store)
        read = read_cells(connection)
        for cell in "ab":
            agree_on_cell(connection, store, cell, read)
        agree_on_comparison(connection, store)
        assert all(math.isfinite(each.get("score") or 0) for each in store.attempts)
