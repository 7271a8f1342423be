"""Fixtures of a small store: a load sweep of four cells and a comparison of two models, with known
figures."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from random import Random
from typing import Any

import duckdb
import pytest

from tests.reporting.role_rows import build_roles
from tutti import storage
from tutti.storage import catalog as cat

START = datetime(2026, 1, 1, tzinfo=UTC)
STEPS = 4  # of each attempt
FAMILIES = ("arithmetic", "module")
Rows = dict[str, list[dict[str, Any]]]


@dataclass(frozen=True)
class Cell:
    """Load of one cell: `concurrency` slots, each running attempts back to back."""

    sweep_id: str
    model: str
    policy: str
    concurrency: int
    step_s: float
    samples: int
    correct: int
    jitter: float = 0.0
    sampled: bool = True
    called: bool = True
    failed: bool = True  # one infra_error beside the samples
    repeat: int = 0
    status: str = "finished"
    reason: str | None = None
    sandbox: str | None = None
    late_s: float | None = None  # of an open loop: how late each attempt starts
    lag_s: float | None = None  # of the client's event loop, each second; it uses 95 % of a core
    gap_s: float = 0.0  # between a step's end and the next send
    watts: float | None = None  # of each of two GPUs
    usd: float | None = 0.01

    @property
    def cell_id(self) -> str:
        name = f"{self.sweep_id}-{self.model}-{self.policy}-{self.concurrency}"
        return name + (f"-{self.repeat}" if self.repeat else "")


LOAD = (
    Cell("load", "pocket", "passthrough", 2, 2.0, 40, 30),
    Cell("load", "pocket", "cap", 2, 2.0, 40, 31, jitter=0.3),
    Cell("load", "pocket", "passthrough", 8, 6.0, 64, 44, jitter=0.4),
    Cell("load", "pocket", "cap", 8, 3.5, 64, 47, jitter=0.4),
)
COMPARISON = (
    Cell("models", "before <b>", "passthrough", 4, 1.0, 60, 20, jitter=0.2),
    Cell("models", "after $1 & $2", "passthrough", 4, 1.0, 60, 48, jitter=0.2),
)


def after(seconds: float) -> datetime:
    """Return the time `seconds` after every cell's start."""
    return START + timedelta(microseconds=round(seconds * 1e6))


def cell_rows(cell: Cell) -> Rows:
    """Return the attempts, calls and tool runs of a cell, and one server sample per second."""
    rng = Random(cell.cell_id)
    rows: Rows = {"attempts": [], "calls": [], "tool_runs": [], "server_metrics": []}
    free = [0.1 * slot for slot in range(cell.concurrency)]
    for i in range(cell.samples):
        slot = free.index(min(free))
        free[slot] = _attempt(cell, rows, i, free[slot], rng)
    if cell.failed:
        infra = {"status": "infra_error", "started_at": after(20), "ended_at": after(21)}
        infra |= {"cost_usd": 0.0}
        rows["attempts"].append(_attempt_row(cell, "infra") | infra)
    if cell.sampled:
        _metrics(cell, rows, int(max(free)), rng)
    _meters(cell, rows, int(max(free)))
    return rows


def _attempt_row(cell: Cell, name: str) -> dict[str, Any]:
    return {
        "sweep_id": cell.sweep_id,
        "cell_id": cell.cell_id,
        "attempt_id": f"{cell.cell_id}-{name}",
        "task_id": "task-0",
        "model": cell.model,
        "policy": cell.policy,
        "concurrency": cell.concurrency,
        "repeat": cell.repeat,
    }


def _attempt(cell: Cell, rows: Rows, i: int, start_s: float, rng: Random) -> float:
    """Add one attempt that starts at `start_s` and return its end; the last one reaches a limit."""
    row = _attempt_row(cell, str(i))
    ids = {key: row[key] for key in ("cell_id", "attempt_id")}
    end_s = start_s
    for step in range(STEPS):
        sent_s, took_s = (
            end_s + cell.gap_s * bool(step),
            cell.step_s * (1 + cell.jitter * rng.uniform(-1, 2)),
        )
        answered_s, end_s = sent_s + 0.75 * took_s, sent_s + took_s
        call = {"call_id": f"{row['attempt_id']}-{step}", "step": step, "held_s": 0.1 * step}
        times = {"sent_at": sent_s, "admitted_at": sent_s, "ended_at": answered_s}
        state = {"role": "orchestrator", "status": "ok"}
        if cell.called:
            stamps = {key: after(second) for key, second in times.items()}
            rows["calls"].append(ids | call | state | stamps)
            spans = {"started_at": after(answered_s), "ended_at": after(end_s)}
            rows["tool_runs"].append(ids | {"step": step, "name": "search"} | spans)
    limit = i == cell.samples - 1
    outcome = {
        "task_id": f"task-{i % 10}",
        "status": "limit" if limit else "ok",
        "correct": None if limit else i < cell.correct,
        "cost_usd": cell.usd,
        "working_s": end_s - start_s - 0.6,  # 0.1 s more is held at each step
        "due_at": None if cell.late_s is None else after(start_s - cell.late_s),
        "started_at": after(start_s),
        "ended_at": after(end_s),
    }
    rows["attempts"].append(row | outcome)
    return end_s


