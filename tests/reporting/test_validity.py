"""Tests of a report's warnings: replies truncated by their length limit, from 1 % of a cell's
replies, and cells without a score."""

from pathlib import Path
from typing import Any

import pytest

from tests.reporting.conftest import Cell, build_store
from tutti import storage
from tutti.storage import catalog as cat
from tutti.tasks.reporting import build_report


def ended(cell: Cell, count: int, reason: str) -> list[dict[str, Any]]:
    """Return `count` calls of the measured model that ended for `reason`."""
    key = {"sweep_id": cell.sweep_id, "cell_id": cell.cell_id, "attempt_id": f"{cell.cell_id}-0"}
    call = key | {"role": "orchestrator", "status": "ok", "finish_reason": reason}
    return [call | {"call_id": f"{reason}-{number}"} for number in range(count)]


@pytest.mark.parametrize(("cut", "share"), [(1, None), (2, "2 of 101 (2.0%)")])
def test_a_cell_with_more_than_one_in_a_hundred_is_named(
    tmp_path: Path, cut: int, share: str | None
) -> None:
    cell = Cell("s", "m", "cap", 2, 1.0, 40, 30)
    home = build_store(tmp_path / "store", (cell,))
    calls = ended(cell, cut, "length") + ended(cell, 101 - cut, "stop")
    judged = [call | {"role": "judge", "call_id": "j"} for call in ended(cell, 1, "length")]
    with storage.open_catalog(home) as catalog:
        storage.commit(catalog, {"calls": calls + judged})
    with storage.connect(home) as connection:
        report = build_report(connection, ["s"], tmp_path / "page", "t", {}, files=False)
    if share is None:
        assert report.alarms == []
        return
    (alarm,) = report.alarms
    assert alarm.startswith(f"Replies were cut off by their length limit: {share} in ")
    assert "m, cap at 2" in alarm and "raise sampling.max_tokens" in alarm
    assert alarm in report.page.read_text()


@pytest.mark.parametrize("scored", [True, False])
def test_a_cell_without_scores_is_named(tmp_path: Path, scored: bool) -> None:
    """The cell's 0 % could be taken for wrong answers."""
    home = build_store(tmp_path / "store", ())
    with storage.open_catalog(home) as catalog:
        key = {"cell_id": "cell:g", "sweep_id": "s", "policy": "passthrough", "concurrency": 2}
        cell = key | {"benchmark": "generate-rows", "model": "m", "task_set_id": "t"}
        cell |= {"index_id": "", "engine_id": "e", "repeat": 0, "position": 0, "samples": 1}
        catalog.upsert(cat.cells, cell | {"status": "finished"})
        row = key | {"attempt_id": "a", "task_id": "t", "model": "m", "repeat": 0, "status": "ok"}
        row |= {"correct": False, "score": 0.0} if scored else {}
        storage.commit(catalog, {"attempts": [row]})
    with storage.connect(home) as connection:
        report = build_report(connection, ["s"], tmp_path / "page", "t", {}, files=False)
    assert [
        each.startswith("No attempt of generate-rows was scored") for each in report.alarms
    ] == [True for _ in range(not scored)]
