"""Tests of cells and families of the small store, against numbers computed from its
construction."""

from collections.abc import Callable

import duckdb
import pytest
from duckdb import DuckDBPyConnection

from tutti.tasks.reporting import family_scores
from tutti.tasks.reporting.figures.timelines import HIT_RATIO, RATE_SQL, RUNNING, SERIES_SQL
from tutti.tasks.reporting.measures.families import all_families
from tutti.tasks.sweeps.results import CellSummary, summarise
from tutti.tasks.sweeps.results.summary import load_points
from tutti.tasks.sweeps.results.tables import focus, rows, rows_by

Connect = Callable[..., DuckDBPyConnection]


@pytest.fixture(scope="module")
def cells(connection: DuckDBPyConnection) -> list[CellSummary]:
    return summarise(connection, "load")


def test_cells_come_as_planned(cells: list[CellSummary]) -> None:
    assert [(c.policy, c.concurrency) for c in cells] == [
        ("passthrough", 2),
        ("cap", 2),
        ("passthrough", 8),
        ("cap", 8),
    ]


def test_accuracy_counts_limits_and_leaves_out_infra_errors(cells: list[CellSummary]) -> None:
    cell = cells[0]
    assert (cell.n, cell.correct, cell.n_infra) == (40, 30, 1)
    assert cell.accuracy == 0.75
    low_high = (cell.accuracy_low, cell.accuracy_high)
    assert low_high == pytest.approx((0.442181, 0.919052), abs=1e-5)
    assert cell.cost_usd == pytest.approx(0.40)


def test_steps_per_min_of_a_known_stream(cells: list[CellSummary]) -> None:
    # Two slots, steps of 2 s: the second slot fills at 0.1 s, the last attempt starts at 152.1 s.
    # In [0.1, 152.1) slot one ends steps at 2, 4, … 152 and slot two at 2.1, … 150.1.
    cell = cells[0]
    assert (cell.window_start_s, cell.window_end_s) == pytest.approx((0.1, 152.1))
    assert cell.window_reason == "all session slots busy"
    assert cell.steps == 76 + 75
    assert cell.steps_per_min == pytest.approx(151 * 60 / 152)
    assert cell.rate_interval is not None
    assert cell.rate_interval[0] < 151 * 60 / 152 < cell.rate_interval[1]
    assert cell.step_latency_p50 == pytest.approx(2.0)
    assert cell.sessions_mean == pytest.approx(2.0, abs=0.02)


def test_server_figures(cells: list[CellSummary]) -> None:
    assert cells[0].server_hit_ratio == pytest.approx(0.6)
    assert cells[3].running_mean == pytest.approx(4.0)
    assert cells[0].preemptions_per_s == 0


def test_steps_agree_with_the_macro(
    connection: DuckDBPyConnection, cells: list[CellSummary]
) -> None:
    sql = (
        "select cell_id, count(*) from steps s join cell_windows w using (cell_id) "
        "where s.end_s >= w.start_s and s.end_s < w.end_s group by all"
    )
    with focus(connection, ["load"]) as focused:
        counted = dict(focused.execute(sql).fetchall())
    assert counted == {cell.cell_id: cell.steps for cell in cells}


def test_a_focus_leaves_the_connection_as_it_was(connection: DuckDBPyConnection) -> None:
    """The copies of a focus shadow the tables only on its own connection."""
    every = connection.execute("select count(*) from attempts").fetchone()
    with focus(connection, ["load"]) as focused:
        mine = focused.execute("select count(*) from attempts").fetchone()
        assert connection.execute("select count(*) from attempts").fetchone() == every
    assert mine == (40 + 40 + 64 + 64 + 4,)
    assert not connection.execute(
        "select 1 from duckdb_tables() where table_name = 'steps'"
    ).fetchall()


def test_a_short_cell_falls_back_to_the_whole(connect_to: Connect) -> None:
    cell = summarise(connect_to({}), "s")[0]
    assert cell.window_reason.startswith("whole cell: ")
    assert cell.window_start_s == 0
    assert cell.steps == 3 * 4
    assert cell.steps_per_min is not None and cell.rate_interval is None


