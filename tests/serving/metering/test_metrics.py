"""Tests of Prometheus text converted to series, and of series converted to rows and engine
samples."""

import math
import re
import time
from collections.abc import Sequence
from dataclasses import asdict
from datetime import UTC, datetime, timedelta
from importlib import resources
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tutti import storage
from tutti.tasks.serving.metering.metrics import (
    KEPT,
    SERIES_REMEMBERED,
    MetricsSampler,
    engine_sample,
    read_page,
    series_of,
)

HITS = "vllm:prefix_cache_hits_total"
KV = "vllm:kv_cache_usage_perc"
TTFT = "vllm:time_to_first_token_seconds"
REAL = (Path(__file__).parent / "vllm-0.32.prom").read_text()
"""What vLLM 0.32 said after 46 requests."""


def values_of(text: str | bytes) -> dict[str, float]:
    return dict(read_page(text).values)


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_a_value_comes_back_as_it_was_written(value: float) -> None:
    assert values_of(f'{HITS}{{engine="0"}} {value!r}\n') == {HITS: value}
    assert values_of(f"{HITS} {value!r}\n".encode()) == {HITS: value}


@pytest.mark.parametrize(("text", "value"), [("1e-05", 1e-05), ("1.5e+06", 1.5e6), ("2E3", 2e3)])
def test_exponents_are_read(text: str, value: float) -> None:
    """ThunderAgent's pattern ends before the exponent, so it reads a nearly empty cache as full."""
    line = f'{KV}{{engine="0"}} {text}'
    reference = re.search(r"vllm:kv_cache_usage_perc\{[^}]*\}\s+([\d.]+)", line)
    assert reference is not None and float(reference.group(1)) != value
    assert values_of(line) == {KV: value}


def test_every_rank_counts() -> None:
    """ThunderAgent reads only the first line of a series, so it misses two of three ranks behind a
    URL."""
    lines = [f'{HITS}{{engine="{rank}"}} {10 * (rank + 1)}' for rank in range(3)]
    lines += [f'vllm:num_requests_running{{engine="{rank}"}} {rank}' for rank in range(3)]
    lines += [f'{KV}{{engine="{rank}"}} {share}' for rank, share in enumerate((0.2, 0.4))]
    lines += [f'sglang:token_usage{{dp_rank="{rank}"}} {rank / 2}' for rank in range(2)]
    expected = {HITS: 60.0, "vllm:num_requests_running": 3.0, KV: 0.3, "sglang:token_usage": 0.25}
    assert values_of("\n".join(lines)) == pytest.approx(expected)


@pytest.mark.parametrize(
    "labels",
    [
        "",
        'model_name="a model with spaces"',
        'model_name="{braces}",engine="0"',
        'model_name="} 99 {",engine="0"',
        'model_name="a} 3",engine="0"',
        r'model_name="a \"quoted\" } 5 name"',
        'path="/weights/v1 (final)",',
    ],
)
@pytest.mark.parametrize("value", ["7.0", "7.0 ", " 7.0\r"])
def test_nothing_around_the_value_is_taken_for_it(labels: str, value: str) -> None:
    assert values_of(f"{HITS}{{{labels}}} {value}") == {HITS: 7.0}
    assert values_of(f"{HITS} {value}") == {HITS: 7.0}


def test_only_known_series_are_kept() -> None:
    """Comments, other programs' series, buckets and longer names are left out of the values."""
    text = f"""# HELP {HITS} hits
# TYPE {HITS} counter
{HITS}_created{{engine="0"}} 1.7e9
python_gc_objects_collected_total 12
vllm:anything but a line
{TTFT}_bucket{{le="0.1"}} 3
{TTFT}_sum{{engine="0"}} 0.5

{HITS}{{engine="0"}} 4
"""
    page = read_page(text)
    assert page.values == {HITS: 4.0, f"{TTFT}_sum": 0.5}
    bucket, total = f'{TTFT}_bucket{{le="0.1"}}', f'{TTFT}_sum{{engine="0"}}'
    assert page.cumulative == {bucket: 3.0, total: 0.5, f'{HITS}{{engine="0"}}': 4.0}
    assert values_of("") == {}


