"""vLLM's Prometheus text becomes the series we keep, whatever form its numbers and labels have."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tasks.serving.gateway.metrics import KEPT, parse_metrics

HITS = "vllm:prefix_cache_hits_total"
KV = "vllm:kv_cache_usage_perc"


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_a_value_comes_back_as_it_was_written(value: float) -> None:
    """Exponents included: a nearly empty cache is 1e-05, not 1."""
    assert parse_metrics(f'{HITS}{{engine="0"}} {value!r}\n') == {HITS: value}
    assert parse_metrics(f"{HITS} {value!r}\n") == {HITS: value}


@pytest.mark.parametrize(
    ("text", "value"), [("1e-05", 1e-05), ("1.5e+06", 1.5e6), ("+Inf", float("inf"))]
)
def test_exponents_are_read(text: str, value: float) -> None:
    """Python's client library writes small and large values with an exponent."""
    assert parse_metrics(f'{KV}{{engine="0"}} {text}') == {KV: value}


@pytest.mark.parametrize(
    "labels",
    [
        'model_name="a model with spaces"',
        'model_name="{braces}",engine="0"',
        'model_name="} 99 {",engine="0"',
        'path="/weights/v1 (final)"',
        "",
    ],
)
def test_labels_may_hold_anything(labels: str) -> None:
    """Spaces and braces in a label's value do not shift the number."""
    assert parse_metrics(f"{HITS}{{{labels}}} 7.0") == {HITS: 7.0}


def test_counters_of_several_ranks_add_up_and_kv_use_is_their_mean() -> None:
    """Data-parallel ranks stand behind one URL."""
    lines = [f'{HITS}{{engine="{rank}"}} {10 * (rank + 1)}' for rank in range(3)]
    lines += [f'{KV}{{engine="{rank}"}} {share}' for rank, share in enumerate((0.2, 0.4))]
    assert parse_metrics("\n".join(lines)) == pytest.approx({HITS: 60.0, KV: 0.3})


def test_only_known_series_are_kept() -> None:
    """Comments, other programs' series, histogram buckets and longer names are left out."""
    text = f"""# HELP {HITS} hits
# TYPE {HITS} counter
{HITS}_created{{engine="0"}} 1.7e9
python_gc_objects_collected_total 12
vllm:time_to_first_token_seconds_bucket{{le="0.1"}} 3
vllm:time_to_first_token_seconds_sum{{engine="0"}} 0.5

{HITS}{{engine="0"}} 4
"""
    assert parse_metrics(text) == {HITS: 4.0, "vllm:time_to_first_token_seconds_sum": 0.5}
    assert parse_metrics("") == {}


@pytest.mark.parametrize("labels", ["", '{engine="0"}'])
def test_a_time_stamp_after_the_value_is_not_the_value(labels: str) -> None:
    """The format allows one; proxies and federation add it."""
    assert parse_metrics(f"{HITS}{labels} 4 1767225600000") == {HITS: 4.0}


def test_a_value_that_is_no_number_is_an_error() -> None:
    """Nothing is guessed."""
    with pytest.raises(ValueError, match="full"):
        parse_metrics(f"{HITS} full")


def test_the_series_the_summary_asks_for_are_kept() -> None:
    """window_summary.sql reads by name; a name missing here would be null for ever."""
    import re
    from importlib import resources

    sql = resources.files("storage").joinpath("sql", "window_summary.sql").read_text()
    assert set(re.findall(r"'(vllm:\w+)'", sql)) <= KEPT
