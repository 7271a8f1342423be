"""Export of ThunderAgent's logs (usage, prefix cache, GPUs) and its summary files from the store.

In: a connection of `storage.connect` and a cell. Out: ``orchestrator_usage.jsonl``,
``prefix_cache_timeseries.csv`` (further engines: ``prefix_cache_1_timeseries.csv``),
``gpu_sm_util_timeseries.csv``, and summaries, which are rows of the macro `reference_window`. A
change is that of an imported log, else the difference of the totals, 0 if a counter went back, as
in their sampler. Unmeasured values are ``nan``.
"""

import csv
import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, tzinfo
from functools import partial
from itertools import chain, groupby
from operator import itemgetter
from pathlib import Path
from typing import IO, Any

import duckdb

from tutti.storage import replacing
from tutti.tasks.exchange.thunderagent.series import HISTOGRAMS, NAMES

USAGE, GPU = "orchestrator_usage.jsonl", "gpu_sm_util_timeseries.csv"
PREFIX = "prefix_cache"
ROWS_AT_ONCE = 10_000
NONE = "nan"
HEADER = (
    *("ts_iso", "ts_unix", "hits_total", "queries_total", "delta_hits", "delta_queries"),
    *("delta_miss_tokens", "hit_ratio", "preemptions_total", "delta_preemptions"),
    *("kv_cache_usage_perc", "num_requests_running", "num_requests_waiting"),
    *(
        name
        for base in HISTOGRAMS
        for name in (
            *(f"{base}_sum", f"{base}_count", f"delta_{base}_sum", f"delta_{base}_count"),
            f"{base}_mean",
        )
    ),
)
GPU_HEADER = "ts_iso ts_unix gpu_index sm_util mem_util mem_used_mib mem_total_mib".split()
OF_SGLANG = {
    "sglang:cached_tokens_total": "vllm:prefix_cache_hits_total",
    "sglang:prompt_tokens_total": "vllm:prefix_cache_queries_total",
    "sglang:num_retracted_requests_total": "vllm:num_preemptions_total",
    "sglang:token_usage": "vllm:kv_cache_usage_perc",
    "sglang:num_running_reqs": "vllm:num_requests_running",
    "sglang:num_queue_reqs": "vllm:num_requests_waiting",
}
"""SGLang's names of what vLLM calls otherwise, as `window_summary` takes them."""
USAGE_SQL = """
select call_id, endpoint, model, params, epoch_us(ended_at) / 1e6 as ts_unix, prompt_tokens,
       completion_tokens, cached_tokens
from calls where cell_id = $cell and role = 'orchestrator' and status = 'ok'
    and ended_at is not null
order by ended_at, call_id
"""
ENGINES_SQL = """
select distinct engine_id from server_metrics
where cell_id = $cell and name in (select unnest($names)) order by engine_id
"""
SERIES_SQL = """
select epoch_us("at") / 1e6 as ts_unix, name, value from server_metrics
where cell_id = $cell and engine_id is not distinct from $engine
order by "at", name
"""
GPU_SQL = r"""
select ts_unix, gpu, max(value) filter (what = 'gpu_utilization') as sm_util,
       max(value) filter (what = 'gpu_memory_utilization') as mem_util,
       coalesce(max(value) filter (what = 'gpu_memory_used_mib'),
                max(value) filter (what = 'memory_used_bytes') / 1048576) as mem_used_mib,
       max(value) filter (what = 'gpu_memory_total_mib') as mem_total_mib
from (select epoch_us("at") / 1e6 as ts_unix, value,
             if(starts_with(name, 'nvml:'), regexp_extract(name, '^nvml:([a-z_]+)\{', 1), name)
                 as what,
             if(starts_with(name, 'nvml:'), regexp_extract(name, 'gpu="(\w[\w.:-]*)"', 1),
                regexp_extract(engine_id, '^gpu(\w[\w.:-]*)$', 1)) as gpu
      from server_metrics
      where cell_id = $cell and (starts_with(name, 'nvml:') or starts_with(name, 'gpu_')))
where what in ('gpu_utilization', 'gpu_memory_utilization', 'gpu_memory_used_mib',
               'memory_used_bytes', 'gpu_memory_total_mib')
group by ts_unix, gpu order by ts_unix, gpu
"""


def write_logs(connection: duckdb.DuckDBPyConnection, cell: str, folder: Path) -> dict[str, Path]:
    """Write the cell's logs into the existing `folder`; return the files by name.

    The names are ``usage_jsonl``, ``metrics_csv`` (the first engine's) and ``gpu_util_csv``, as in
    their summaries, and ``metrics_csv_1``, … of further engines.
    """
    written: dict[str, Path] = {}
    lines = (json.dumps(row) + "\n" for row in _usage(connection, cell))
    if _write(folder / USAGE, lines, lambda stream, every: stream.writelines(every)):
        written["usage_jsonl"] = folder / USAGE
    names = [*NAMES.values(), *OF_SGLANG]
    names = [name for name in names if name.startswith(("vllm:", "sglang:"))]
    engines = connection.execute(ENGINES_SQL, {"cell": cell, "names": names}).fetchall()
    for nth, (engine,) in enumerate(engines):
        part, key = (f"_{nth}", f"metrics_csv_{nth}") if nth else ("", "metrics_csv")
        path = folder / f"{PREFIX}{part}_timeseries.csv"
        if _write(path, _series(connection, cell, engine), partial(_csv, HEADER)):
            written[key] = path
    if _write(folder / GPU, _gpus(connection, cell), partial(_csv, GPU_HEADER)):
        written["gpu_util_csv"] = folder / GPU
    return written