@pytest.mark.parametrize(
    "line",
    [
        f"{HITS} full",
        f'{HITS}{{engine="0"}} ',
        HITS,
        f'{HITS}{{engine="0"}}',
        HITS + '{engine="0} 4',
        f'{TTFT}_bucket{{engine="0"}} 4',
        f'{TTFT}_bucket{{le="soon"}} 4',
    ],
)
def test_a_kept_series_without_a_number_is_an_error(line: str) -> None:
    with pytest.raises(ValueError, match="vllm:"):
        read_page(f"{KV} 0.5\n{line}\n")


@pytest.mark.parametrize("value", ["NaN", "+Inf", "-Inf"])
def test_a_number_that_means_nothing_is_left_out_with_a_reason(value: str) -> None:
    """All its ranks are left out, because the sum of the others would look like a counter reset."""
    text = f'{HITS}{{engine="0"}} 4\n{HITS}{{engine="1"}} {value}\n{KV} 0.5\n'
    text += f'{TTFT}_bucket{{le="+Inf"}} 3\n{TTFT}_sum {value}\n{TTFT}_count 3\n'
    page = read_page(text)
    assert page.values == {KV: 0.5}
    assert page.cumulative == {}
    assert page.left_out == (f"{HITS} is {value}", f"{TTFT}_sum is {value}")


def test_the_requests_of_a_priority_are_not_added_to_those_of_all() -> None:
    text = 'sglang:num_queue_reqs{priority=""} 5\nsglang:num_queue_reqs{priority="1"} 3\n'
    assert values_of(text) == {"sglang:num_queue_reqs": 5.0}


def test_a_real_page_of_vllm() -> None:
    """The page was recorded after 46 requests of the pocket model; the figures are those on the
    page."""
    page = read_page(REAL)
    assert page.left_out == ()
    assert page.started_at == 1.7952572776e09
    assert page.values["vllm:request_success_total"] == 46.0
    assert page.values["vllm:prompt_tokens_total"] == 2047.0
    assert page.values[f"{TTFT}_sum"] == 1.725956678390503
    assert {name for name in KEPT if name.startswith("vllm:")} == set(page.values)
    buckets = [series_of(head) for head in page.cumulative if head.startswith(f"{TTFT}_bucket")]
    edges = [bucket.le for bucket in buckets if bucket is not None]
    assert len(edges) == 23 and edges == sorted(edges) and math.isinf(edges[-1])
    assert [config["num_gpu_blocks"] for config in page.configs] == ["32"]


def test_the_series_the_macros_ask_for_are_kept() -> None:
    sql = resources.files("tutti.storage").joinpath("sql", "window_summary.sql").read_text()
    assert set(re.findall(r"'((?:vllm|sglang):\w+)'", sql)) <= KEPT


def test_a_page_of_a_hundred_kilobytes_takes_a_moment() -> None:
    """Parsing took 0.5 ms of each second when this was written; ten times that is still
    negligible."""
    lines = [line for line in REAL.splitlines() if line.startswith("vllm:")]
    page = REAL + "\n".join(line.replace('engine="0"', 'engine="1"') for line in lines)
    assert len(page) > 90_000
    read_page(page)
    taken = []
    for _ in range(20):
        begin = time.process_time()
        read_page(page)
        taken.append(time.process_time() - begin)
    assert sorted(taken)[10] < 0.005
    assert series_of.cache_info().maxsize == SERIES_REMEMBERED


EDGES = ("0.1", "0.5", "1.0", "+Inf")
AT = datetime(2026, 11, 21, tzinfo=UTC)


def page(*ranks: Sequence[float], started: float | None = None, tokens: float = 0) -> str:
    """Return the page of engines with this number of observed times to first token, separately for
    each rank."""
    lines = [f"vllm:prompt_tokens_total {tokens}"]
    lines += [] if started is None else [f"process_start_time_seconds {started}"]
    for rank, observed in enumerate(ranks):
        for edge in EDGES:
            upto = sum(value <= float(edge) for value in observed)
            lines.append(f'{TTFT}_bucket{{engine="{rank}",le="{edge}",model_name="m"}} {upto}.0')
        lines.append(f'{TTFT}_count{{engine="{rank}",model_name="m"}} {len(observed)}.0')
    return "\n".join(lines)