def test_a_cell_without_calls_has_no_rates(connect_to: Connect) -> None:
    cell = summarise(connect_to({"called": False}), "s")[0]
    assert cell.window_end_s is None and cell.window_reason == "no requests"
    assert cell.steps_per_min is None and cell.step_latency_p50 is None
    assert (cell.n, cell.correct) == (3, 1)


def test_unknown_sweeps_are_empty(connection: DuckDBPyConnection) -> None:
    assert summarise(connection, "nowhere") == []
    assert family_scores(connection, "nowhere") == []


def test_family_scores_count_each_attempt_once(connection: DuckDBPyConnection) -> None:
    scores = {(s.model, s.family): s for s in family_scores(connection, "models")}
    # Attempts 0 to 19 of 60 are correct, and families alternate.
    before = scores["before <b>", "arithmetic"]
    assert (before.n, before.correct) == (30, 10)
    assert before.accuracy == pytest.approx(1 / 3)
    assert before.low is not None and before.high is not None
    assert before.low < before.accuracy < before.high
    totals = {s.model: (s.n, s.correct) for s in all_families(list(scores.values()))}
    assert totals == {"before <b>": (60, 20), "after $1 & $2": (60, 48)}


def test_models_stand_in_the_order_of_their_sweeps(connection: DuckDBPyConnection) -> None:
    for sweeps, place in ((["load", "models"], 0), (["models", "load"], 2)):
        models = dict.fromkeys(s.model for s in family_scores(connection, *sweeps))
        assert list(models).index("pocket") == place


def test_repeats_are_pooled_by_their_spread(cells: list[CellSummary]) -> None:
    point = load_points([cells[0], cells[0]])[0]
    assert point.rate == cells[0].steps_per_min
    assert point.rate_interval == pytest.approx((point.rate, point.rate))
    assert (point.n, point.correct) == (80, 60)


def test_a_restart_within_a_bin_loses_nothing() -> None:
    """The restarted engine's counts are part of the ratio, as in window_summary."""
    with duckdb.connect() as connection:
        connection.execute(
            "create table origins as select 'c' as cell_id, timestamptz '2026-01-01' as t0; "
            "create table server_metrics as select 'c' as cell_id, 'e' as engine_id, name, "
            "timestamptz '2026-01-01' + to_microseconds(nth) as \"at\", value "
            "from (values (0, 100, 200), (1, 90, 100), (2, 20, 100)) v(nth, hits, queries), "
            "lateral (values ('vllm:prefix_cache_hits_total', hits), "
            "('vllm:prefix_cache_queries_total', queries)) m(name, value)"
        )
        (point,) = rows(connection, SERIES_SQL, cell="c")
    assert point[HIT_RATIO] == pytest.approx((90 + 20) / (100 + 0))


def test_the_client_is_no_engine(connect_to: Connect) -> None:
    """The client's samples are stored beside the server's; a series contains only engines."""
    with focus(connect_to({"lag_s": 0.01}), ["s"]) as focused:
        assert len(rows_by(focused, "engine_id", SERIES_SQL, cell="s-pocket-cap-2")) == 1


def test_series_of_the_server(connection: DuckDBPyConnection) -> None:
    with focus(connection, ["load"]) as focused:
        points = rows(focused, SERIES_SQL, cell="load-pocket-cap-2")
        rates = rows(focused, RATE_SQL, cell="load-pocket-cap-2")
    width = rates[1]["second"] - rates[0]["second"]
    steps = sum(each["per_min"] for each in rates) * width / 60
    assert steps == pytest.approx(40 * 4)  # every step is in one bin
    assert points[0]["second"] == pytest.approx(-1) and len(points) <= 241
    assert {each[RUNNING] for each in points} == {2.0}
    first, *ratios = (each[HIT_RATIO] for each in points)
    assert first is None  # the first sample has no difference yet
    assert ratios == pytest.approx([0.6] * (len(points) - 1))
