"""Prometheus text becomes the series we keep, whatever form its numbers and labels have."""

import math
import re
import time
from importlib import resources
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tutti.tasks.serving.metering.metrics import (
    KEPT,
    SERIES_REMEMBERED,
    read_page,
    series_of,
)

HITS = "vllm:prefix_cache_hits_total"
KV = "vllm:kv_cache_usage_perc"
TTFT = "vllm:time_to_first_token_seconds"
REAL = (Path(__file__).parent / "vllm-0.32.prom").read_text()
"""What vLLM 0.32 said after 46 requests."""


def values_of(text: str | bytes) -> dict[str, float]:
    """Counters and gauges of a page by name."""
    return dict(read_page(text).values)


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_a_value_comes_back_as_it_was_written(value: float) -> None:
    """In all the forms that Python writes a number in."""
    assert values_of(f'{HITS}{{engine="0"}} {value!r}\n') == {HITS: value}
    assert values_of(f"{HITS} {value!r}\n".encode()) == {HITS: value}


@pytest.mark.parametrize(("text", "value"), [("1e-05", 1e-05), ("1.5e+06", 1.5e6), ("2E3", 2e3)])
def test_exponents_are_read(text: str, value: float) -> None:
    """ThunderAgent's pattern ends before the exponent: a nearly empty cache is full to it."""
    line = f'{KV}{{engine="0"}} {text}'
    reference = re.search(r"vllm:kv_cache_usage_perc\{[^}]*\}\s+([\d.]+)", line)
    assert reference is not None and float(reference.group(1)) != value
    assert values_of(line) == {KV: value}


def test_every_rank_counts() -> None:
    """ThunderAgent reads the first line of a series: of three ranks behind a URL it knows one."""
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
@pytest.mark.parametrize(
    "value",
    ["7.0", "7.0 ", "7 1767225600000", " 7.0\r", "\t7.0", '7 # {id="a"} 1', "7 1.5 # {} 1 2"],
)
def test_nothing_around_the_value_is_taken_for_it(labels: str, value: str) -> None:
    """Labels hold anything; blanks, a time stamp and an exemplar may stand around the value."""
    assert values_of(f"{HITS}{{{labels}}} {value}") == {HITS: 7.0}
    assert values_of(f"{HITS} {value}") == {HITS: 7.0}
    assert values_of(f"{HITS}{{{labels}}}{value}") == {HITS: 7.0}


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
    """Nothing is guessed; the message shows the line."""
    with pytest.raises(ValueError, match="vllm:"):
        read_page(f"{KV} 0.5\n{line}\n")


@pytest.mark.parametrize("value", ["NaN", "+Inf", "-Inf"])
def test_a_number_that_means_nothing_is_left_out_with_a_reason(value: str) -> None:
    """All ranks of it: the sum of the others would look like a counter that went back."""
    text = f'{HITS}{{engine="0"}} 4\n{HITS}{{engine="1"}} {value}\n{KV} 0.5\n'
    text += f'{TTFT}_bucket{{le="+Inf"}} 3\n{TTFT}_sum {value}\n{TTFT}_count 3\n'
    page = read_page(text)
    assert page.values == {KV: 0.5}
    assert page.cumulative == {}
    assert page.left_out == (f"{HITS} is {value}", f"{TTFT}_sum is {value}")


def test_the_requests_of_a_priority_are_not_added_to_those_of_all() -> None:
    """SGLang gives both, all under an empty label."""
    text = 'sglang:num_queue_reqs{priority=""} 5\nsglang:num_queue_reqs{priority="1"} 3\n'
    assert values_of(text) == {"sglang:num_queue_reqs": 5.0}


def test_a_real_page_of_vllm() -> None:
    """46 requests of the pocket model; its figures as they are on the page."""
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
    """They read by name; a name missing here would always be null."""
    sql = resources.files("tutti.storage").joinpath("sql", "window_summary.sql").read_text()
    assert set(re.findall(r"'((?:vllm|sglang):\w+)'", sql)) <= KEPT


def test_a_page_of_a_hundred_kilobytes_takes_a_moment() -> None:
    """0.5 ms where this was written, of each second; ten times that is still no load."""
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
