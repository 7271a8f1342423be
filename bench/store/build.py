"""Builds a store of a million attempts to query, through the real commit and compaction.

Tables are made with numpy and committed a cell at a time, as a sweep leaves them: attempts, calls,
scores, tool runs, the engine's metrics, and the states in the catalog. Messages are sampled: the
first attempts of each cell have theirs (`Shape.with_messages`). A message is a piece of one long
text, cut at random: as hard to compress as new text within a row group, though not in the whole.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import sqlalchemy as sa

from bench.store.data import MESSAGES, T0, TEXT_BYTES, RandomText
from tutti import storage
from tutti.storage import catalog as cat
from tutti.storage.maintenance import compact
from tutti.storage.write.encode import TABLES
from tutti.storage.write.writer import commit_tables

SWEEPS, MODELS, BENCHMARKS = 5, 4, 5  # a cell for each: 100
CALLS = 5  # of an attempt
TEXT_POOL_BYTES = 64_000_000
GAUGES = ("vllm:kv_cache_usage_perc", "vllm:num_requests_running", "vllm:num_requests_waiting")
COUNTERS = tuple(
    f"vllm:{name}"
    for name in (
        "prefix_cache_queries_total",
        "prefix_cache_hits_total",
        "num_preemptions_total",
        "request_prefill_time_seconds_sum",
        "request_prefill_time_seconds_count",
        "request_decode_time_seconds_sum",
        "request_decode_time_seconds_count",
        "e2e_request_latency_seconds_sum",
        "prompt_tokens_total",
        "generation_tokens_total",
    )
)
START = int(T0.timestamp() * 1e6)


@dataclass(frozen=True)
class Shape:
    """The size of the store."""

    attempts: int = 1_000_000
    small_cell: int = 2_000
    """Attempts of the first cell of each sweep: 10,000 calls."""
    with_messages: float = 0.17
    """Share of a cell's attempts that have messages."""
    seconds: float = 7_200.0
    """Duration of a cell; a small cell's is proportionally shorter."""
    sample_s: float = 5.0
    """Interval of the engine's metrics; one second in the small cells."""


@dataclass(frozen=True)
class BuiltCell:
    """A cell of the store."""

    sweep_id: str
    cell_id: str
    benchmark: str
    model: str
    concurrency: int
    attempts: int
    small: bool
    seconds: float


@dataclass
class BuiltStore:
    """The ids in the store that queries can use."""

    small_cells: list[str] = field(default_factory=list)
    talkative: list[str] = field(default_factory=list)
    """Attempts that have messages, one per cell."""


def build(home: storage.Home, shape: Shape) -> BuiltStore:
    """Build the store and compact it."""
    words = RandomText(7)
    pool = np.frombuffer(words.text(TEXT_POOL_BYTES), np.uint8)
    made = BuiltStore()
    with storage.open_catalog(home) as catalog:
        for cell in cells_of(shape):
            _enter_cell(catalog, cell)
            rows = _CellRows(words, pool, cell, shape)
            commit_tables(catalog, rows.tables(), rows.enter_states)
            made.talkative.append(rows.attempt_ids[0].as_py())
            if cell.small:
                made.small_cells.append(cell.cell_id)
        compact(catalog, grace_s=0.0)  # twice: the second removes the files that the first replaced
        compact(catalog, grace_s=0.0)
    return made


def look_up(home: storage.Home) -> BuiltStore:
    """Read the ids of an existing store."""
    connection = storage.connect(home)
    small = "select cell_id from calls group by cell_id having count(*) <= 10000 order by 1"
    talking = "select min(attempt_id) from messages group by cell_id order by 1"
    found = [[row[0] for row in connection.execute(sql).fetchall()] for sql in (small, talking)]
    connection.close()
    return BuiltStore(*found)


def cells_of(shape: Shape) -> Iterator[BuiltCell]:
    """Every cell: a sweep has one for each model and benchmark; its first is small."""
    names = [(m, b) for m in range(MODELS) for b in range(BENCHMARKS)]
    large = SWEEPS * (len(names) - 1)
    rest = shape.attempts - SWEEPS * shape.small_cell
    nth_large = 0
    for sweep in range(SWEEPS):
        for place, (model, benchmark) in enumerate(names):
            attempts = shape.small_cell
            if place:
                attempts = rest * (nth_large + 1) // large - rest * nth_large // large
                nth_large += 1
            yield BuiltCell(
                f"sweep:{sweep:016x}",
                f"cell:{sweep * len(names) + place:016x}",
                f"benchmark-{benchmark}",
                f"model-{model}",
                8 * (1 + (place + sweep) % 5),
                attempts,
                place == 0,
                shape.seconds * attempts * large / rest,
            )


