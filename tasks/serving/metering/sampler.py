"""Turn an engine's /metrics pages into rows of `server_metrics` and samples for scheduling.

Has no clock and no HTTP: the gateway fetches a page and passes it on with the time.

    page = read_page(text)
    rows = sampler.rows(page, now, cell_id)
    sample = engine_sample(page, time.monotonic())

Counters and gauges are stored as they are. For a histogram, each bucket's new observations are
stored, so that percentiles of any window are sums over its rows (the macro `server_quantile`).
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from tutti.tasks.serving.metering.exposition import (
    MetricsPage,
    Series,
    SeriesKind,
    read_page,
    series_of,
)

Row = dict[str, Any]


class MetricsSampler:
    """Makes rows from an engine's successive pages."""

    restarted: bool = False
    """Whether the last page showed that the engine, or one of its ranks, had restarted."""

    def __init__(self, engine_id: str) -> None:
        self.engine_id = engine_id
        self._cell_id: str | None = None
        self._last: dict[str, float] = {}
        self._started_at: float | None = None
        self._told: set[str] = set()

    def rows(self, page: MetricsPage | str | bytes, at: datetime, cell_id: str) -> list[Row]:
        """The page as rows of `cell_id`. Raises ValueError if the page cannot be read.

        A bucket has a row if it has new observations since the previous page. It also has a row
        with 0 when it is first seen in a cell, because a percentile needs the edges of empty
        buckets too. A cell's first page is the baseline for its counts. After a restart, counts
        begin at 0 again.
        """
        page = page if isinstance(page, MetricsPage) else read_page(page)
        baseline = cell_id != self._cell_id
        if baseline:
            self._cell_id, self._told = cell_id, set()
        observed = self._observed(page, baseline)
        values = dict(page.values)
        values |= {name: n for name, n in observed.items() if n > 0 or name not in self._told}
        self._told.update(observed)
        row = {"cell_id": cell_id, "engine_id": self.engine_id, "at": at}
        return [row | {"name": name, "value": value} for name, value in values.items()]

    def _observed(self, page: MetricsPage, baseline: bool) -> dict[str, float]:
        """New observations of each bucket alone, by its name."""
        lines = [(head, _known(head), value) for head, value in page.cumulative.items()]
        renewed = {s.rank for head, s, value in lines if value < self._last.get(head, value)}
        process = None not in (self._started_at, page.started_at) and (
            self._started_at != page.started_at
        )
        self.restarted = process or bool(renewed)
        cumulative: dict[str, dict[float, tuple[str, float]]] = {}
        for head, series, value in lines:
            if series.kind is not SeriesKind.BUCKET:
                continue
            fresh = process or series.rank in renewed
            new = 0.0 if baseline else value - (0.0 if fresh else self._last.get(head, 0.0))
            edges = cumulative.setdefault(series.family, {})
            edges[series.le] = series.bucket, edges.get(series.le, ("", 0.0))[1] + new
        # Lines that a page lacks are remembered: a series left out once was not reset.
        self._last.update(page.cumulative)
        self._started_at = page.started_at
        return {name: n for edges in cumulative.values() for name, n in _own(edges).items()}


def _own(edges: Mapping[float, tuple[str, float]]) -> dict[str, float]:
    """Convert counts up to each edge into counts between edges."""
    own: dict[str, float] = {}
    below = 0.0
    for _, (name, upto) in sorted(edges.items()):
        own[name] = max(
            0.0, upto - below
        )  # counts may be inconsistent if requests end while the page is made
        below = max(below, upto)
    return own


def _known(head: str) -> Series:
    series = series_of(head)
    assert series is not None, f"{head!r} came from a page, so it was parsed before"
    return series


