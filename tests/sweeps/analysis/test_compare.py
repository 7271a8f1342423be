"""Tests of comparing two sides over their set-ups, and of gates: matching, counted attempts, stored
verdicts."""

import json
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tutti import storage
from tutti.storage import catalog as cat
from tutti.tasks.sweeps import GateError
from tutti.tasks.sweeps.analysis.compare import Side, compare_sides
from tutti.tasks.sweeps.analysis.gates import (
    Outcome,
    check_gates,
    enter_verdicts,
)
from tutti.tasks.sweeps.spec import Gate, read_gates

START = datetime(2026, 1, 1, tzinfo=UTC)


class Store:
    """Store to which cells of known scores are added."""

    def __init__(self, catalog: storage.Catalog) -> None:
        self.catalog, self.sweeps = catalog, 0

    def sweep(self, name: str) -> str:
        """Add a sweep that is newer than the earlier ones."""
        self.sweeps += 1
        at = START + timedelta(days=self.sweeps)
        row = {"sweep_id": f"sweep:{self.sweeps}", "name": name, "spec": "{}", "created_at": at}
        self.catalog.upsert(cat.sweeps, row)
        return f"sweep:{self.sweeps}"

    def cell(self, sweep_id: str, scores: Sequence[float], **other: Any) -> str:
        """Add a cell of one attempt per task; `other` may have axes, `infra`, `cost` and `unknown`,
        the number of tasks whose cost is unknown."""
        axes = {"model": "pocket", "policy": "cap", "concurrency": 8, "repeat": 0}
        axes |= {key: value for key, value in other.items() if key in axes}
        cell_id = "cell:" + storage.content_hash([sweep_id, axes])
        shared = axes | {"sweep_id": sweep_id, "cell_id": cell_id, "benchmark": "stdlib"}
        self.catalog.upsert(
            cat.cells,
            shared | {"position": len(self.rows("cells")), "task_set_id": "t", "index_id": "i"}
            | {"samples": len(scores), "status": "finished"},
        )  # fmt: skip
        cost = other.get("cost", 1.0)
        rows = [
            self._attempt(shared, place, "ok")
            | {"score": float(score), "correct": score >= 1, "cost_usd": cost * (1 + place % 3)}
            for place, score in enumerate(scores)
        ]
        rows[: other.get("unknown", 0)] = [
            row | {"cost_usd": None} for row in rows[: other.get("unknown", 0)]
        ]
        rows += [
            self._attempt(shared, len(scores) + place, other.get("lost", "infra_error"))
            for place in range(other.get("infra", 0))
        ]
        storage.commit(self.catalog, {"attempts": rows})
        return cell_id

    def _attempt(self, shared: dict[str, Any], place: int, status: str) -> dict[str, Any]:
        name = f"{shared['cell_id']}-{place}"
        times = {"started_at": START, "ended_at": START + timedelta(seconds=1)}
        return shared | times | {
            "attempt_id": name, "sample_id": name, "task_id": f"t{place}", "trial": 0,
            "attempt": 1, "status": status, "working_s": 1.0,
        }  # fmt: skip

    def rows(self, table: str) -> list[dict[str, Any]]:
        return storage.query(f"from {table}", self.catalog.home)


@pytest.fixture
def store(catalog: storage.Catalog) -> Store:
    return Store(catalog)


def sides(store: Store, a: str, b: str) -> tuple[Side, Side]:
    """Return both sides, which must exist."""
    with storage.connect(
        store.catalog.home, macros=("headlines", "counted", "lost_samples")
    ) as connection:
        first, second = Side.find_pair(connection, a, b)
    assert first is not None and second is not None
    return first, second


def compared(store: Store, a: str, b: str, **options: Any) -> list[Any]:
    """Return the rows of `compare_sides`."""
    with storage.connect(
        store.catalog.home, macros=("headlines", "counted", "lost_samples")
    ) as connection:
        return compare_sides(connection, *sides(store, a, b), **options)


def checked(store: Store, gate: dict[str, Any], sweep: str, baseline: str = "") -> list[Outcome]:
    with storage.connect(store.catalog.home) as connection:
        side = Side.find(connection, sweep)
        against = Side.find(connection, baseline) if baseline else None
        assert side is not None
        return check_gates(connection, [Gate.model_validate(gate)], side, against)


RIGHT, WRONG = [1.0] * 30, [0.0] * 30
MOST = [1.0] * 24 + [0.0] * 6


def test_two_sweeps_are_matched_by_what_they_share(store: Store) -> None:
    """A level that only one sweep has is left out; the models, one in each, are compared."""
    one, two = store.sweep("before"), store.sweep("after")
    for level in (4, 8):
        store.cell(one, MOST, concurrency=level)
    for level in (8, 16):
        store.cell(two, RIGHT, model="tuned", concurrency=level)
    (row,) = compared(store, "before", "after")
    assert row.where == "stdlib, cap, 8 at once, model pocket -> tuned"
    assert (row.n, row.difference) == (30, pytest.approx(0.2))
    assert (row.p, row.test, row.verdict) == (2 * 0.5**6, "exact McNemar", "better")


