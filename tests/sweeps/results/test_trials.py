"""Tests of scores of several trials per task: equal to the SQL macros', in tables and in JSON."""

import io
import json
from dataclasses import asdict, replace
from pathlib import Path

from duckdb import DuckDBPyConnection
from rich.console import Console

from tests.reporting.conftest import LOAD, Connect, build_store
from tutti import storage
from tutti.storage import connect
from tutti.tasks.reporting.page import Report, build_report
from tutti.tasks.reporting.terminal import terminal_tables
from tutti.tasks.sweeps.results import summarise


def test_the_report_agrees_with_the_macros(connection: DuckDBPyConnection) -> None:
    """There are 40 and 64 samples of ten tasks: 4 and 6 or 7 trials per task."""
    cells = summarise(connection, "load")
    assert [scores.k for scores in cells[0].trials] == [1, 2, 3, 4]
    assert [scores.k for scores in cells[2].trials] == [1, 2, 3, 4, 5, 6, 7]
    for macro in ("pass_at_k", "pass_hat_k", "majority_at_k"):
        for k in (1, 3, 4, 7):
            found = connection.execute(
                f"select cell_id, n, n_left_out, value from {macro}('load', $k)", {"k": k}
            ).fetchall()
            ours = [
                (cell.cell_id, scores.n, scores.n_left_out, getattr(scores, macro))
                for cell in cells
                for scores in cell.trials
                if scores.k == k
            ]
            assert len(ours) == (2 if k == 7 else 4)
            theirs = {row[0]: row[1:] for row in found}
            for cell_id, n, left_out, value in ours:
                assert theirs[cell_id][:2] == (n, left_out)
                assert abs(theirs[cell_id][2] - value) < 1e-9
    last = cells[2].trials[-1]
    assert (last.n, last.n_left_out) == (4, 6)
    for cell in cells:
        for scores in cell.trials:
            assert scores.pass_hat_k <= cell.trials[0].pass_at_k + 1e-9 <= scores.pass_at_k + 2e-9
            assert scores.pass_at_k_low is not None and scores.pass_at_k_high is not None
            assert 0 <= scores.pass_at_k_low <= scores.pass_at_k <= scores.pass_at_k_high <= 1


def test_tables_and_page_show_them(connection: DuckDBPyConnection, tmp_path: Path) -> None:
    cells = summarise(connection, "load")
    console = Console(width=80, record=True, file=io.StringIO())
    console.print(terminal_tables(Report(tmp_path, cells=cells))[1])
    printed = console.export_text()
    assert "several trials a task" in printed and "majority@k" in printed
    assert all(len(line) <= 80 for line in printed.splitlines())
    (last,) = json.loads(json.dumps(asdict(cells[0])))["trials"][-1:]
    assert last["k"] == 4 and last["pass_hat_k"] == cells[0].trials[3].pass_hat_k
    page = build_report(connection, ["load"], tmp_path, "t", {}, files=False).page.read_text()
    assert "Several trials a task" in page and "majority@k" in page and "majority@4" not in page


def test_one_trial_a_task_has_none(tmp_path: Path, connect_to: Connect) -> None:
    connection = connect_to({"samples": 5})
    try:
        cells = summarise(connection, "s")
        assert [cell.trials for cell in cells] == [()]
        page = build_report(connection, ["s"], tmp_path, "t", {}, files=False).page.read_text()
        assert "Several trials a task" not in page
    finally:
        connection.close()


def test_votes_are_of_the_answers_that_scorers_read(tmp_path: Path) -> None:
    """There are three trials of one task, two of them correct with answers that the scorer reads as
    equal."""
    home = build_store(tmp_path / "store", (replace(LOAD[0], samples=3, failed=False),))
    cell_id = LOAD[0].cell_id
    with storage.open_catalog(home) as catalog:
        rows = [
            {
                "cell_id": cell_id,
                "sweep_id": "load",
                "attempt_id": f"{cell_id}-more{nth}",
                "task_id": "task-one",
                "status": "ok",
                "correct": nth < 2,
                "answer": ("it is 4", "so 4", "5")[nth],
            }
            for nth in range(3)
        ]
        scores = [
            {"cell_id": cell_id, "sweep_id": "load", "attempt_id": f"{cell_id}-more{nth}"}
            | {"answer": "4", "correct": True, "scored_at": storage.now()}
            for nth in range(2)
        ]
        storage.commit(catalog, {"attempts": rows, "scores": scores})
    connection = connect(home)
    try:
        (cell,) = summarise(connection, "load")
        (ours,) = [scores for scores in cell.trials if scores.k == 3]
        assert (ours.n, ours.n_left_out, ours.majority_at_k) == (1, 3, 1.0)
        sql = "select n, n_left_out, value from majority_at_k('load', 3)"
        assert connection.execute(sql).fetchone() == (1, 3, 1.0)
    finally:
        connection.close()