def _enter_cell(catalog: storage.Catalog, cell: BuiltCell) -> None:
    sweep = {"sweep_id": cell.sweep_id, "name": cell.sweep_id, "spec": "{}", "created_at": T0}
    catalog.upsert(cat.sweeps, sweep)
    row = {name: getattr(cell, name) for name in "sweep_id cell_id benchmark model".split()}
    row |= {"policy": "adaptive", "concurrency": cell.concurrency, "repeat": 0}
    row |= {"position": int(cell.cell_id[-2:], 16), "task_set_id": "task_set:00", "index_id": ""}
    row |= {"samples": cell.attempts, "status": "finished", "started_at": T0}
    catalog.upsert(cat.cells, row | {"ended_at": T0 + timedelta(seconds=cell.seconds)})


class _CellRows:
    """The rows of one cell, as Arrow."""

    def __init__(self, words: RandomText, pool: Any, cell: BuiltCell, shape: Shape) -> None:
        self.rng, self.pool, self.cell, self.shape = words.rng, pool, cell, shape
        self.n = cell.attempts
        self.attempt_ids = self._ids("attempt:", self.n)
        self.call_ids = self._ids("", self.n * CALLS, 32)
        self.latency = self.rng.lognormal(0.5, 0.7, (self.n, CALLS))
        self.held = self.rng.exponential(0.05, (self.n, CALLS))
        # A step is the call and the tool that follows it; sessions keep the cell busy throughout.
        steps = self.latency + self.rng.exponential(0.3, (self.n, CALLS))
        begins = np.sort(self.rng.random(self.n)) * cell.seconds
        sent = begins[:, None] + np.concatenate(
            [np.zeros((self.n, 1)), np.cumsum(steps, axis=1)[:, :-1]], axis=1
        )
        self.sent, self.ended = sent, sent + self.latency
        self.next = sent + steps

    def tables(self) -> dict[str, pa.Table]:
        """Every table's rows."""
        return {
            "attempts": self._attempts(),
            "calls": self._calls(),
            "scores": self._scores(),
            "tool_runs": self._tool_runs(),
            "messages": self._messages(),
            "server_metrics": self._metrics(),
        }

    def enter_states(self, connection: sa.Connection) -> None:
        """Enter the attempts' states as after a run."""
        same = {"cell_id": self.cell.cell_id, "attempt": 1, "run_id": "run:00", "trial": 0}
        same |= {"state": "done", "status": "ok", "started_at": T0}
        rows = [
            same | {"attempt_id": each, "sample_id": f"sample{each[7:]}", "task_id": f"t{n % 500}"}
            for n, each in enumerate(self.attempt_ids.to_pylist())
        ]
        connection.execute(sa.insert(cat.attempt_states), rows)

    def _ids(self, prefix: str, count: int, digits: int = 16) -> pa.Array:
        data = self.rng.bytes(count * digits // 2).hex().encode()
        return pc.binary_join_element_wise(prefix, _cut(data, digits), "")

    def _key(self, rows: int) -> dict[str, Any]:
        return {name: _same(getattr(self.cell, name), rows) for name in ("sweep_id", "cell_id")}

    def _attempts(self) -> pa.Table:
        n, cell = self.n, self.cell
        correct = self.rng.random(n) < 0.3 + 0.1 * int(cell.model[-1])
        same = {name: getattr(cell, name) for name in ("benchmark", "model", "concurrency")}
        same |= {"run_id": "run:00", "policy": "adaptive", "engine_id": "engine:00", "repeat": 0}
        same |= {"steps": CALLS, "calls": CALLS, "tool_calls": CALLS - 1, "attempt": 1}
        status = np.where(self.rng.random(n) < 0.01, "infra_error", "ok")
        return _table(
            "attempts",
            n,
            self._key(n) | {name: _same(value, n) for name, value in same.items()},
            attempt_id=self.attempt_ids,
            sample_id=pc.replace_substring(self.attempt_ids, "attempt", "sample"),
            task_id=[f"t{k % 500}" for k in range(n)],
            trial=np.arange(n) // 500,
            status=status,
            started_at=_times(self.sent[:, 0]),
            ended_at=_times(self.next[:, -1]),
            working_s=self.latency.sum(axis=1),
            held_s=self.held.sum(axis=1),
            prompt_tokens=self.rng.integers(2_000, 20_000, n),
            completion_tokens=self.rng.integers(200, 2_000, n),
            cost_usd=self.rng.random(n) * 0.01,
            answer=[str(k % 97) for k in range(n)],
            score=correct.astype(float),
            correct=correct,
        )

    def _calls(self) -> pa.Table:
        n, cell = self.n * CALLS, self.cell
        same = {"policy": "adaptive", "concurrency": cell.concurrency, "role": "orchestrator"}
        same |= {"model": cell.model, "endpoint": "engine:00", "finish_reason": "stop"}
        same |= {"status": "ok", "http_status": 200, "retry": 0, "params": '{"temperature": 0.7}'}
        prompt = self.rng.integers(500, 8_000, n)
        return _table(
            "calls",
            n,
            self._key(n) | {name: _same(value, n) for name, value in same.items()},
            call_id=self.call_ids,
            attempt_id=_repeat(self.attempt_ids, CALLS),
            step=np.tile(np.arange(1, CALLS + 1), self.n),
            sent_at=_times(self.sent),
            admitted_at=_times(self.sent + self.held),
            ended_at=_times(self.ended),
            held_s=self.held.ravel(),
            ttft_s=self.latency.ravel() * 0.1,
            latency_s=self.latency.ravel(),
            prompt_tokens=prompt,
            cached_tokens=prompt * 3 // 4,
            completion_tokens=self.rng.integers(20, 400, n),
            cost_usd=prompt * 2e-7,
            prompt_hash=self._ids("", n),
        )

    def _scores(self) -> pa.Table:
        correct = self.rng.random(self.n) < 0.5
        same = {"scorer": "exact", "scorer_version": "1"}
        key = self._key(self.n) | {name: _same(value, self.n) for name, value in same.items()}
        return _table(
            "scores",
            self.n,
            key,
            attempt_id=self.attempt_ids,
            value=correct.astype(float),
            correct=correct,
            scored_at=_times(self.next[:, -1]),
        )

    def _tool_runs(self) -> pa.Table:
        per = CALLS - 1
        n = self.n * per
        same = {"name": "search", "arguments": '{"query": "made up"}', "status": "ok"}
        return _table(
            "tool_runs",
            n,
            self._key(n) | {name: _same(value, n) for name, value in same.items()},
            attempt_id=_repeat(self.attempt_ids, per),
            step=np.tile(np.arange(1, per + 1), self.n),
            started_at=_times(self.ended[:, :-1]),
            ended_at=_times(self.next[:, :-1]),
        )

    def _messages(self) -> pa.Table:
        talking = max(1, int(self.n * self.shape.with_messages))
        n = talking * MESSAGES
        roles = ["user", *["assistant", "tool"] * (CALLS), "assistant"]
        asked = np.tile([role == "assistant" for role in roles], talking)
        lengths = np.concatenate([[0], np.cumsum(asked)])
        calls = int(asked.sum())
        pieces = np.lib.stride_tricks.sliding_window_view(self.pool, TEXT_BYTES)
        said = pieces[self.rng.integers(0, len(pieces), n)]
        members = [self._ids("call_", calls), _same("search", calls), _same("{}", calls)]
        kind = TABLES["messages"].field("tool_calls").type
        tools = pa.StructArray.from_arrays(members, fields=list(kind.value_type))
        return _table(
            "messages",
            n,
            self._key(n),
            attempt_id=_repeat(self.attempt_ids.slice(0, talking), MESSAGES),
            position=np.tile(np.arange(MESSAGES), talking),
            role=roles * talking,
            content=_cut(said.tobytes(), TEXT_BYTES),
            tool_calls=pa.ListArray.from_arrays(pa.array(lengths, pa.int32()), tools, type=kind),
        )

    def _metrics(self) -> pa.Table:
        every = 1.0 if self.cell.small else self.shape.sample_s
        at = np.arange(0.0, self.cell.seconds, every)
        names = [*GAUGES, *COUNTERS]
        gauges = self.rng.random((len(GAUGES), len(at)))
        counters = np.cumsum(self.rng.random((len(COUNTERS), len(at))), axis=1)
        counters[1] *= 0.75  # hits are queries too
        n = len(names) * len(at)
        return _table(
            "server_metrics",
            n,
            self._key(n) | {"engine_id": _same("engine:00", n)},
            at=_times(np.tile(at, len(names))),
            name=_repeat(pa.array(names), len(at)),
            value=np.concatenate([gauges, counters]).ravel(),
        )


def _table(table: str, rows: int, key: dict[str, Any], /, **columns: Any) -> pa.Table:
    known = key | columns
    schema = TABLES[table]
    arrays = []
    for column in schema:
        given = known.get(column.name)
        if given is None:
            arrays.append(pa.nulls(rows, column.type))
        elif isinstance(given, pa.Array):
            arrays.append(given.cast(column.type))
        else:
            arrays.append(pa.array(given, column.type))
    return pa.Table.from_arrays(arrays, schema=schema)


def _same(value: Any, rows: int) -> pa.Array:
    return pa.repeat(value, rows)


def _repeat(values: pa.Array, times: int) -> pa.Array:
    return values.take(pa.array(np.repeat(np.arange(len(values)), times)))


def _times(seconds: Any) -> pa.Array:
    return pa.array((np.ravel(seconds) * 1e6).astype(np.int64) + START)


def _cut(data: bytes, size: int) -> pa.Array:
    """The text in pieces of `size` characters."""
    ends = np.arange(0, len(data) + 1, size, dtype=np.int32)
    return pa.StringArray.from_buffers(
        len(ends) - 1, pa.py_buffer(ends.tobytes()), pa.py_buffer(data)
    )