def test_repeats_of_a_set_up_are_one_pair_a_task(store: Store) -> None:
    """With two repeats per side, three of four correct, there are 30 pairs, not 60."""
    sweep = store.sweep("night")
    for policy, second in (("passthrough", WRONG), ("cap", RIGHT)):
        store.cell(sweep, RIGHT, policy=policy)
        store.cell(sweep, second, policy=policy, repeat=1)
    (row,) = compared(store, "passthrough", "cap")
    assert (row.n, row.mean_a, row.mean_b) == (30, 0.5, 1.0)
    assert len(row.cells_a) == len(row.cells_b) == 2


def test_many_set_ups_are_judged_together(store: Store) -> None:
    """p = 0.031 alone gives better; with two more set-ups it does not."""
    sweep = store.sweep("levels")
    for level in (2, 4, 8):
        store.cell(sweep, MOST, policy="passthrough", concurrency=level)
        store.cell(sweep, RIGHT if level == 2 else MOST, concurrency=level)
    rows = compared(store, "passthrough", "cap")
    assert [row.p for row in rows] == [pytest.approx(2 * 0.5**6), 1.0, 1.0]
    assert (rows[0].p_holm, rows[0].verdict) == (pytest.approx(6 * 0.5**6), "inconclusive")


def test_two_policies_come_from_the_sweep_that_has_both(store: Store) -> None:
    """A newer sweep has only one of them."""
    old, new = store.sweep("both"), store.sweep("one")
    for policy in ("passthrough", "cap"):
        store.cell(old, MOST, policy=policy)
    store.cell(new, MOST)
    first, second = sides(store, "passthrough", "cap")
    assert {cell["sweep_id"] for cell in (*first.cells, *second.cells)} == {old}
    (alone, _) = sides(store, "cap", "cap")
    assert {cell["sweep_id"] for cell in alone.cells} == {new}


def test_costs_are_compared_as_a_share(store: Store) -> None:
    """An increase by a fifth is worse by 20 %; a decrease is better."""
    one, two = store.sweep("cheap"), store.sweep("dear")
    store.cell(one, MOST, cost=1.0)
    store.cell(two, MOST, cost=1.2)
    (row,) = compared(store, "cheap", "dear", metric="cost_usd")
    assert (row.difference, row.verdict) == (pytest.approx(0.2), "worse")
    assert row.ci_low == pytest.approx(0.2) and row.ci_high == pytest.approx(0.2)


@pytest.mark.parametrize("unknown", [1, 15, 30])
@pytest.mark.parametrize(
    "gate",
    [
        {"metric": "cost_per_solved", "at_most": 100.0},
        {"metric": "cost_usd", "at_most": 100.0},
        {"metric": "cost_usd", "margin": 100.0},
    ],
)
def test_an_unknown_cost_is_no_low_cost(store: Store, gate: dict[str, Any], unknown: int) -> None:
    """If one cost is unknown, the cost passes no gate and is neither better nor worse."""
    one, two = store.sweep("a"), store.sweep("b")
    store.cell(one, MOST)
    store.cell(two, MOST, cost=0.1, unknown=unknown)
    (outcome,) = checked(store, gate, "b", "a")
    assert (outcome.status, outcome.value, outcome.low, outcome.after) == (
        "inconclusive", None, None, None,
    )  # fmt: skip
    assert outcome.reason == f"cost_usd of {unknown} counted samples is unknown"
    (row,) = compared(store, "a", "b", metric="cost_usd")
    assert (row.n, row.difference, row.verdict) == (0, None, "inconclusive")
    (row,) = compared(store, "a", "b")
    assert (row.n, row.difference) == (30, 0.0)


@pytest.mark.parametrize("status", ["infra_error", "scorer_error"])
def test_what_was_lost_makes_it_inconclusive(store: Store, status: str) -> None:
    """Six of 36 samples have no score, so there is no verdict for any difference."""
    one, two = store.sweep("a"), store.sweep("b")
    store.cell(one, WRONG)
    store.cell(two, RIGHT, infra=6, lost=status)
    (row,) = compared(store, "a", "b")
    assert (row.difference, row.lost_b, row.verdict) == (1.0, 6, "inconclusive")
    assert "17% of a side's samples were lost" in row.reason
    (outcome,) = checked(store, {"metric": "score", "margin": 0.1}, "b", "a")
    assert (outcome.status, "lost" in outcome.reason) == ("inconclusive", True)
    (outcome,) = checked(store, {"metric": "score", "at_least": 0.1}, "b")
    assert outcome.status == "inconclusive"
    (outcome,) = checked(store, {"metric": "infra_share", "at_most": 0.05}, "b")
    assert outcome.status == "failed"


