"""The gateway's views of its own state: health, programs, engines, Prometheus text, a live page."""

import copy
import hashlib
import time
from base64 import b64encode
from collections.abc import Iterator, Sequence
from functools import cache
from importlib.resources import files
from itertools import chain, islice
from typing import Any

from tutti.tasks.serving.gateway.core import GatewayCore
from tutti.tasks.serving.scheduling import Program
from tutti.tasks.serving.wire.messages import Headers

SHOWN = 500  # programs and held calls on the page: more than people read
ENGINE_FAMILIES = (
    ("engine_accepting", "gauge", "1 if it accepts calls.", "accepting"),
    ("engine_capacity_tokens", "gauge", "KV cache.", "capacity_tokens"),
    ("engine_booked_tokens", "gauge", "KV cache given out.", "booked_tokens"),
    ("engine_kv_usage_ratio", "gauge", "KV cache in use, as the engine reports it.", "kv_usage"),
    ("engine_running_calls", "gauge", "Calls in flight.", "running"),
    ("engine_calls_total", "counter", "Calls sent.", "calls"),
    ("engine_failed_calls_total", "counter", "Calls it failed.", "failed_calls"),
    ("engine_restarts_total", "counter", "Restarts noticed.", "restarts"),
)
"""Prometheus metrics by engine: name, type, help, and the key of `engines`."""


def load(gateway: GatewayCore) -> tuple[int, int]:
    """Number of held and running calls."""
    held = sum(len(pool.scheduler.ledger.waiting) for pool in gateway.pools.by_name.values())
    return held, sum(len(endpoint.engine.running) for endpoint in gateway.pools.all_endpoints())


def health(gateway: GatewayCore) -> dict[str, Any]:
    """The gateway's health and the rows that it could not record."""
    pools = gateway.pools.by_name.values()
    ledgers = [pool.scheduler.ledger for pool in pools]
    programs = sum(len(ledger.programs) for ledger in ledgers)
    idle = sum(len(ledger.idle) for ledger in ledgers)
    held, running = load(gateway)
    endpoints = list(gateway.pools.all_endpoints())
    accepting = sum(endpoint.engine.accepting for endpoint in endpoints)
    pulse, recorder = gateway.pulse, gateway.recorder
    median_s, late_s = pulse.decision_s(0.5, 0.99)
    options = gateway.settings.policy_options
    return {
        "status": "ok" if accepting else "no engine accepts calls",
        "policy": next((pool.scheduler.policy.name for pool in pools), gateway.settings.policy),
        "policy_options": next((pool.policy_options for pool in pools), options),
        "cell_id": gateway.cell_id,
        "engines": len(endpoints),
        "engines_accepting": accepting,
        "programs": programs,
        "programs_count": programs,
        "reasoning_count": programs - idle,
        "acting_count": idle,
        "paused_count": held,
        "held": held,
        "running": running,
        "recorded": recorder.committed,
        "unrecorded": recorder.dropped,
        "store_error": recorder.last_error,
        "journal_failures": gateway.journal.failures if gateway.journal else 0,
        "gpus_absent": gateway.gpus.absent,
        "decision_p50_ms": 1e3 * median_s,
        "decision_p99_ms": 1e3 * late_s,
        "decision_max_ms": 1e3 * pulse.decision_max_s,
        "loop_stall_max_ms": 1e3 * pulse.stall_max_s,
        "counts": gateway.counts,
    }


def programs(gateway: GatewayCore) -> dict[str, Any]:
    return {
        name: describe(program, time.monotonic())
        for pool in gateway.pools.by_name.values()
        for name, program in pool.scheduler.ledger.programs.items()
    }


def clock(gateway: GatewayCore, programs: Sequence[Program]) -> dict[str, float]:
    """Return the waits of one program, known to these pools: seconds waiting for endpoints, seconds
    of its partner, and how long every call has failed."""
    if not programs:
        return {"held_s": 0.0, "partner_s": 0.0, "failing_s": 0.0}
    now, clock = time.monotonic(), programs[0].clock
    since, so_far = clock.failing_since, copy.deepcopy(clock)
    for proxied in gateway.in_flight.values():
        if proxied.call is not None and proxied.call.program.clock is clock:
            proxied.record.take_time(so_far, now)
    failing_s = 0.0 if since is None else now - since
    return {"held_s": so_far.held_s, "partner_s": so_far.partner_s, "failing_s": failing_s}


def profiles(gateway: GatewayCore) -> dict[str, Any]:
    """Average times of every program; single calls are rows of `calls`."""
    return {
        name: {
            "step_count": program.calls_done,
            "avg_pause_s": program.held_s / max(program.calls_done, 1),
            "avg_engine_s": program.attained_s / max(program.calls_done, 1),
            "context_tokens": program.context_tokens,
        }
        for pool in gateway.pools.by_name.values()
        for name, program in pool.scheduler.ledger.programs.items()
    }


def engines(gateway: GatewayCore) -> list[dict[str, Any]]:
    """Every engine: whether it accepts calls, and what is booked of its cache."""
    return [
        {
            "id": endpoint.name,
            "url": endpoint.config.url,
            "pool": pool.name,
            "models": list(endpoint.models),
            "served_as": {name: endpoint.served_name(name) for name in endpoint.models},
            "accepting": endpoint.engine.accepting,
            "reachable": endpoint.reachable,
            "draining": endpoint.draining,
            "reason": "" if endpoint.engine.accepting else endpoint.pause_reason,
            "lacks": endpoint.lacks,
            "max_calls": endpoint.engine.max_calls,
            "capacity_tokens": endpoint.engine.capacity_tokens,
            "booked_tokens": pool.scheduler.policy.booked_tokens(endpoint.engine),
            "kv_usage": endpoint.kv_usage,
            "prefill_us_per_token": seconds and round(seconds * 1e6, 3),
            "running": len(endpoint.engine.running),
            "calls": endpoint.calls,
            "failed_calls": endpoint.failed_calls,
            "restarts": endpoint.restarts,
        }
        for pool in gateway.pools.by_name.values()
        for endpoint in pool.endpoints.values()
        for seconds in [endpoint.engine.prefill_token_s]
    ]