def _usage(connection: duckdb.DuckDBPyConnection, cell: str) -> Iterator[dict[str, Any]]:
    for row in _rows(connection, USAGE_SQL, cell=cell):
        given = json.loads(row["params"] or "{}")
        prompt, completion = row["prompt_tokens"], row["completion_tokens"]
        cached = row["cached_tokens"]
        yield {
            "ts_unix": row["ts_unix"],
            "ts_iso": _iso(row["ts_unix"]),
            "req_id": given.get("req_id", row["call_id"]),
            "base_url": row["endpoint"],
            "model": given.get("model", row["model"]),
            "prompt_tokens": prompt,
            "completion_tokens": completion,
            "total_tokens": None if prompt is None else prompt + (completion or 0),
            "cached_tokens": cached,  # theirs has 0 where the engine does not say; 0 is a claim
            "cached_tokens_ratio": cached / prompt if prompt and cached is not None else None,
            "cached_tokens_inferred": given.get("cached_tokens_inferred", False),
        }


def _series(
    connection: duckdb.DuckDBPyConnection, cell: str, engine: str | None
) -> Iterator[list[str]]:
    """Yield one line per sample that has these series, with the values read at one time."""
    before: dict[str, float] = {}  # the last totals
    rows = _rows(connection, SERIES_SQL, cell=cell, engine=engine)
    for at, some in groupby(rows, itemgetter("ts_unix")):
        sample = {OF_SGLANG.get(row["name"], row["name"]): row["value"] for row in some}
        if sample.keys().isdisjoint(NAMES.values()):
            continue
        values = {
            column: _change(column, sample, before)
            if "delta_" in column
            else sample.get(NAMES.get(column, ""))
            for column in HEADER
        }
        before |= {name: value for name, value in sample.items() if value is not None}
        hits, queries = values["delta_hits"], values["delta_queries"]
        if hits is not None and queries is not None:
            values["delta_miss_tokens"] = max(0.0, queries - hits)
        values["hit_ratio"] = _share(hits, queries)
        for base in HISTOGRAMS:
            total, count = values[f"delta_{base}_sum"], values[f"delta_{base}_count"]
            values[f"{base}_mean"] = _share(total, count)
        yield [_iso(at), repr(at), *(_text(values[column]) for column in HEADER[2:])]


def _change(
    column: str, sample: Mapping[str, float | None], before: Mapping[str, float]
) -> float | None:
    name = NAMES.get(column)
    if name is None:
        return None
    if name in sample:
        return sample[name]
    total = name.removesuffix(":delta")
    now, last = sample.get(total), before.get(total)
    return None if now is None or last is None else max(0.0, now - last)


def _gpus(connection: duckdb.DuckDBPyConnection, cell: str) -> Iterator[list[str]]:
    for row in _rows(connection, GPU_SQL, cell=cell):
        figures = [row[name] for name in GPU_HEADER[3:]]
        yield [_iso(row["ts_unix"]), repr(row["ts_unix"]), row["gpu"], *map(_text, figures)]


def _share(top: float | None, bottom: float | None) -> float | None:
    return None if top is None or not bottom else top / bottom


def _text(value: float | None) -> str:
    return NONE if value is None else repr(value)


def _iso(unix: float) -> str:
    return datetime.fromtimestamp(unix, UTC).replace(tzinfo=None).isoformat(timespec="seconds")


def _rows(
    connection: duckdb.DuckDBPyConnection, sql: str, **values: Any
) -> Iterator[dict[str, Any]]:
    cursor = connection.cursor()
    try:
        cursor.execute("set timezone = 'UTC'")
        cursor.execute(sql, values)
        names = [column[0] for column in cursor.description or []]
        while some := cursor.fetchmany(ROWS_AT_ONCE):
            for row in some:
                yield dict(zip(names, row, strict=True))
    finally:
        cursor.close()


def _write(
    path: Path, rows: Iterator[Any], write: Callable[[IO[str], Iterable[Any]], object]
) -> bool:
    """Write the rows by `write`; no file for none. Return whether there are some."""
    first = next(rows, None)
    if first is None:
        path.unlink(missing_ok=True)  # of an earlier export into this folder
        return False
    with replacing(path) as unfinished, unfinished.open("w") as stream:
        write(stream, chain([first], rows))
    return True


def _csv(header: Sequence[str], stream: IO[str], rows: Iterable[list[str]]) -> None:
    csv.writer(stream, lineterminator="\n").writerows(chain([header], rows))