def test_unknown_names_and_strangers(store: Store) -> None:
    """The cases are an unknown side, no common set-up, and a cell that exists only in `attempts`,
    which is valid."""
    one, two = store.sweep("a"), store.sweep("b")
    cell = store.cell(one, MOST, concurrency=2)
    store.cell(one, MOST, concurrency=4)
    store.cell(two, MOST, concurrency=8)
    store.cell(two, MOST, concurrency=16)
    with storage.connect(
        store.catalog.home, macros=("headlines", "counted", "lost_samples")
    ) as connection:
        assert Side.find(connection, "nobody") is None
    assert compared(store, "a", "b") == []
    storage.commit(
        store.catalog,
        {"attempts": [row | {"cell_id": "log", "attempt_id": f"log{i}", "sample_id": f"log{i}"}
                      for i, row in enumerate(store.rows("attempts")) if row["cell_id"] == cell]},
    )  # fmt: skip
    (row,) = compared(store, cell, "log")
    assert (row.n, row.difference) == (30, 0.0)


@pytest.mark.parametrize(
    ("gate", "status", "verdict"),
    [
        ({"at_least": 0.5}, "passed", "better"),
        ({"at_least": 0.99}, "failed", "worse"),
        ({"at_least": 0.8}, "inconclusive", "inconclusive"),
        ({"at_most": 0.99}, "passed", "better"),
        ({"metric": "cost_usd", "at_most": 3}, "passed", "better"),
        ({"metric": "working_s", "at_most": 1}, "inconclusive", "inconclusive"),
        ({"metric": "cost_per_solved", "at_most": 1.5}, "failed", "worse"),
        ({"metric": "infra_share", "at_most": 0.2}, "passed", "better"),
        ({"metric": "steps_per_min", "at_least": 1}, "inconclusive", "inconclusive"),
        ({"at_least": 0.5, "where": {"policy": "adaptive"}}, "inconclusive", "inconclusive"),
    ],
)
def test_bounds(store: Store, gate: dict[str, Any], status: str, verdict: str) -> None:
    """The interval decides, not the figure; an unmeasured figure never passes."""
    store.cell(store.sweep("night"), MOST)
    (outcome,) = checked(store, gate, "night")
    assert (outcome.status, outcome.verdict) == (status, verdict)


@pytest.mark.parametrize(
    ("second", "margin", "status"),
    [
        (MOST, 0.1, "passed"),
        (MOST, 0.02, "inconclusive"),  # alike, but 30 tasks cannot tell within two points
        (WRONG, 0.1, "failed"),
        (RIGHT, 0.02, "passed"),
    ],
)
def test_margins(store: Store, second: list[float], margin: float, status: str) -> None:
    """The result must be significantly no worse than the baseline by more than the margin."""
    store.cell(store.sweep("last"), MOST)
    store.cell(store.sweep("tonight"), second)
    (outcome,) = checked(store, {"margin": margin}, "tonight", "last")
    assert outcome.status == status


def test_verdicts_are_kept_once(store: Store) -> None:
    """The same gates on the same cells replace their rows; a row has the contract's columns."""
    store.cell(store.sweep("last"), MOST)
    cell = store.cell(store.sweep("tonight"), WRONG)
    outcomes = checked(store, {"margin": 0.1}, "tonight", "last")
    _, side = sides(store, "last", "tonight")
    for _ in range(2):
        enter_verdicts(store.catalog, side, outcomes)
    (row,) = store.rows("verdicts")
    assert (row["sweep_id"], row["cell_b"], row["metric"], row["n"]) == (
        "sweep:2",
        cell,
        "score",
        30,
    )
    assert (row["difference"], row["verdict"]) == (pytest.approx(-0.8), "worse")
    assert row["reason"].startswith("failed: score no worse than the baseline by 0.1")
    assert json.loads(row["detail"])["status"] == "failed"


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("gates: []", "gates"),
        ("gates: [{metric: score}]", "exactly one of at_least, at_most and margin"),
        ("gates: [{metric: scores, at_least: 1}]", "'scores'"),
        ("gates: [{metric: infra_share, margin: 0.1}]", "give it a bound"),
        ("gates: [{at_least: 0.5, extra: 1}]", "extra"),
        ("gates: [", "not YAML"),
    ],
)
def test_a_wrong_file_names_the_fault(tmp_path: Path, text: str, words: str) -> None:
    """The error also names the file, even if it is missing."""
    file = tmp_path / "gates.yaml"
    file.write_text(text)
    with pytest.raises(GateError, match=words):
        read_gates(file)
    with pytest.raises(GateError, match="no such file"):
        read_gates(tmp_path / "none.yaml")


def test_a_margin_needs_a_baseline(store: Store) -> None:
    """The error is raised instead of passing the gate."""
    store.cell(store.sweep("night"), MOST)
    with pytest.raises(GateError, match="--baseline"):
        checked(store, {"margin": 0.1}, "night")


def test_a_nothing_gate_by_chance(store: Store) -> None:
    """Of 6 A/A comparisons of noise in one sweep none reports a difference."""
    sweep = store.sweep("noise")
    for level in range(1, 7):
        for policy in ("passthrough", "cap"):
            scores = np.random.default_rng((level, policy == "cap")).integers(0, 2, 40)
            store.cell(sweep, [float(s) for s in scores], policy=policy, concurrency=level)
    rows = compared(store, "passthrough", "cap")
    assert len(rows) == 6
    assert not {row.verdict for row in rows} & {"better", "worse"}