def buckets(sampler: MetricsSampler, text: str, cell: str = "c") -> dict[str, float]:
    rows = sampler.rows(read_page(text), AT, cell)
    return {r["name"].split('"')[1]: r["value"] for r in rows if "_bucket{" in r["name"]}


def test_rows_are_of_the_table(catalog: storage.Catalog) -> None:
    rows = MetricsSampler("engine:1").rows(read_page(page([0.2], tokens=7)), AT, "cell:1")
    assert rows[0] == {
        "cell_id": "cell:1",
        "engine_id": "engine:1",
        "at": AT,
        "name": "vllm:prompt_tokens_total",
        "value": 7.0,
    }
    storage.commit(catalog, {"server_metrics": rows})
    found = storage.query("select name, value from server_metrics", catalog.home)
    assert {row["name"]: row["value"] for row in found} == {r["name"]: r["value"] for r in rows}


def test_each_bucket_has_what_was_new_in_it() -> None:
    """The values are not cumulative over `le` or since the start; the first page is the
    baseline."""
    sampler = MetricsSampler("e")
    assert buckets(sampler, page([0.05, 0.2, 3])) == dict.fromkeys(EDGES, 0.0)
    assert buckets(sampler, page([0.05, 0.2, 3, 0.3, 0.4, 9])) == {"0.5": 2.0, "+Inf": 1.0}
    assert buckets(sampler, page([0.05, 0.2, 3, 0.3, 0.4, 9])) == {}
    assert not sampler.restarted


def test_counters_stay_cumulative() -> None:
    sampler = MetricsSampler("e")
    for tokens in (7.0, 9.0):
        rows = {
            r["name"]: r["value"]
            for r in sampler.rows(read_page(page([0.2], tokens=tokens)), AT, "c")
        }
        assert rows["vllm:prompt_tokens_total"] == tokens
        assert rows[f"{TTFT}_count"] == 1.0


def test_a_cell_counts_from_its_own_first_page() -> None:
    """Observations from before its start are not counted, and all edges are listed again."""
    sampler = MetricsSampler("e")
    buckets(sampler, page([0.2]), "a")
    assert buckets(sampler, page([0.2] * 5), "b") == dict.fromkeys(EDGES, 0.0)
    assert buckets(sampler, page([0.2] * 7), "b") == {"0.5": 2.0}


def test_ranks_add_up_and_a_new_one_counts_from_its_beginning() -> None:
    sampler = MetricsSampler("e")
    buckets(sampler, page([0.2], [0.3]))
    assert buckets(sampler, page([0.2, 0.2], [0.3, 0.05])) == {"0.1": 1.0, "0.5": 1.0}
    assert buckets(sampler, page([0.2, 0.2], [0.3, 0.05], [7])) == {"+Inf": 1.0}
    assert not sampler.restarted


def test_a_histogram_that_appears_later_gives_its_edges_then() -> None:
    """Labelled series are missing on the page until their first use."""
    sampler = MetricsSampler("e")
    assert buckets(sampler, page()) == {}
    assert buckets(sampler, page([0.2])) == {"0.1": 0.0, "0.5": 1.0, "1.0": 0.0, "+Inf": 0.0}


def test_an_engine_that_started_anew_counts_from_zero() -> None:
    """Every observation of the new process is new, also if a bucket has more than before."""
    sampler = MetricsSampler("e")
    buckets(sampler, page([0.05, 7, 7, 7, 7]))
    assert buckets(sampler, page([0.05, 0.05, 7])) == {"0.1": 2.0, "+Inf": 1.0}
    assert sampler.restarted
    assert buckets(sampler, page([0.05, 0.05, 7, 7])) == {"+Inf": 1.0}
    assert not sampler.restarted


