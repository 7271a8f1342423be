"""Import of the samplers' `*_timeseries.csv` of ThunderAgent's and ToolOrchestra's examples.

In: a file and its lines, wide (a column per series) or long (columns `metric` and `value`). Out:
one `ImportedRecords` per line. "nan" means that the sampler read no number, and is not an issue.
"""

import csv
import math
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from tutti.tasks.exchange.base.imported import (
    Cell,
    ImportedItem,
    ImportedRecords,
    ImportIssue,
    shown,
)

HISTOGRAMS = (
    "time_to_first_token_seconds",
    "inter_token_latency_seconds",
    "e2e_request_latency_seconds",
    "request_prefill_time_seconds",
    "request_decode_time_seconds",
)
NAMES = {
    "hits_total": "vllm:prefix_cache_hits_total",
    "delta_hits": "vllm:prefix_cache_hits_total:delta",
    "queries_total": "vllm:prefix_cache_queries_total",
    "delta_queries": "vllm:prefix_cache_queries_total:delta",
    "preemptions_total": "vllm:num_preemptions_total",
    "delta_preemptions": "vllm:num_preemptions_total:delta",
    "kv_cache_usage_perc": "vllm:kv_cache_usage_perc",
    "num_requests_running": "vllm:num_requests_running",
    "num_requests_waiting": "vllm:num_requests_waiting",
    "sm_util": "gpu_utilization",
    "mem_util": "gpu_memory_utilization",
    "mem_used_mib": "gpu_memory_used_mib",
    "mem_total_mib": "gpu_memory_total_mib",
}
"""Series names of columns; other numeric columns keep their own names."""
NAMES |= {f"{base}_{end}": f"vllm:{base}_{end}" for base in HISTOGRAMS for end in ("sum", "count")}
NAMES |= {
    f"delta_{base}_{end}": f"vllm:{base}_{end}:delta"
    for base in HISTOGRAMS
    for end in ("sum", "count")
}
DERIVED = {"delta_miss_tokens", "hit_ratio", *(f"{base}_mean" for base in HISTOGRAMS)}
"""Columns that follow from others of the same row."""
PLACES = {"ts_iso", "ts_unix", "gpu_index", "port", "metric"}
"""Columns that identify a sample's time and object."""
NO_NUMBER = {"", "nan", "-nan", "+nan", "none"}
MICROSECOND = timedelta(microseconds=1)


@dataclass(frozen=True)
class LogLine:
    """A line of a log that may still be growing."""

    number: int
    text: str
    ended: bool
    """Whether it has a line end: a line without one may still grow."""

    def unended(self, file: Path) -> ImportIssue:
        """The issue of a line without an end."""
        return ImportIssue(file, self.number, "", "the line has no end yet: it is not taken")


def read_series(file: Path, cell: Cell, lines: Iterable[LogLine]) -> Iterator[ImportedItem]:
    """One recording per sample. Samples of one engine with the same time stamp (its resolution is a
    second) are distinguished by microseconds, so that values sampled together stay together."""
    names: list[str] = []
    seen: Counter[Any] = Counter()
    place = 0
    for line in lines:
        if not line.ended:
            yield line.unended(file)
            return
        cells = _cells(line.text)
        if not names and "ts_unix" not in cells:
            yield ImportIssue(file, line.number, "ts_unix", f"no such column in {shown(line.text)}")
            return
        names = names or cells
        if not line.text or cells == names:  # a restarted sampler writes its header again
            continue
        place += 1
        row = dict(zip(names, cells, strict=False))
        if len(cells) != len(names):
            said = f"{len(cells)} cells in {shown(line.text)}, the header has {len(names)}"
            yield ImportIssue(file, line.number, "", said)
        samples, problems = _samples(row)
        for column, value in problems:
            yield ImportIssue(file, line.number, column, f"{shown(value)} is not a number")
        try:
            at = datetime.fromtimestamp(float(row.get("ts_unix", "")), UTC)
        except (ValueError, OverflowError, OSError):
            said = f"{shown(row.get('ts_unix'))} is not a Unix time"
            yield ImportIssue(file, line.number, "ts_unix", said)
            continue
        engine = f"vllm:{row['port']}" if "port" in row else "vllm"
        engine = f"gpu{row['gpu_index']}" if "gpu_index" in row else engine
        key = (at, engine, row.get("metric"))
        about: dict[str, Any] = {"engine_id": engine, "at": at + seen[key] * MICROSECOND}
        seen[key] += 1
        if samples:
            rows = [about | {"name": name, "value": value} for name, value in samples]
            yield ImportedRecords(cell, file.name, place - 1, {"server_metrics": rows}, 1)


def _cells(text: str) -> list[str]:
    try:
        return next(csv.reader([text]), [])
    except csv.Error:  # a cell beyond the csv module's limit: no sampler writes one
        return []


def _samples(row: dict[str, str]) -> tuple[list[tuple[str, float | None]], list[tuple[str, str]]]:
    """Return the numbers by series name, and invalid columns with their values. A change that the
    sampler could not determine is null, as recorded."""
    samples: list[tuple[str, float | None]] = []
    problems = []
    for column, text in row.items():
        name = NAMES.get(column, column)
        if column in PLACES or column in DERIVED:
            continue
        if text.strip().lower() in NO_NUMBER:
            if name.endswith(":delta"):
                samples.append((name, None))
            continue
        try:
            value = float(text)
        except ValueError:
            value = math.inf
        if not math.isfinite(value):
            problems.append((column, text))
        elif column == "value" and "metric" in row:
            samples.append((row["metric"].split("{")[0], value))
        else:
            samples.append((name, value))
    return samples, problems
