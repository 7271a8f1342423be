"""A run of ThunderAgent's HLE example as files, and its summaries computed from those files.

The summaries follow the definitions (reference digest, section 3.6), in plain Python over the raw
text, independently of our SQL and our importer: both are compared with them.
"""

import csv
import json
import math
import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

HISTOGRAMS = (
    "time_to_first_token_seconds",
    "inter_token_latency_seconds",
    "e2e_request_latency_seconds",
    "request_prefill_time_seconds",
    "request_decode_time_seconds",
)
HEADER = [
    *("ts_iso", "ts_unix", "hits_total", "queries_total", "delta_hits", "delta_queries"),
    *("delta_miss_tokens", "hit_ratio", "preemptions_total", "delta_preemptions"),
    *("kv_cache_usage_perc", "num_requests_running", "num_requests_waiting"),
    *(
        column
        for base in HISTOGRAMS
        for column in (
            f"{base}_sum",
            f"{base}_count",
            f"delta_{base}_sum",
            f"delta_{base}_count",
            f"{base}_mean",
        )
    ),
]
COUNTERS = ["hits", "queries", "preemptions"]
COUNTERS += [f"{base}_{end}" for base in HISTOGRAMS for end in ("sum", "count")]
START = 1_767_225_600.0  # 2026-01-01
NAN = math.nan


@dataclass
class Sampler:
    """ThunderAgent's sampling script: totals, and changes since the previous sample, clamped at
    0."""

    awk: str = "mawk"
    """After a sample without numbers mawk notes no change and gawk the whole counter."""
    before: dict[str, float | None] | None = None

    def row(self, stamp: str, now: dict[str, float], gauges: Sequence[float]) -> list[str]:
        """Return the cells of one line; NaN in `now` or `gauges` is a number that was not
        available."""
        last = self.before or dict.fromkeys(now)
        change = {name: self._change(now[name], last[name]) for name in now}
        self.before = dict(now)
        cells = [datetime.fromtimestamp(float(stamp), UTC).isoformat(), stamp]
        cells += [_text(now[name]) for name in ("hits", "queries")]
        cells += [_fixed(change[name]) for name in ("hits", "queries")]
        miss = max(0.0, change["queries"] - change["hits"])
        cells += [_fixed(miss), _fixed(_share(change["hits"], change["queries"]))]
        cells += [_text(now["preemptions"]), _fixed(change["preemptions"])]
        cells += [_text(value) for value in gauges]
        for base in HISTOGRAMS:
            s, c = f"{base}_sum", f"{base}_count"
            cells += [_text(now[s]), _text(now[c]), _fixed(change[s]), _fixed(change[c])]
            cells.append(_fixed(_share(change[s], change[c])))
        return cells

    def _change(self, now: float, before: float | None) -> float:
        if before is None or math.isnan(now):
            return NAN
        if math.isnan(before):
            return NAN if self.awk == "mawk" else now
        return max(0.0, now - before)


def _share(top: float, bottom: float) -> float:
    return top / bottom if bottom > 0 else NAN


def _text(value: float) -> str:
    return "nan" if math.isnan(value) else repr(value)


def _fixed(value: float) -> str:
    return "nan" if math.isnan(value) else f"{value:.10f}"


def write_run(
    folder: Path, seed: int, hours: float = 2.25, awk: str = "mawk", ends_s: float = math.inf
) -> None:
    """Write a run of realistic shape: `hours` at one sample per 2 s, steps every 8 s, dead from
    `ends_s`.

    Its counters restart twice, some samples have no numbers, some seconds have two samples, and
    some usage lines lack their cached tokens.
    """
    folder.mkdir(parents=True)
    rng = random.Random(seed)
    end_s = min(hours * 3600, ends_s)
    (folder / "prefix_cache_timeseries.csv").write_text(_series(rng, end_s, awk))
    (folder / "gpu_sm_util_timeseries.csv").write_text(_gpu(rng, end_s))
    (folder / "orchestrator_usage.jsonl").write_text(_usage(rng, end_s))
    (folder / "eval.log").write_text(_log(rng, end_s))


def _series(rng: random.Random, end_s: float, awk: str) -> str:
    sampler = Sampler(awk)
    totals = dict.fromkeys(COUNTERS, 0.0)
    second, lines = -20.0, [",".join(HEADER)]
    while second < end_s:
        if rng.random() < 0.0007:
            totals = dict.fromkeys(COUNTERS, 0.0)  # the engine was restarted
        queries = float(rng.randrange(0, 30_000)) if rng.random() < 0.7 else 0.0
        totals["queries"] += queries
        totals["hits"] += float(round(queries * rng.random()))
        totals["preemptions"] += float(rng.random() < 0.1)
        for base in HISTOGRAMS:
            count = rng.randrange(0, 4)
            totals[f"{base}_count"] += float(count)
            totals[f"{base}_sum"] += count * rng.expovariate(0.2)
        gauges = [rng.random(), float(rng.randrange(0, 30)), float(rng.randrange(0, 20))]
        lost = rng.random() < 0.01
        now = dict.fromkeys(COUNTERS, NAN) if lost else dict(totals)
        if rng.random() < 0.01:
            now["preemptions"] = gauges[1] = NAN
        shown = [NAN] * 3 if lost else gauges
        lines.append(",".join(sampler.row(str(int(START + second)), now, shown)))
        second += 0.0 if rng.random() < 0.01 else 2.0
    return "\n".join(lines) + "\n"