METRICS = "samples_hit sum_hits_tokens sum_queries_tokens hit_ratio".split()
METRICS += "kv_cache_usage_mean_perc num_requests_running_mean num_requests_waiting_mean".split()
PREEMPTIONS = "sum_delta_preemptions delta_preemptions_mean_per_interval".split()
PREEMPTIONS += ["preemptions_per_sec"]
USAGE_FIGURES = "responses sum_cached_tokens sum_prompt_tokens".split()
USAGE_FIGURES += ["cached_tokens_ratio_token_weighted", "cached_tokens_ratio_request_avg"]
TRIALS = "marker_lines_parsed trials_completed_in_window window_duration_sec".split()
TRIALS += ["trials_per_sec", "first_marker_unix", "last_marker_unix"]
STEPS = "step_complete_lines_parsed step_complete_in_window window_duration_sec".split()
STEPS += ["steps_per_sec"]
Summary = dict[str, Any]
Window = Mapping[str, Any]


@dataclass(frozen=True)
class RunFiles:
    """The run's files as the summaries name them; None for a missing one. A store cannot
    distinguish a file without records from no file. One named here is `available`."""

    usage_jsonl: str
    metrics_csv: str | None = None
    gpu_util_csv: str | None = None
    trials_log: str | None = None
    steps_log: str | None = None
    zone: tzinfo | None = None
    """Of the times in ISO form; this machine's when None, as theirs."""


def over(
    connection: duckdb.DuckDBPyConnection, cell: str, start_s: float = 600, end_s: float = 7800
) -> Window:
    """The row of `reference_window` for a cell's window; its default is 10 to 130 minutes after
    t0. The window's name is `window`."""
    sql = "select * from reference_window($cell, $start_s, $end_s)"
    seconds = {"start_s": float(start_s), "end_s": float(end_s)}
    (row,) = _rows(connection, sql, cell=cell, **seconds)
    return {**row, "window": f"{int(start_s)}-{int(end_s)}"}


def window_summary(windows: Sequence[Window], files: RunFiles) -> Summary:
    """Return `window_summary.json`; one run's windows share their t0."""
    t0 = windows[0]["t0_first_request_unix"]
    if t0 is None:
        return _no_t0(files)
    return {
        "ok": True,
        "t0_first_request_unix": t0,
        "t0_first_request_iso": _local_iso(t0, files),
        "windows": {window["window"]: _window(window, files) for window in windows},
    }


def steps_summary(window: Window, files: RunFiles) -> Summary:
    """Return `steps_summary.json`."""
    if window["t0_unix"] is None:
        return _no_t0(files)
    times = _pick(window, ("t0_unix", "t_start_unix", "t_end_unix"))
    found = window["step_complete_lines_parsed"] > 0
    steps = _if_available(_pick(window, STEPS), found, files.steps_log)
    return {"ok": True, **times, "steps": steps}


def combined_summary(windows: Sequence[Window], files: RunFiles) -> Summary:
    """Return `combined_summary.json`; its steps are those of the first window."""
    summary = window_summary(windows, files)
    names = ("ok", "t0_first_request_unix", "t0_first_request_iso", "windows")
    paths = {name: getattr(files, name) for name in ("metrics_csv", "usage_jsonl", "gpu_util_csv")}
    figures = {name: summary.get(name) for name in names}
    return {**figures, "steps": steps_summary(windows[0], files), "paths": paths}


def _window(row: Mapping[str, Any], files: RunFiles) -> Summary:
    start, end = row["window_start_unix"], row["window_end_unix"]
    metrics = {
        "available": True,
        **_pick(row, METRICS),
        "latency_means_seconds": _pick(row, HISTOGRAMS),
        "decode_over_e2e_ratio": row["decode_over_e2e_ratio"],
        "preemptions": {"samples": row["preemption_samples"], **_pick(row, PREEMPTIONS)},
    }
    sampled = row["metrics_available"] or files.metrics_csv is not None
    marked = row["marker_lines_parsed"] > 0
    return {
        "window_start_unix": start,
        "window_end_unix": end,
        "window_start_iso": _local_iso(start, files),
        "window_end_iso": _local_iso(end, files),
        "metrics": metrics if sampled else {"available": False},
        "response_usage": {"available": True, **_pick(row, USAGE_FIGURES)},
        "trials": _if_available(_pick(row, TRIALS), marked, files.trials_log),
    }


def _if_available(figures: Summary, found: bool, log: str | None) -> Summary:
    if not found and log is None:
        return {"available": False}
    return {"available": True, **figures, "source_log": log}


def _pick(row: Mapping[str, Any], names: Sequence[str]) -> Summary:
    return {name: row[name] for name in names}


def _no_t0(files: RunFiles) -> Summary:
    return {"ok": False, "reason": "no_t0", "usage_jsonl": files.usage_jsonl}


def _local_iso(unix: float, files: RunFiles) -> str:
    time = datetime.fromtimestamp(unix, UTC).astimezone(files.zone)
    return time.replace(microsecond=0).isoformat()
