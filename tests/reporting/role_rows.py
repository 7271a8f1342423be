"""A sweep with every role's calls and every kind of failure, in rows whose sums are round numbers.

Each attempt takes three steps. A step: held 0.5 s, prefill 0.25 s, decode 1.25 s, then a tool of 2
s in which a retrieval takes 0.5 s and an expert's call 1 s. After the last step a judge takes 3 s;
before each step but the first the user takes 1 s.
"""

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from tutti import storage
from tutti.storage import catalog as cat

START = datetime(2026, 2, 1, tzinfo=UTC)
STEPS = 3
SAMPLES = 24
SLOTS = 4
STEP_S, USER_S, JUDGE_S = 4.0, 1.0, 3.0
POLICIES = ("passthrough", "adaptive")
LONG = "x" * 5000
Rows = dict[str, list[dict[str, Any]]]

ENDINGS: dict[int, dict[str, Any]] = {
    3: {"status": "limit", "stop_reason": "max_turns"},
    4: {"status": "limit", "stop_reason": "max_turns"},
    5: {"status": "model_error", "stop_reason": "no_valid_call", "error_type": "<BadArguments>"},
    6: {
        "status": "infra_error",
        "stop_reason": "model_call_failed",
        "error_type": "http_503",
        "error_message": "HTTP 503: <no engine>",
    },
    7: {"status": "scorer_error", "stop_reason": "answered", "error_type": "scorer_failed"},
    8: {"status": "cancelled", "stop_reason": "cancelled"},
}
"""How some attempts end; the others are ok, every fourth of them wrong."""


def at(seconds: float) -> datetime:
    """Return the time `seconds` after the start of the sweep."""
    return START + timedelta(microseconds=round(seconds * 1e6))


def build_roles(root: Path) -> storage.Home:
    """Return a store with the sweep `roles`."""
    home = storage.Home(root)
    with storage.open_catalog(home) as catalog:
        catalog.upsert(cat.sweeps, {"sweep_id": "roles", "name": "roles", "spec": "{}"})
        for position, policy in enumerate(POLICIES):
            cell = _cell(policy, position)
            rows: Rows = {name: [] for name in ("attempts", "messages", "calls")}
            rows |= {"tool_runs": [], "retrievals": []}
            free = [0.1 * slot for slot in range(SLOTS)]
            for i in range(SAMPLES):
                slot = free.index(min(free))
                free[slot] = _attempt(rows, cell, i, free[slot])
            storage.commit(catalog, rows)
            catalog.upsert(cat.cells, cell)
    return home


def _cell(policy: str, position: int) -> dict[str, Any]:
    return {
        "cell_id": f"cell-{policy}",
        "sweep_id": "roles",
        "benchmark": "tau2",
        "model": "big",
        "policy": policy,
        "concurrency": SLOTS,
        "repeat": 0,
        "position": position,
        "task_set_id": "task_set:0123456789abcdef",
        "index_id": "index-1",
        "samples": SAMPLES,
        "status": "finished",
    }


def _attempt(rows: Rows, cell: dict[str, Any], i: int, start_s: float) -> float:
    """Add one attempt that starts at `start_s` and return its end in seconds."""
    attempt_id = f"{cell['policy']}-{i}"
    ids = {"sweep_id": "roles", "cell_id": cell["cell_id"], "attempt_id": attempt_id}
    now = start_s
    for step in range(STEPS):
        if step:
            _call(rows, ids, step, "user", now, USER_S)
            now += USER_S
        _step(rows, ids, step, now)
        now += STEP_S
    _call(rows, ids, STEPS, "judge", now, JUDGE_S)
    named = {key: cell[key] for key in ("benchmark", "model", "policy", "concurrency", "repeat")}
    ending = {"status": "ok", "stop_reason": "answered", "correct": i % 4 != 0}
    ending |= ENDINGS.get(i, {})
    if ending["status"] != "ok":
        ending["correct"] = None
    spans = {"started_at": at(start_s), "ended_at": at(now + JUDGE_S), "cost_usd": 0.25}
    rows["attempts"].append(ids | named | spans | ending | {"task_id": f"task-{i}"})
    _messages(rows, ids, i)
    return now + JUDGE_S


def _call(rows: Rows, ids: dict[str, Any], step: int, role: str, now: float, took: float) -> None:
    call = {"call_id": f"{ids['attempt_id']}-{step}-{role}", "step": step, "role": role}
    times = {"sent_at": at(now), "admitted_at": at(now), "ended_at": at(now + took)}
    rows["calls"].append(ids | call | times | {"latency_s": took, "held_s": 0.0, "status": "ok"})


def _step(rows: Rows, ids: dict[str, Any], step: int, now: float) -> None:
    _call(rows, ids, step, "orchestrator", now, 2.0)
    rows["calls"][-1] |= {"held_s": 0.5, "ttft_s": 0.75}
    if step == 0 and ids["attempt_id"].endswith("6"):
        _call(rows, ids, step, "orchestrator", now, 0.1)
        rows["calls"][-1] |= {"status": "error", "http_status": 503, "call_id": f"{ids}-failed"}
    failed = {"status": "error", "error_type": "Timeout"} if step == 2 else {"status": "ok"}
    spans = {"started_at": at(now + 2.0), "ended_at": at(now + 4.0), "name": "ask <all>"}
    rows["tool_runs"].append(ids | {"step": step} | spans | failed)
    rows["retrievals"].append(ids | {"step": step, "index_id": "index-1", "latency_s": 0.5})
    _call(rows, ids, step, "expert", now + 2.5, 1.0)


def _messages(rows: Rows, ids: dict[str, Any], i: int) -> None:
    said: list[dict[str, Any]] = [
        {"role": "user", "content": f"Question {i} <script>alert(1)</script>"},
        {"role": "assistant", "content": LONG, "reasoning": "hm & hm"},
    ]
    if i == 5:  # longer than what is shown of one
        said += [{"role": "tool", "content": f"result {n}"} for n in range(40)]
    asked = {"id": "c", "name": "ask", "arguments": '{"q": 1}'}
    said.append({"role": "assistant", "content": None, "tool_calls": [asked]})
    rows["messages"] += [ids | {"position": n} | message for n, message in enumerate(said)]