def _gpu(rng: random.Random, end_s: float) -> str:
    lines = ["ts_iso,ts_unix,gpu_index,sm_util,mem_util,mem_used_mib,mem_total_mib"]
    for second in range(0, int(end_s), 60):
        numbers = (
            "nan,nan,nan,nan" if rng.random() < 0.1 else f"{rng.randrange(101)},40,30000,32000"
        )
        lines.append(f"-,{START + second:.3f},0,{numbers}")
    return "\n".join(lines) + "\n"


def _usage(rng: random.Random, end_s: float) -> str:
    lines: list[str] = []
    second = 41.0
    while second < end_s:
        prompt = rng.randrange(500, 27_000)
        record: dict[str, Any] = {"ts_unix": START + second + rng.random(), "ts_iso": ""}
        record["ts_iso"] = datetime.fromtimestamp(record["ts_unix"], UTC).isoformat()[:19]
        record |= {"req_id": f"r{len(lines)}", "base_url": "http://127.0.0.1:8000/v1"}
        record |= {"model": "/ckpt/Orchestrator-8B", "prompt_tokens": prompt}
        record |= {"completion_tokens": rng.randrange(1, 12_000)}
        record["cached_tokens"] = rng.choice([0, prompt // 16 * 8, prompt // 4])
        record["cached_tokens_inferred"] = record["cached_tokens"] == 0
        if rng.random() < 0.02 or not lines:
            del record["cached_tokens"]
        if rng.random() < 0.02:
            record["prompt_tokens"] = 0
        lines.append(json.dumps(record))
        second += rng.expovariate(1 / 8)
    # Threads append without a lock: near lines may be out of order.
    for i in range(1, len(lines) - 1, 7):
        lines[i], lines[i + 1] = lines[i + 1], lines[i]
    return "\n".join(lines) + "\n"


def _log(rng: random.Random, end_s: float) -> str:
    lines, second, trial = ["Loading the tokenizer"], 60.0, 0
    while second < end_s:
        now = START + second + rng.random()
        stamp = datetime.fromtimestamp(now, UTC).isoformat(" ")[:23]
        job = f"hle:q{trial}:{trial:08x}"
        lines.append(
            f"[PROFILE] {stamp} task=q{trial} thread=1 type=step_complete step=0 "
            f"ts_unix={now:.2f} step=0 job_id={job} tool=search"
        )
        if rng.random() < 0.15:
            lines.append(
                f"[INFO] {stamp} task=q{trial} thread=1 [HLE_TRIAL_COMPLETE] ts_iso="
                f"{stamp[:10]}T{stamp[11:19]} ts_unix={now:.3f} task_id=q{trial} job_id={job} "
                f"status={rng.choice(['done', 'done', 'error'])} correct={rng.random() < 0.3}"
            )
            trial += 1
        second += rng.expovariate(1 / 9)
    return "\n".join(lines) + "\n"


def expected_window(folder: Path, start_s: float, end_s: float) -> dict[str, Any]:
    """Return `window_summary.json` by the definitions, without the ISO times."""
    usage = list(_usable(folder))
    if not usage:
        return {"ok": False, "reason": "no_t0"}
    t0 = min(at for at, _, _ in usage)
    begin, end = t0 + start_s, t0 + end_s
    inside = [(prompt, cached) for at, prompt, cached in usage if begin <= at <= end]
    window: dict[str, Any] = {"window_start_unix": begin, "window_end_unix": end}
    window |= {"metrics": _metrics(folder, begin, end), "trials": _trials(folder, begin, end)}
    window["response_usage"] = {
        "available": True,
        "responses": len(inside),
        "sum_cached_tokens": sum(cached for _, cached in inside),
        "sum_prompt_tokens": sum(prompt for prompt, _ in inside),
        "cached_tokens_ratio_token_weighted": _ratio(
            sum(cached for _, cached in inside), sum(prompt for prompt, _ in inside)
        ),
        "cached_tokens_ratio_request_avg": _mean([cached / prompt for prompt, cached in inside]),
    }
    windows = {f"{int(start_s)}-{int(end_s)}": window}
    return {"ok": True, "t0_first_request_unix": t0, "windows": windows}


def _records(folder: Path) -> Iterator[dict[str, Any]]:
    path = folder / "orchestrator_usage.jsonl"
    for line in path.read_text().splitlines() if path.exists() else []:
        if line:
            yield json.loads(line)


def _usable(folder: Path) -> Iterator[tuple[float, float, float]]:
    """Yield (time, prompt, cached) of usage lines with prompt_tokens > 0 and cached_tokens >= 0."""
    for record in _records(folder):
        prompt, cached = record.get("prompt_tokens"), record.get("cached_tokens")
        if prompt is not None and cached is not None and prompt > 0 and cached >= 0:
            yield float(record["ts_unix"]), float(prompt), float(cached)


def _metrics(folder: Path, begin: float, end: float) -> dict[str, Any]:
    with (folder / "prefix_cache_timeseries.csv").open() as file:
        rows: list[dict[str, Any]] = [
            {k: v if k == "ts_iso" else float(v) for k, v in r.items()}
            for r in csv.DictReader(file)
        ]
    rows = [row for row in rows if begin <= row["ts_unix"] <= end]
    hits = [(r["delta_hits"], r["delta_queries"]) for r in rows]
    hits = [(hit, query) for hit, query in hits if hit >= 0 and query > 0]  # NaN is neither
    changes = _numbers(rows, "delta_preemptions")
    long = end > begin and bool(changes)
    means = {}
    for base in HISTOGRAMS:
        pairs = [(r[f"delta_{base}_sum"], r[f"delta_{base}_count"]) for r in rows]
        pairs = [(total, count) for total, count in pairs if total >= 0 and count > 0]
        means[base] = _ratio(sum(total for total, _ in pairs), sum(count for _, count in pairs))
    decode, e2e = means["request_decode_time_seconds"], means["e2e_request_latency_seconds"]
    return {
        "available": True,
        "samples_hit": len(hits),
        "sum_hits_tokens": sum(hit for hit, _ in hits),
        "sum_queries_tokens": sum(query for _, query in hits),
        "hit_ratio": _ratio(sum(hit for hit, _ in hits), sum(query for _, query in hits)),
        "kv_cache_usage_mean_perc": _mean(_numbers(rows, "kv_cache_usage_perc")),
        "num_requests_running_mean": _mean(_numbers(rows, "num_requests_running")),
        "num_requests_waiting_mean": _mean(_numbers(rows, "num_requests_waiting")),
        "latency_means_seconds": means,
        "decode_over_e2e_ratio": decode / e2e if decode is not None and e2e else None,
        "preemptions": {
            "samples": len(changes),
            "sum_delta_preemptions": sum(changes) if long else None,
            "delta_preemptions_mean_per_interval": sum(changes) / len(changes) if long else None,
            "preemptions_per_sec": sum(changes) / (end - begin) if long else None,
        },
    }


def _numbers(rows: Sequence[dict[str, Any]], name: str) -> list[float]:
    return [row[name] for row in rows if not math.isnan(row[name])]


def _mean(values: Sequence[float]) -> float | None:
    return sum(values) / len(values) if values else None


def _ratio(top: float, bottom: float) -> float | None:
    return top / bottom if bottom > 0 else None


def _times(folder: Path, mark: str) -> list[float]:
    log = (folder / "eval.log").read_text().splitlines()
    return [float(line.split("ts_unix=")[1].split()[0]) for line in log if mark in line]


def _trials(folder: Path, begin: float, end: float) -> dict[str, Any]:
    times = _times(folder, "[HLE_TRIAL_COMPLETE]")
    inside = [time for time in times if begin <= time <= end]
    return {
        "available": True,
        "marker_lines_parsed": len(times),
        "trials_completed_in_window": len(inside),
        "window_duration_sec": max(0.0, end - begin),
        "trials_per_sec": _ratio(len(inside), end - begin),
        "first_marker_unix": min(inside, default=None),
        "last_marker_unix": max(inside, default=None),
        "source_log": str(folder / "eval.log"),
    }


def expected_steps(folder: Path, start_s: float, end_s: float) -> dict[str, Any]:
    """Return `steps_summary.json` by the definitions; t0 is the first line of the usage log."""
    t0 = next((float(record["ts_unix"]) for record in _records(folder)), None)
    if t0 is None:
        return {"ok": False, "reason": "no_t0"}
    begin, end = t0 + start_s, t0 + end_s
    times = _times(folder, "type=step_complete")
    inside = sum(begin <= time <= end for time in times)
    steps: dict[str, Any] = {"available": True, "step_complete_lines_parsed": len(times)}
    steps |= {"step_complete_in_window": inside, "window_duration_sec": max(0.0, end - begin)}
    steps |= {"steps_per_sec": _ratio(inside, end - begin)}
    steps |= {"source_log": str(folder / "eval.log")}
    found = {"ok": True, "t0_unix": t0, "t_start_unix": begin, "t_end_unix": end}
    return found | {"steps": steps}
