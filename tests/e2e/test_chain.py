"""Tests of the store that `tutti demo` leaves, queried in SQL."""

import re
import sqlite3

import pytest

from tests.e2e.conftest import Demo

# All in one process: they share one demo.
pytestmark = [pytest.mark.e2e, pytest.mark.xdist_group("demo"), pytest.mark.timeout(900)]

COUNTERS = {
    "prompt_tokens": "vllm:prompt_tokens_total",
    "completion_tokens": "vllm:generation_tokens_total",
    "cached_tokens": "vllm:prefix_cache_hits_total",
}


def test_every_sample_has_one_counted_attempt(demo: Demo) -> None:
    rows = demo.store.sql(
        "select c.name, policy, count(*) n, count(distinct sample_id) samples from attempts "
        "join (select sweep_id, name from sweeps) c using (sweep_id) "
        "where status != 'infra_error' group by all order by all"
    )
    assert {(r["name"], r["policy"]) for r in rows} == {
        ("demo", "passthrough"),
        ("demo", "cap"),
        ("demo", "adaptive"),
        ("lesson", "cap"),
    }
    assert all(r["n"] == r["samples"] > 0 for r in rows)
    cells = demo.store.sql("select status, samples from cells")
    assert all(cell["status"] == "finished" for cell in cells)
    assert sum(c["samples"] for c in cells) == sum(r["n"] for r in rows)


def test_the_model_solves_held_out_tasks(demo: Demo) -> None:
    """The pocket model uses search and the tool result and gives a boxed answer."""
    rows = demo.store.sql(
        "select avg(correct::int) accuracy, count(*) n from attempts join sweeps using (sweep_id) "
        "where name = 'demo' and status in ('ok', 'limit', 'model_error')"
    )
    assert rows[0]["n"] >= 16
    assert rows[0]["accuracy"] >= 0.6


def test_calls_agree_with_the_servers_own_counters(demo: Demo) -> None:
    """Prompt, completion and cached tokens of each cell agree within 1 %."""
    ours = demo.store.sql(f"select cell_id, {_sums()} from calls where cell_id != '' group by all")
    assert ours
    for cell in ours:
        for column, counter in COUNTERS.items():
            theirs = demo.store.sql(
                "select max(value) - min(value) total from server_metrics "
                f"where cell_id = '{cell['cell_id']}' and name = '{counter}'"
            )[0]["total"]
            assert cell[column] == pytest.approx(theirs, rel=0.01), (column, cell["cell_id"])


def test_trajectories_are_whole(demo: Demo) -> None:
    """The messages start with the prompt and end with the model's text; its calls and tools are
    stored."""
    rows = demo.store.sql(
        "select a.attempt_id, a.calls, a.tool_calls, count(distinct c.call_id) recorded, "
        "(select count(*) from tool_runs t where t.attempt_id = a.attempt_id) ran, "
        "(select list(role order by position) from messages m where m.attempt_id = a.attempt_id) "
        "roles from attempts a join calls c using (attempt_id) group by all"
    )
    assert rows
    for row in rows:
        assert row["recorded"] == row["calls"] and row["ran"] == row["tool_calls"]
        assert row["roles"][:2] == ["system", "user"] and row["roles"][-1] == "assistant"
    orphans = demo.store.sql(
        "select count(*) n from retrievals "
        "where index_id not in (select artifact_id from artifacts)"
    )
    assert orphans == [{"n": 0}]


def test_the_cap_holds_programs(demo: Demo) -> None:
    """With more sessions than slots, some calls wait under `cap` and none under `passthrough`."""
    rows = demo.store.sql(
        "select policy, count(*) filter (event = 'hold') holds from gateway_events "
        "join cells using (cell_id) group by all"
    )
    holds = {row["policy"]: row["holds"] for row in rows}
    assert holds.get("passthrough", 0) == 0


def test_windows_by_sql(demo: Demo) -> None:
    rows = demo.store.sql(
        "select w.* from cells c, window_summary(c.cell_id, 0, 600) w where c.status = 'finished'"
    )
    assert all(row["steps"] > 0 and 0 <= row["accuracy"] <= 1 for row in rows)
    assert all(0 < row["server_hit_ratio"] < 1 for row in rows)


def test_training_left_steps_and_an_adapter_that_was_measured(demo: Demo) -> None:
    steps = demo.store.sql("select count(*) n, min(loss) loss from train_steps")[0]
    tuned = demo.store.sql("select count(*) n from attempts where model = 'pocket-tuned'")[0]
    assert steps["n"] >= 1 and steps["loss"] < 5
    assert tuned["n"] > 0


def test_lineage_goes_from_cell_to_corpus(demo: Demo) -> None:
    rows = demo.store.sql(
        "with recursive up as (select cell_id as id from cells union "
        "select parent_id from artifact_parents p join up on p.artifact_id = up.id) "
        "select distinct split_part(id, ':', 1) kind from up"
    )
    kinds = {row["kind"] for row in rows}
    assert kinds >= {"cell", "task_set", "index", "corpus", "engine", "checkpoint", "adapter"}


def test_the_report_and_the_closing_sql(demo: Demo) -> None:
    """The page exists and loads nothing external; the three printed queries return rows."""
    page = next(demo.store.root.glob("artifacts/report-*/index.html")).read_text()
    assert "steps/min" in page
    assert not re.search(r'(src|href)="https?://', page)
    printed = " ".join((demo.done.stdout + demo.done.stderr).split())
    statements = re.findall(r'tutti sql "([^"]+)"', printed)
    assert len(statements) == 3
    for statement in statements:
        assert demo.store.sql(statement)


def test_prefect_kept_the_run_and_its_artifacts(demo: Demo) -> None:
    with sqlite3.connect(demo.store.root / "prefect" / "prefect.db") as database:
        runs = database.execute("select state_type from flow_run").fetchall()
        tasks = database.execute("select count(*) from task_run").fetchone()
        keys = {key for (key,) in database.execute("select distinct key from artifact")}
    database.close()
    assert runs == [("COMPLETED",)]
    assert tasks[0] >= 8
    assert {"results", "report", "plot-accuracy"} <= keys


def test_running_again_measures_nothing_again(demo: Demo) -> None:
    before = demo.store.sql("select count(*) n from attempts")
    again = demo.store.run("demo", "--small", "--no-prefect")
    assert again.returncode == 0, again.stderr[-2000:]
    assert "engine" not in again.stderr
    assert demo.store.sql("select count(*) n from attempts") == before


def _sums() -> str:
    return ", ".join(f"sum({column}) {column}" for column in COUNTERS)