def test_a_restart_that_no_counter_shows_is_known_by_the_process() -> None:
    sampler = MetricsSampler("e")
    buckets(sampler, page([0.2], started=100.0))
    assert buckets(sampler, page([0.2, 0.2, 7], started=200.5)) == {"0.5": 2.0, "+Inf": 1.0}
    assert sampler.restarted


def test_one_rank_that_started_anew_leaves_the_others_alone() -> None:
    sampler = MetricsSampler("e")
    buckets(sampler, page([0.2] * 9, [0.3] * 9))
    assert buckets(sampler, page([0.2] * 10, [0.3] * 2)) == {"0.5": 3.0}
    assert sampler.restarted
    assert buckets(sampler, page([0.2] * 10)) == {}
    assert not sampler.restarted


def test_a_counter_that_went_back_is_a_restart_too() -> None:
    sampler = MetricsSampler("e")
    sampler.rows(read_page(page(tokens=9)), AT, "c")
    sampler.rows(read_page(page(tokens=2)), AT, "c")
    assert sampler.restarted


def test_a_histogram_left_out_once_has_lost_nothing() -> None:
    """The histogram's sum was NaN on one page; its buckets continue from their earlier values."""
    sampler = MetricsSampler("e")
    buckets(sampler, page([0.2]))
    assert buckets(sampler, page([0.2, 0.2]) + f"\n{TTFT}_sum NaN") == {}
    assert buckets(sampler, page([0.2, 0.2, 0.2])) == {"0.5": 2.0}


def test_percentiles_of_any_window_are_right(catalog: storage.Catalog) -> None:
    """From pages to SQL, they are within a bucket of numpy's values, across a restart in the
    middle."""
    rng = np.random.default_rng(3)
    sampler, running, seen = MetricsSampler("e"), list[float](), list[list[float]]()
    rows: list[dict[str, Any]] = []
    for second in range(30):
        if second == 17:
            running = []
        new = [] if second == 0 else rng.exponential(0.4, 25).tolist()
        running += new
        seen.append(new)
        rows += sampler.rows(read_page(page(running)), AT + timedelta(seconds=second), "c")
    call = {"cell_id": "c", "call_id": "1", "sent_at": AT}
    storage.commit(catalog, {"server_metrics": rows, "calls": [call]})
    for start, end in ((0, 29), (3, 9), (12, 25)):
        inside = [value for new in seen[start + 1 : end + 1] for value in new]
        sql = f"from server_quantile('c', '{TTFT}', 0.9, {start}, {end})"
        (row,) = storage.query(sql, catalog.home)
        truth = np.quantile(inside, 0.9, method="inverted_cdf")
        assert row["n"] == len(inside)
        assert row["lower"] < truth <= row["upper"]
        assert row["lower"] <= row["value"] <= row["upper"]


def test_a_real_page_says_all_that_scheduling_wants() -> None:
    sample = engine_sample(read_page(REAL), 12.5)
    assert sample.at == 12.5
    assert (sample.kv_usage, sample.running, sample.waiting) == (0.0, 0.0, 0.0)
    assert (sample.prefix_queries_total, sample.prefix_hits_total) == (2047.0, 128.0)
    assert sample.preemptions_total == 0.0
    assert (sample.capacity_tokens, sample.block_tokens) == (1024, 32)


def test_what_a_page_does_not_say_is_none_and_not_zero() -> None:
    """A capacity of 0 would admit no call, and an infinite one every call."""
    sample = engine_sample(read_page("vllm:num_requests_running 2\n"), 0.0)
    told = {name: value for name, value in asdict(sample).items() if value is not None}
    assert told == {"at": 0.0, "running": 2.0}