def state(gateway: GatewayCore) -> dict[str, Any]:
    now = time.monotonic()
    held = [
        {
            "program": call.program.program_id,
            "call": call.call_id,
            "held_s": now - call.arrived,
            "tokens": call.need_tokens,
            "reason": pool.scheduler.policy.reason(call).text,
        }
        for pool in gateway.pools.by_name.values()
        for call in list(pool.scheduler.ledger.waiting.values())[:SHOWN]
    ]
    shown: dict[str, Any] = {}
    for program in islice(_foremost(gateway), 4 * SHOWN):  # programs with many calls appear often
        if len(shown) == SHOWN:
            break
        if program.program_id not in shown:
            shown[program.program_id] = describe(program, now)
    return {
        "health": health(gateway),
        "engines": engines(gateway),
        "programs": shown,
        "held": held,
        "trend": list(gateway.trend),
    }


def _foremost(gateway: GatewayCore) -> Iterator[Program]:
    """Programs in order of display: waiting ones first, then running ones; some more than once."""
    pools = list(gateway.pools.by_name.values())
    return chain(
        (call.program for pool in pools for call in pool.scheduler.ledger.waiting.values()),
        (call.program for e in gateway.pools.all_endpoints() for call in e.engine.running.values()),
        (program for pool in pools for program in pool.scheduler.ledger.programs.values()),
    )


def prometheus(gateway: GatewayCore) -> str:
    found, cost = health(gateway), gateway.access.budget.cost
    p99_s, stall_s = found["decision_p99_ms"] / 1e3, found["loop_stall_max_ms"] / 1e3
    own: list[tuple[str, str, str, float]] = [
        ("programs", "gauge", "Programs known.", found["programs"]),
        ("held_calls", "gauge", "Calls held.", found["held"]),
        ("running_calls", "gauge", "Calls at an engine.", found["running"]),
        ("recorded_rows_total", "counter", "Rows committed.", found["recorded"]),
        ("unrecorded_rows_total", "counter", "Rows not recorded.", found["unrecorded"]),
        ("decision_p99_seconds", "gauge", "Durations of the last decisions.", p99_s),
        ("loop_stall_max_seconds", "gauge", "Longest stall.", stall_s),
        ("spent_usd_total", "counter", "Money spent, where it is known.", cost.known_usd),
        ("unknown_costs_total", "counter", "Calls whose cost is unknown.", cost.unknown),
    ]
    families: list[tuple[str, str, str, dict[str, Any]]] = [
        (name, kind, text, {"": value}) for name, kind, text, value in own
    ]
    counts = {f'{{what="{_escaped(name)}"}}': n for name, n in sorted(gateway.counts.items())}
    families.append(("events_total", "counter", "Calls by status, and events.", counts))
    shown = engines(gateway)
    for name, kind, text, key in ENGINE_FAMILIES:
        series = {f'{{engine="{_escaped(each["id"])}"}}': each[key] for each in shown}
        families.append((name, kind, text, series))
    lines = []
    for name, kind, text, series in families:
        name = f"tutti_gateway_{name}"
        lines += [f"# HELP {name} {text}", f"# TYPE {name} {kind}"]
        known = {labels: value for labels, value in series.items() if value is not None}
        lines += [f"{name}{labels} {_number(value)}" for labels, value in known.items()]
    return "\n".join(lines) + "\n"


@cache
def page() -> tuple[bytes, Headers]:
    """The live page, with headers that let a browser run only its own script."""
    text = files("tutti.tasks.serving.gateway").joinpath("page.html").read_bytes()
    script = text.partition(b"<script>")[2].partition(b"</script>")[0]
    own = b64encode(hashlib.sha256(script).digest())
    rules = (
        b"default-src 'none'; style-src 'unsafe-inline'; img-src data:; connect-src 'self'; "
        b"base-uri 'none'; form-action 'none'; frame-ancestors 'none'; script-src 'sha256-%b'" % own
    )
    return text, [
        (b"Content-Type", b"text/html; charset=utf-8"),
        (b"Content-Security-Policy", rules),
        (b"X-Content-Type-Options", b"nosniff"),
        (b"Cache-Control", b"no-cache"),
    ]


def _number(value: float) -> str:
    """Format a number with all digits, because rates cannot be computed from a rounded counter."""
    return str(int(value)) if value == int(value) else repr(value)


def _escaped(text: str) -> str:
    return text.replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n")


def describe(program: Program, now: float) -> dict[str, Any]:
    """Return a program in the form of `GET /programs`, with ThunderAgent's keys and ours."""
    waiting, running = len(program.waiting), len(program.running)
    return {
        "backend": program.engine.engine_id if program.engine else None,
        "total_tokens": program.context_tokens,
        "step_count": program.calls_done,
        "status": "reasoning" if waiting or running else "acting",
        "state": "paused" if waiting and not running else "active",
        "in_flight": running,
        "waiting": waiting,
        "held": bool(waiting),
        "held_s": round(program.held_s, 6),
        "tool": program.tool,
        "idle_s": None if program.idle_since is None else round(now - program.idle_since, 3),
    }
