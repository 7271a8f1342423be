"""ThunderAgent's own summary files, computed by our SQL with the same fields and numbers.

In: rows of the macro `reference_window` (read by `over`). Out: the contents of its launcher's
`window_summary.json`, `steps_summary.json` and `combined_summary.json`, as dictionaries in its
order of fields. How to run::

    connection = storage.connect()
    files = RunFiles(usage_jsonl="…/orchestrator_usage.jsonl", metrics_csv="…")
    window = over(connection, cell, 600, 7800)
    json.dumps(combined_summary([window], files), indent=2)
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, tzinfo
from typing import Any

import duckdb

from tutti.tasks.exchange.thunderagent.series import HISTOGRAMS

GAUGES = ("kv_cache_usage_mean_perc", "num_requests_running_mean", "num_requests_waiting_mean")
HITS = ("samples_hit", "sum_hits_tokens", "sum_queries_tokens", "hit_ratio")
PREEMPTIONS = (
    "sum_delta_preemptions",
    "delta_preemptions_mean_per_interval",
    "preemptions_per_sec",
)
USAGE = (
    "responses",
    "sum_cached_tokens",
    "sum_prompt_tokens",
    "cached_tokens_ratio_token_weighted",
    "cached_tokens_ratio_request_avg",
)
TRIALS = (
    "marker_lines_parsed",
    "trials_completed_in_window",
    "window_duration_sec",
    "trials_per_sec",
    "first_marker_unix",
    "last_marker_unix",
)
STEPS = (
    "step_complete_lines_parsed",
    "step_complete_in_window",
    "window_duration_sec",
    "steps_per_sec",
)
Summary = dict[str, Any]


@dataclass(frozen=True)
class RunFiles:
    """The run's files as the summaries name them; None for one that the run does not have.

    A store cannot tell a file without a record from no file. One named here is `available`.
    """

    usage_jsonl: str
    metrics_csv: str | None = None
    gpu_util_csv: str | None = None
    trials_log: str | None = None
    steps_log: str | None = None
    zone: tzinfo | None = None
    """Of the times in ISO form; this machine's when None, as theirs."""


@dataclass(frozen=True)
class MeasuredWindow:
    """One row of `reference_window` and what was asked."""

    start_s: float
    end_s: float
    row: Mapping[str, Any]


def over(
    connection: duckdb.DuckDBPyConnection, cell: str, start_s: float = 600, end_s: float = 7800
) -> MeasuredWindow:
    """Their figures for a cell's window; their default is 10 to 130 minutes after t0."""
    sql = "select * from reference_window($cell, $start_s, $end_s)"
    asked = {"cell": cell, "start_s": float(start_s), "end_s": float(end_s)}
    cursor = connection.execute(sql, asked)
    names = [column[0] for column in cursor.description or []]
    (row,) = cursor.fetchall()
    return MeasuredWindow(start_s, end_s, dict(zip(names, row, strict=True)))


def window_summary(windows: Sequence[MeasuredWindow], files: RunFiles) -> Summary:
    """`window_summary.json`; one run's windows share their t0."""
    t0 = windows[0].row["t0_first_request_unix"]
    if t0 is None:
        return _no_t0(files)
    return {
        "ok": True,
        "t0_first_request_unix": t0,
        "t0_first_request_iso": _iso(t0, files),
        "windows": {f"{int(w.start_s)}-{int(w.end_s)}": _window(w.row, files) for w in windows},
    }


def steps_summary(window: MeasuredWindow, files: RunFiles) -> Summary:
    """`steps_summary.json`."""
    row = window.row
    if row["t0_unix"] is None:
        return _no_t0(files)
    times = _pick(row, ("t0_unix", "t_start_unix", "t_end_unix"))
    found = row["step_complete_lines_parsed"] > 0
    steps = _if_available(_pick(row, STEPS), found, files.steps_log)
    return {"ok": True, **times, "steps": steps}


def combined_summary(windows: Sequence[MeasuredWindow], files: RunFiles) -> Summary:
    """`combined_summary.json`; its steps are those of the first window."""
    summary = window_summary(windows, files)
    names = ("t0_first_request_unix", "t0_first_request_iso", "windows")
    paths = {name: getattr(files, name) for name in ("metrics_csv", "usage_jsonl", "gpu_util_csv")}
    steps = steps_summary(windows[0], files)
    return {
        "ok": summary["ok"],
        **{name: summary.get(name) for name in names},
        "steps": steps,
        "paths": paths,
    }


def _window(row: Mapping[str, Any], files: RunFiles) -> Summary:
    start, end = row["window_start_unix"], row["window_end_unix"]
    metrics: Summary = {"available": True, **_pick(row, (*HITS, *GAUGES))}
    metrics["latency_means_seconds"] = _pick(row, HISTOGRAMS)
    metrics["decode_over_e2e_ratio"] = row["decode_over_e2e_ratio"]
    preemptions = {"samples": row["preemption_samples"], **_pick(row, PREEMPTIONS)}
    metrics["preemptions"] = preemptions
    sampled = row["metrics_available"] or files.metrics_csv is not None
    marked = row["marker_lines_parsed"] > 0
    return {
        "window_start_unix": start,
        "window_end_unix": end,
        "window_start_iso": _iso(start, files),
        "window_end_iso": _iso(end, files),
        "metrics": metrics if sampled else {"available": False},
        "response_usage": {"available": True, **_pick(row, USAGE)},
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


def _iso(unix: float, files: RunFiles) -> str:
    time = datetime.fromtimestamp(unix, UTC).astimezone(files.zone)
    return time.replace(microsecond=0).isoformat()
