"""Read the Prometheus text of vLLM and SGLang: rows of `server_metrics`, samples of engines.

In: a /metrics page of about 100 kB each second. Out: a `MetricsPage` with the series in `KINDS`.
Counts are summed over the ranks behind one URL; shares are averaged. A series with a NaN or
infinite value is left out for all ranks: the sum of the others would look like a counter reset. For
a histogram, each bucket's new observations are stored, so that percentiles of any window are sums
over its rows (the macro `server_quantile`).
"""

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from enum import Enum
from functools import lru_cache
from typing import Any

from tutti.tasks.serving.scheduling.ledger import EngineMetrics

SERIES_REMEMBERED = 1 << 15
"""An engine has some thousand series."""
STARTED = "process_start_time_seconds"
PREFIXES = ("vllm:", "sglang:", STARTED)
LABEL = re.compile(r'([a-zA-Z_]\w*)="((?:[^"\\]|\\.)*)"', re.ASCII)
HEAD = re.compile(r'[a-zA-Z_:][\w:]*\s*(?:\{(?:[^"}]|"(?:[^"\\]|\\.)*")*\})?', re.ASCII)


class SeriesKind(Enum):
    """How a series' lines are read, and how the values of several ranks are combined."""

    COUNTER = "cumulative; ranks add up"
    GAUGE = "as it is now; ranks add up"
    SHARE = "as it is now; the mean of the ranks"
    BUCKET = "cumulative count of a histogram up to `le`; ranks add up"
    CONFIG = "facts in the labels"
    STARTED = "when the process started"


def _names(engine: str, names: str) -> list[str]:
    return [f"{engine}:{name}" for name in names.split()]


HISTOGRAMS = frozenset(
    _names(
        "vllm",
        "time_to_first_token_seconds inter_token_latency_seconds e2e_request_latency_seconds "
        "request_prefill_time_seconds request_decode_time_seconds request_queue_time_seconds "
        "request_time_per_output_token_seconds",
    )
    + _names(
        "sglang",
        "time_to_first_token_seconds inter_token_latency_seconds e2e_request_latency_seconds "
        "time_per_output_token_seconds queue_time_seconds",
    )
)
KINDS: dict[str, SeriesKind] = {
    STARTED: SeriesKind.STARTED,
    **dict.fromkeys(
        _names(
            "vllm",
            "prefix_cache_queries_total prefix_cache_hits_total num_preemptions_total "
            "prompt_tokens_total prompt_tokens_cached_total generation_tokens_total "
            "request_success_total",
        )
        + _names(
            "sglang",
            "prompt_tokens_total cached_tokens_total generation_tokens_total num_requests_total "
            "num_aborted_requests_total num_retracted_requests_total",
        )
        + [f"{histogram}_{part}" for histogram in HISTOGRAMS for part in ("sum", "count")],
        SeriesKind.COUNTER,
    ),
    **dict.fromkeys(
        _names("vllm", "num_requests_running num_requests_waiting")
        + _names("sglang", "num_running_reqs num_queue_reqs num_used_tokens max_total_num_tokens"),
        SeriesKind.GAUGE,
    ),
    **dict.fromkeys(
        _names("vllm", "kv_cache_usage_perc")
        + _names("sglang", "token_usage cache_hit_rate page_size"),
        SeriesKind.SHARE,
    ),
    **dict.fromkeys((f"{histogram}_bucket" for histogram in HISTOGRAMS), SeriesKind.BUCKET),
    "vllm:cache_config_info": SeriesKind.CONFIG,
}
"""All series that are kept, under the engine's own names."""
SUMS = (SeriesKind.COUNTER, SeriesKind.GAUGE, SeriesKind.SHARE)
KEPT = frozenset(name for name, kind in KINDS.items() if kind in SUMS)
"""The names of `MetricsPage.values`."""


@dataclass(frozen=True)
class Series:
    """The series that a line belongs to."""

    name: str
    kind: SeriesKind
    labels: Mapping[str, str]
    family: str
    """The histogram a line belongs to; else the name."""
    rank: tuple[str, frozenset[tuple[str, str]]]
    """The rank and the family; all lines of a rank's family are reset to 0 together."""
    le: float = math.inf
    bucket: str = ""
    """A bucket's name in our rows: the engine's name with only the label `le`."""


@dataclass(frozen=True)
class MetricsPage:
    """The contents of one /metrics page."""

    values: Mapping[str, float]
    """Counters and gauges by name, combined over the ranks."""
    cumulative: Mapping[str, float]
    """Counters and buckets, each line by the text before its value."""
    configs: tuple[Mapping[str, str], ...]
    """Labels of cache_config_info, once for each rank."""
    started_at: float | None
    """When the process started, Unix time; None where the page does not say."""
    left_out: tuple[str, ...]
    """Series without a finite value, each with the value it had."""


def read_page(text: str | bytes) -> MetricsPage:
    """Read one page. Raises ValueError, with the line, if a stored series has no number."""
    if isinstance(text, bytes):
        text = text.decode()
    lines: dict[str, tuple[Series, float]] = {}
    left_out: dict[str, str] = {}
    for line in text.split("\n"):
        if not line.startswith(PREFIXES):
            continue
        head, _, number = line.rstrip().rpartition(" ")
        series = series_of((head or number).rstrip())
        if series is None:
            continue
        try:
            value = float(number)
        except ValueError:
            raise ValueError(f"{number!r} is not a number: {line[:200]!r}") from None
        if math.isfinite(value):
            lines[head] = series, value
        else:
            left_out.setdefault(series.family, f"{series.name} is {number}")
    if left_out:
        lines = {head: line for head, line in lines.items() if line[0].family not in left_out}
    return _page(lines, tuple(left_out.values()))


