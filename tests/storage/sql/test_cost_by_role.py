"""Tests of `cost_by_role`, which splits a cell's cost: every call counts once, under its role and
its model."""

from typing import Any

import pytest

from tutti import storage


def call(
    cell: str, role: str | None, model: str, cost: float | None, status: str = "ok"
) -> dict[str, Any]:
    """Return a call with ten prompt tokens, four of them cached, and two generated."""
    tokens = {"prompt_tokens": 10, "cached_tokens": 4, "completion_tokens": 2}
    row: dict[str, Any] = {
        "cell_id": cell,
        "role": role,
        "model": model,
        "cost_usd": cost,
        "status": status,
    }
    return row | tokens


def test_every_call_counts_once(catalog: storage.Catalog) -> None:
    """Failed calls and calls without a role count, too; those of another cell do not."""
    calls = [
        call("c", "orchestrator", "pocket", 0.25),
        call("c", "orchestrator", "pocket", 0.5),
        call("c", "expert", "large", 4.0),
        call("c", "expert", "small", 1.0, "infra_error"),
        call("c", None, "pocket", None),
        call("d", "judge", "large", 9.0),
    ]
    storage.commit(catalog, {"calls": calls})
    rows = storage.query("select * from cost_by_role('c')", catalog.home)
    assert [tuple(row.values()) for row in rows] == [
        ("expert", "large", 1, 0, 10, 4, 2, 4.0),
        ("expert", "small", 1, 1, 10, 4, 2, 1.0),
        ("orchestrator", "pocket", 2, 0, 20, 8, 4, 0.75),
        (None, "pocket", 1, 0, 10, 4, 2, None),
    ]
    (whole,) = storage.query("select sum(cost_usd) c from calls where cell_id = 'c'", catalog.home)
    assert sum(row["cost_usd"] or 0 for row in rows) == pytest.approx(whole["c"])
    assert storage.query("select * from cost_by_role('none')", catalog.home) == []
