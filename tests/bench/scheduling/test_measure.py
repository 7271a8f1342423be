"""Tests of windows, quantiles, fairness and idle time on constructed steps."""

import pytest

from bench.scheduling.client import STEP_COLUMNS, Outcome, Step
from bench.scheduling.engine import counted_between, read_counters
from bench.scheduling.measure import (
    idle_share,
    jain,
    measure,
    quantile,
    recomputed,
    window_rate,
    window_steps,
)

METRICS = """# HELP vllm:num_preemptions_total Cumulative
vllm:num_preemptions_total{engine="0",model_name="bench"} 3.0
vllm:prefix_cache_queries_total{engine="0"} 1.5e+06
vllm:prefix_cache_queries_total{engine="1"} 500000.0
vllm:prefix_cache_queries_created{engine="0"} 1.7e+09
vllm:num_requests_running{engine="0"} 4.0
"""


def step(place: int, ended: float, cached: int = 0, reusable: int = 0, status: int = 200) -> Step:
    times = (ended - 1.0, ended - 0.5, ended, ended + 0.1)
    return Step(place, 0, *times, status, 1, 400, cached, 24, reusable)


def test_window_counts_between_two_ends() -> None:
    ends = [float(second) for second in range(101)]
    assert window_steps(101, 0.2, 0.8) == (20, 80)
    assert window_rate(ends, 0.2, 0.8) == pytest.approx(60.0)
    slow_start = [10.0 * n for n in range(20)] + [200.0 + n for n in range(81)]
    assert window_rate(slow_start, 0.2, 0.8) == pytest.approx(60.0)


@pytest.mark.parametrize("ends", [[], [1.0], [2.0] * 10])
def test_window_of_nothing_is_zero(ends: list[float]) -> None:
    assert window_rate(ends, 0.2, 0.8) == 0.0


def test_quantile_lies_between_neighbours() -> None:
    assert quantile([1.0, 2.0, 3.0, 4.0], 0.5) == 2.5
    assert quantile([1.0, 2.0], 1.0) == 2.0
    assert quantile([], 0.95) == 0.0


def test_jain() -> None:
    assert jain([3.0, 3.0, 3.0]) == pytest.approx(1.0)
    assert jain([1.0, 0.0, 0.0, 0.0]) == pytest.approx(0.25)
    assert jain([]) == 0.0


def test_recomputed_counts_whole_blocks() -> None:
    assert recomputed([step(0, 1.0, cached=0, reusable=100)]) == 96
    assert recomputed([step(0, 1.0, cached=96, reusable=100)]) == 0
    assert recomputed([step(0, 1.0, cached=128, reusable=100)]) == 0  # the answer was cached too


def test_idle_when_all_in_flight_are_held() -> None:
    assert idle_share([(0.25, 2, 2), (0.5, 2, 3), (0.75, 0, 0), (1.0, 1, 1)]) == 0.5
    assert idle_share([]) == 0.0


def test_measure_of_a_cell() -> None:
    steps = [step(n % 2, 1.0 + n) for n in range(50)] + [step(1, 60.0, status=500)]
    outcome = Outcome(steps, {0: 0.0, 1: 0.0}, {0: 50.0}, [], seconds=61.0)
    counted = {"hit_tokens": 30.0, "queried_tokens": 120.0, "preemptions": 2.0}
    found = measure(outcome, counted, programs=2)
    assert found["steps"] == 50 and found["failed_programs"] == 1
    assert found["steps_per_min"] == found["steps_per_min_20_80"] == pytest.approx(60.0)
    assert found["whole_steps_per_min"] == pytest.approx(50 / 50.1 * 60, rel=1e-4)
    assert found["hit_share"] == 0.25 and found["latency_p95_s"] == pytest.approx(1.0)


def test_measure_of_a_cell_that_did_nothing() -> None:
    counted = {"hit_tokens": 0.0, "queried_tokens": 0.0, "preemptions": 0.0}
    found = measure(Outcome(cut=True), counted, programs=3)
    assert found["steps_per_min"] == 0.0 and found["failed_programs"] == 3


def test_a_cell_that_stood_still_has_its_whole_time() -> None:
    counted = {"hit_tokens": 0.0, "queried_tokens": 0.0, "preemptions": 0.0}
    outcome = Outcome([step(0, 1.0 + n / 10) for n in range(10)], cut=True, seconds=240.0)
    found = measure(outcome, counted, programs=1)
    assert found["steps_per_min"] == found["whole_steps_per_min"] == 2.5


def test_row_follows_the_columns() -> None:
    row = step(3, 1.23456789).row()
    assert dict(zip(STEP_COLUMNS, row, strict=True))["ended_s"] == 1.2346
    assert row[0] == 3 and isinstance(row[0], int)


def test_counters_sum_series_and_leave_states_out() -> None:
    found = read_counters(METRICS)
    assert found["queried_tokens"] == 2_000_000 and found["preemptions"] == 3
    between = counted_between(dict.fromkeys(found, 0.0), found)
    assert "running" not in between and between["preemptions"] == 3