def _page(lines: Mapping[str, tuple[Series, float]], left_out: tuple[str, ...]) -> MetricsPage:
    totals: dict[str, float] = {}
    ranks: dict[str, int] = {}
    cumulative: dict[str, float] = {}
    configs: list[Mapping[str, str]] = []
    started_at: float | None = None
    for head, (series, value) in lines.items():
        kind = series.kind
        if kind is SeriesKind.COUNTER or kind is SeriesKind.BUCKET:
            cumulative[head] = value
        if kind is SeriesKind.CONFIG:
            configs.append(series.labels)
        elif kind is SeriesKind.STARTED:
            started_at = value
        elif kind is not SeriesKind.BUCKET:
            totals[series.name] = totals.get(series.name, 0.0) + value
            if kind is SeriesKind.SHARE:
                ranks[series.name] = ranks.get(series.name, 0) + 1
    values = {name: total / ranks.get(name, 1) for name, total in totals.items()}
    return MetricsPage(values, cumulative, tuple(configs), started_at, left_out)


@lru_cache(SERIES_REMEMBERED)
def series_of(head: str) -> Series | None:
    """Return the series that the text before a value belongs to; None for one that is not stored.
    Raises ValueError if the text of a stored series is not a name with labels."""
    name = head.partition("{")[0].rstrip()
    kind = KINDS.get(name)
    if kind is None:
        return None
    if HEAD.fullmatch(head) is None:
        raise ValueError(f"not a line of Prometheus text: {head[:200]!r}")
    labels = dict(LABEL.findall(head))
    if kind is SeriesKind.GAUGE and labels.get("priority"):
        return None  # SGLang reports the requests of each priority besides the total
    family = name.removesuffix("_bucket").removesuffix("_sum").removesuffix("_count")
    if kind is not SeriesKind.BUCKET:
        return Series(name, kind, labels, family, (family, frozenset(labels.items())))
    le = labels.pop("le", "")
    try:
        edge = float(le)
    except ValueError:
        raise ValueError(f"{head[:200]}: a bucket whose `le` is {le!r}") from None
    rank = (family, frozenset(labels.items()))
    return Series(name, kind, labels, family, rank, edge, f'{name}{{le="{le}"}}')


Row = dict[str, Any]


class MetricsSampler:
    """Converts an engine's successive metrics pages to rows."""

    restarted: bool = False
    """Whether the last page showed that the engine, or one of its ranks, had restarted."""

    def __init__(self, engine_id: str) -> None:
        self.engine_id = engine_id
        self._cell_id: str | None = None
        self._last: dict[str, float] = {}
        self._started_at: float | None = None
        self._told: set[str] = set()

    def rows(self, page: MetricsPage, at: datetime, cell_id: str) -> list[Row]:
        """Return the page as rows of `cell_id`.

        A bucket has a row if it has new observations since the previous page. It also has a row
        with 0 when it is first seen in a cell, because a percentile needs the edges of empty
        buckets too. A cell's first page is the baseline for its counts. After a restart, counts
        begin at 0 again.
        """
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
        lines = [
            (head, series, value)
            for head, value in page.cumulative.items()
            if (series := series_of(head)) is not None
        ]
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
    own: dict[str, float] = {}
    below = 0.0
    for _, (name, upto) in sorted(edges.items()):
        own[name] = max(
            0.0, upto - below
        )  # counts may be inconsistent if requests end while the page is made
        below = max(below, upto)
    return own


def engine_sample(page: MetricsPage, at: float) -> EngineMetrics:
    """Read a sample from a `page` of vLLM or SGLang, fetched at `at` on a monotonic clock."""

    def value(vllm: str, sglang: str) -> float | None:
        found = page.values.get(f"vllm:{vllm}")
        return found if found is not None else page.values.get(f"sglang:{sglang}")

    return EngineMetrics(
        at=at,
        kv_usage=value("kv_cache_usage_perc", "token_usage"),
        running=value("num_requests_running", "num_running_reqs"),
        waiting=value("num_requests_waiting", "num_queue_reqs"),
        preemptions_total=value("num_preemptions_total", "num_retracted_requests_total"),
        # SGLang looks up every prompt token and has no separate counter for that.
        prefix_queries_total=value("prefix_cache_queries_total", "prompt_tokens_total"),
        prefix_hits_total=value("prefix_cache_hits_total", "cached_tokens_total"),
        capacity_tokens=_capacity_tokens(page),
        block_tokens=_block_tokens(page),
    )


def _capacity_tokens(page: MetricsPage) -> int | None:
    """vLLM's capacity: `kv_cache_size_tokens` is per rank, `num_gpu_blocks` is for all ranks. The
    former accounts for layers that share blocks unevenly and is preferred."""
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
    sizes = [page.values.get("sglang:page_size")]
    sizes += [_count(labels.get("block_size")) for labels in page.configs]
    return next((size for size in map(_count, sizes) if size is not None), None)


def _count(value: Any) -> int | None:
    """Return a positive integer, also if given as text; None for anything else."""
    try:
        number = float(value)
    except (TypeError, ValueError):
        return None
    return int(number) if number > 0 and number.is_integer() else None
