"""Read vLLM's Prometheus text into (name, value) pairs: the counters and gauges we keep."""

KEPT = frozenset(
    f"vllm:{name}"
    for name in (
        "kv_cache_usage_perc",
        "num_requests_running",
        "num_requests_waiting",
        "prefix_cache_queries_total",
        "prefix_cache_hits_total",
        "num_preemptions_total",
        "prompt_tokens_total",
        "prompt_tokens_cached_total",
        "generation_tokens_total",
        "request_success_total",
        *(
            f"{histogram}_{part}"
            for histogram in (
                "time_to_first_token_seconds",
                "inter_token_latency_seconds",
                "e2e_request_latency_seconds",
                "request_prefill_time_seconds",
                "request_decode_time_seconds",
                "request_queue_time_seconds",
            )
            for part in ("sum", "count")
        ),
    )
)


def parse_metrics(text: str) -> dict[str, float]:
    """Kept series summed over their labels (several engine ranks behind one URL add up).

    `kv_cache_usage_perc` is the mean over ranks. Values may have exponents. Raises ValueError for
    a value that is no number.
    """
    totals: dict[str, list[float]] = {}
    for line in text.splitlines():
        name = line.split("{", 1)[0].split(" ", 1)[0]
        if name in KEPT:
            rest = line.rsplit("}", 1)[-1] if "{" in line else line.removeprefix(name)
            value = rest.split()[0]  # a time stamp may follow
            totals.setdefault(name, []).append(float(value))
    return {
        name: sum(values) / (len(values) if name.endswith("_perc") else 1)
        for name, values in totals.items()
    }