SGLANG = """
sglang:num_running_reqs{tp_rank="0",dp_rank="0"} 3.0
sglang:num_running_reqs{tp_rank="4",dp_rank="1"} 1.0
sglang:num_queue_reqs{dp_rank="0"} 2.0
sglang:token_usage{dp_rank="0"} 0.5
sglang:token_usage{dp_rank="1"} 1e-05
sglang:cache_hit_rate{dp_rank="0"} 0.25
sglang:num_used_tokens{dp_rank="0"} 4096.0
sglang:max_total_num_tokens{dp_rank="0"} 8192.0
sglang:max_total_num_tokens{dp_rank="1"} 8192.0
sglang:page_size{dp_rank="0"} 64.0
sglang:page_size{dp_rank="1"} 64.0
sglang:prompt_tokens_total{model_name="m"} 8.128902e+06
sglang:cached_tokens_total{cache_source="device"} 100.0
sglang:cached_tokens_total{cache_source="host"} 10.0
sglang:generation_tokens_total{model_name="m"} 7.5e+03
sglang:num_retracted_requests_total{dp_rank="1"} 4.0
sglang:time_to_first_token_seconds_bucket{le="0.1",model_name="m"} 3.0
sglang:time_to_first_token_seconds_bucket{le="+Inf",model_name="m"} 5.0
"""


def test_sglang_says_the_same_under_its_own_names() -> None:
    sample = engine_sample(read_page(SGLANG), 1.0)
    assert sample.kv_usage == pytest.approx(0.250005)
    assert (sample.running, sample.waiting, sample.preemptions_total) == (4.0, 2.0, 4.0)
    assert (sample.prefix_queries_total, sample.prefix_hits_total) == (8128902.0, 110.0)
    assert (sample.capacity_tokens, sample.block_tokens) == (16384, 64)
    names = {row["name"] for row in MetricsSampler("e").rows(read_page(SGLANG), AT, "c")}
    assert 'sglang:time_to_first_token_seconds_bucket{le="0.1"}' in names
    assert "sglang:cache_hit_rate" in names


def test_the_window_summary_knows_sglangs_names(catalog: storage.Catalog) -> None:
    sampler = MetricsSampler("e")
    later = SGLANG.replace("8.128902e+06", "8.129102e+06").replace('"device"} 100', '"device"} 150')
    later = later.replace('requests_total{dp_rank="1"} 4', 'requests_total{dp_rank="1"} 24')
    rows = sampler.rows(read_page(SGLANG), AT, "c") + sampler.rows(
        read_page(later), AT + timedelta(seconds=5), "c"
    )
    call = {"cell_id": "c", "call_id": "1", "sent_at": AT}
    storage.commit(catalog, {"server_metrics": rows, "calls": [call]})
    sql = "select server_hit_ratio h, preemptions_per_s p, kv_usage_mean k, running_mean r, "
    sql += "waiting_mean w from window_summary('c', 0, 10)"
    (row,) = storage.query(sql, catalog.home)
    expected = {"h": 50 / 200, "p": 2.0, "k": 0.250005, "r": 4.0, "w": 2.0}
    assert row == pytest.approx(expected)


BLOCKS = 'block_size="16",num_gpu_blocks="100"'
TOKENS = 'block_size="16",kv_cache_size_tokens="700"'


@pytest.mark.parametrize(
    ("configs", "capacity", "block"),
    [
        ([BLOCKS], 1600, 16),
        ([f'{BLOCKS},kv_cache_size_tokens="None"'], 1600, 16),
        ([f"{BLOCKS},{TOKENS}"], 700, 16),
        # Both ranks of one front end say the blocks of all, but their own tokens.
        ([f'{BLOCKS},engine="0"', f'{BLOCKS},engine="1"'], 1600, 16),
        ([f'{TOKENS},engine="0"', f'{TOKENS},engine="1"'], 1400, 16),
        (['block_size="16",num_gpu_blocks="None"'], None, 16),
        (['block_size="16",num_gpu_blocks="0"'], None, 16),
        (['num_gpu_blocks="100"'], None, None),
    ],
)
def test_the_capacity_is_in_the_labels(
    configs: list[str], capacity: int | None, block: int | None
) -> None:
    text = "\n".join(f"vllm:cache_config_info{{{labels}}} 1.0" for labels in configs)
    sample = engine_sample(read_page(text), 0.0)
    assert (sample.capacity_tokens, sample.block_tokens) == (capacity, block)