def _metrics(cell: Cell, rows: Rows, seconds: int, rng: Random) -> None:
    """Add cache metrics: 100 tokens are looked up per second, 60 of them hit."""
    for second in range(-1, seconds + 2):
        values = {
            "vllm:kv_cache_usage_perc": min(0.95, 0.1 * cell.concurrency + rng.uniform(0, 0.1)),
            "vllm:num_requests_running": min(cell.concurrency, 4 if cell.policy == "cap" else 8),
            "vllm:num_requests_waiting": rng.randint(0, cell.concurrency // 2),
            "vllm:prefix_cache_hits_total": 60 * (second + 1),
            "vllm:prefix_cache_queries_total": 100 * (second + 1),
            "vllm:num_preemptions_total": 0,
        }
        base = {"cell_id": cell.cell_id, "engine_id": "engine-1", "at": after(second)}
        rows["server_metrics"] += [
            base | {"name": name, "value": float(value)} for name, value in values.items()
        ]


def _meters(cell: Cell, rows: Rows, seconds: int) -> None:
    """Add the samples of the client and of the GPUs, one per second."""
    client = {} if cell.lag_s is None else {"client:loop_lag_seconds": cell.lag_s}
    client |= {"client:cpu_share": 0.95} if client else {}
    gpus = (
        {} if cell.watts is None else {f'nvml:power_watts{{gpu="{n}"}}': cell.watts for n in "01"}
    )
    for second in range(seconds + 1):
        base = {"cell_id": cell.cell_id, "at": after(second)}
        for engine, values in (("client", client), ("host:here", gpus)):
            rows["server_metrics"] += [
                base | {"engine_id": engine, "name": name, "value": value}
                for name, value in values.items()
            ]


def build_store(root: Path, cells: tuple[Cell, ...]) -> storage.Home:
    """Return a store with `cells`, their sweeps and ten tasks of two families."""
    home = storage.Home(root)
    with storage.open_catalog(home) as catalog:
        for position, cell in enumerate(cells):
            storage.commit(catalog, cell_rows(cell))
            sweep = {"sweep_id": cell.sweep_id, "name": cell.sweep_id, "spec": "{}"}
            catalog.upsert(cat.sweeps, sweep)
            catalog.upsert(cat.cells, _cell_row(cell, position))
        tasks = [{"task_id": f"task-{i}", "family": FAMILIES[i % 2]} for i in range(10)]
        # Every task stands in two task sets: scores must not count it twice.
        both = [task | {"task_set_id": name} for task in tasks for name in ("set-1", "set-2")]
        storage.commit(catalog, {"tasks": both})
    return home


def _cell_row(cell: Cell, position: int) -> dict[str, Any]:
    return {
        "cell_id": cell.cell_id,
        "sweep_id": cell.sweep_id,
        "benchmark": "lookup",
        "model": cell.model,
        "policy": cell.policy,
        "concurrency": cell.concurrency,
        "repeat": cell.repeat,
        "position": position,
        "task_set_id": "set-1",
        "index_id": "index-1",
        "samples": cell.samples,
        "status": cell.status,
        "reason": cell.reason,
        "sandbox": cell.sandbox,
    }


@pytest.fixture(scope="session")
def connection(tmp_path_factory: pytest.TempPathFactory) -> Iterator[duckdb.DuckDBPyConnection]:
    """Yield the whole store: the load sweep `load` and the comparison `models`."""
    home = build_store(tmp_path_factory.mktemp("store"), LOAD + COMPARISON)
    with storage.connect(home) as connection:
        yield connection


@pytest.fixture(scope="session")
def roles(tmp_path_factory: pytest.TempPathFactory) -> Iterator[duckdb.DuckDBPyConnection]:
    """Yield a store with the sweep `roles`: judges, experts, users, and failures of every kind."""
    with storage.connect(build_roles(tmp_path_factory.mktemp("roles"))) as connection:
        yield connection


Connect = Callable[..., duckdb.DuckDBPyConnection]


@pytest.fixture
def connect_to(tmp_path: Path) -> Connect:
    """Return a function that connects to a new store with one cell, given as changes to a small
    one, or with none."""

    def connect(*cells: dict[str, Any]) -> duckdb.DuckDBPyConnection:
        default: dict[str, Any] = {
            "sweep_id": "s",
            "model": "pocket",
            "policy": "cap",
            "concurrency": 2,
            "step_s": 1.0,
            "samples": 3,
            "correct": 1,
            "failed": False,
        }
        return storage.connect(build_store(tmp_path, tuple(Cell(**default | c) for c in cells)))

    return connect