@dataclass(frozen=True)
class EngineSample:
    """An engine's state as scheduling needs it; None for what the page does not report."""

    at: float
    """Seconds on a monotonic clock."""
    kv_usage: float | None
    """Share of the KV cache in use, 0 to 1."""
    running: float | None
    """Running requests."""
    waiting: float | None
    """Requests in the engine's own queue."""
    preemptions_total: float | None
    """Requests whose KV cache was taken for other requests."""
    prefix_queries_total: float | None
    """Prompt tokens looked up in the prefix cache, ever."""
    prefix_hits_total: float | None
    """Prompt tokens found there."""
    prompt_tokens_total: float | None
    """Prompt tokens, cached or computed."""
    generation_tokens_total: float | None
    """Tokens generated."""
    capacity_tokens: int | None
    """Tokens that fit the KV cache of all ranks."""
    block_tokens: int | None
    """Tokens in one block of the KV cache."""


def engine_sample(page: MetricsPage, at: float) -> EngineSample:
    """Read a sample from a `page` of vLLM or SGLang, fetched at `at` on a monotonic clock."""

    def value(vllm: str, sglang: str) -> float | None:
        found = page.values.get(f"vllm:{vllm}")
        return found if found is not None else page.values.get(f"sglang:{sglang}")

    return EngineSample(
        at=at,
        kv_usage=value("kv_cache_usage_perc", "token_usage"),
        running=value("num_requests_running", "num_running_reqs"),
        waiting=value("num_requests_waiting", "num_queue_reqs"),
        preemptions_total=value("num_preemptions_total", "num_retracted_requests_total"),
        # SGLang looks up every prompt token and has no separate counter for that.
        prefix_queries_total=value("prefix_cache_queries_total", "prompt_tokens_total"),
        prefix_hits_total=value("prefix_cache_hits_total", "cached_tokens_total"),
        prompt_tokens_total=value("prompt_tokens_total", "prompt_tokens_total"),
        generation_tokens_total=value("generation_tokens_total", "generation_tokens_total"),
        capacity_tokens=_capacity_tokens(page),
        block_tokens=_block_tokens(page),
    )


def capacity_of_sglang(server_info: Any) -> int | None:
    """Tokens that fit SGLang's KV cache, from the JSON of its /get_server_info; None if not
    reported.

    Each data-parallel rank reports a state with its own capacity. Versions without these states
    report one rank's `max_total_num_tokens`, at the top level or under `server_info`.
    """
    if not isinstance(server_info, Mapping):
        return None
    inner = server_info.get("server_info")
    places = [place for place in (server_info, inner) if isinstance(place, Mapping)]
    for place in places:
        states = place.get("internal_states")
        found = [_state_capacity(s) for s in states] if isinstance(states, list) else []
        ranks = [n for n in found if n is not None]
        if ranks and len(ranks) == len(found):
            return sum(ranks)
    for place in places:
        if (one := _count(place.get("max_total_num_tokens"))) is not None:
            return one * (_count(place.get("dp_size")) or 1)
    return None


def _state_capacity(state: Any) -> int | None:
    memory = state.get("memory_usage") if isinstance(state, Mapping) else None
    return _count(memory.get("token_capacity")) if isinstance(memory, Mapping) else None


def _capacity_tokens(page: MetricsPage) -> int | None:
    """vLLM's capacity: `kv_cache_size_tokens` is per rank, `num_gpu_blocks` is for all ranks.

    The former accounts for layers that share blocks unevenly and is preferred.
    """
    sizes = [_count(labels.get("kv_cache_size_tokens")) for labels in page.configs]
    own = [size for size in sizes if size is not None]
    if own and len(own) == len(sizes):
        return sum(own)
    if (pool := _count(page.values.get("sglang:max_total_num_tokens"))) is not None:
        return pool
    blocks = [_count(labels.get("num_gpu_blocks")) for labels in page.configs]
    block_tokens = _block_tokens(page)
    most = max((n for n in blocks if n is not None), default=None)
    return None if most is None or block_tokens is None else most * block_tokens


def _block_tokens(page: MetricsPage) -> int | None:
    if (size := _count(page.values.get("sglang:page_size"))) is not None:
        return size
    names = ("block_size", "page_size")
    sizes = (_count(labels.get(name)) for labels in page.configs for name in names)
    return next((size for size in sizes if size is not None), None)


def _count(value: Any) -> int | None:
    """A positive whole number, also if given as text; None for anything else."""
    try:
        number = float(value)
    except (TypeError, ValueError):
        return None
    return int(number) if number > 0 and number.is_integer() else None
