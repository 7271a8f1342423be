"""The tables' Arrow schemas, as the contract states them: one place, one version.

Version 1 is the first release's. Version 2 adds `sweep_id` (the partition) and `cell_id` where they
were absent, `concurrency` and `policy` of a call, and the prompts of calls (`prompt_spans`).
Columns are only ever added, so parts of every version are read together: what a part lacks is null.
"""

import pyarrow as pa

SCHEMA_VERSION = 2

TEXT, INT, REAL, FLAG = pa.string(), pa.int64(), pa.float64(), pa.bool_()
AT = pa.timestamp("us", tz="UTC")
SPANS = pa.list_(pa.struct({"first": pa.int32(), "last": pa.int32()}))  # of message positions
TOOL_CALLS = pa.list_(pa.struct({"id": TEXT, "name": TEXT, "arguments": TEXT}))


def _schema(text: str = "", **columns: pa.DataType) -> pa.Schema:
    """`text` names string columns that come first; `columns` follow in order."""
    fields = [pa.field(name, TEXT) for name in text.split()]
    return pa.schema(fields + [pa.field(name, kind) for name, kind in columns.items()])


TABLES: dict[str, pa.Schema] = {
    "attempts": _schema(
        "run_id sweep_id cell_id sample_id attempt_id benchmark task_id",
        trial=INT,
        attempt=INT,
        model=TEXT,
        engine_id=TEXT,
        policy=TEXT,
        concurrency=INT,
        repeat=INT,
        status=TEXT,
        stop_reason=TEXT,
        error_type=TEXT,
        started_at=AT,
        ended_at=AT,
        working_s=REAL,
        held_s=REAL,
        steps=INT,
        calls=INT,
        tool_calls=INT,
        prompt_tokens=INT,
        cached_tokens=INT,
        completion_tokens=INT,
        cost_usd=REAL,
        answer=TEXT,
        score=REAL,
        correct=FLAG,
    ),
    "messages": _schema(
        "sweep_id cell_id attempt_id",
        position=INT,
        role=TEXT,
        content=TEXT,
        reasoning=TEXT,
        tool_calls=TOOL_CALLS,
        tool_call_id=TEXT,
        name=TEXT,
        call_id=TEXT,
    ),
    "calls": _schema(
        "sweep_id call_id attempt_id cell_id policy",
        concurrency=INT,
        step=INT,
        role=TEXT,
        model=TEXT,
        endpoint=TEXT,
        sent_at=AT,
        admitted_at=AT,
        first_token_at=AT,
        ended_at=AT,
        held_s=REAL,
        ttft_s=REAL,
        latency_s=REAL,
        prompt_tokens=INT,
        cached_tokens=INT,
        completion_tokens=INT,
        finish_reason=TEXT,
        status=TEXT,
        http_status=INT,
        retry=INT,
        cost_usd=REAL,
        params=TEXT,
        prompt_hash=TEXT,
        prompt_spans=SPANS,
        token_ids=pa.list_(pa.int32()),
        logprobs=pa.list_(pa.float32()),
    ),
    "tool_runs": _schema(
        "sweep_id attempt_id cell_id",
        step=INT,
        name=TEXT,
        arguments=TEXT,
        result=TEXT,
        started_at=AT,
        ended_at=AT,
        status=TEXT,
        error_type=TEXT,
        cost_usd=REAL,
    ),
    "retrievals": _schema(
        "sweep_id attempt_id cell_id",
        step=INT,
        index_id=TEXT,
        query=TEXT,
        doc_ids=pa.list_(TEXT),
        scores=pa.list_(REAL),
        latency_s=REAL,
    ),
    "scores": _schema(
        "sweep_id cell_id attempt_id scorer scorer_version",
        value=REAL,
        correct=FLAG,
        answer=TEXT,
        detail=TEXT,
        judge_call_id=TEXT,
        scored_at=AT,
    ),
    "server_metrics": _schema("sweep_id cell_id engine_id", at=AT, name=TEXT, value=REAL),
    "gateway_events": _schema(
        "sweep_id",
        at=AT,
        cell_id=TEXT,
        program_id=TEXT,
        event=TEXT,
        reason=TEXT,
        tokens=INT,
        booked=INT,
        capacity=INT,
    ),
    "tasks": _schema(
        "task_set_id task_id family split question answer slots",
        sources=pa.list_(TEXT),
        status=TEXT,
        reason=TEXT,
        oracle_messages=TEXT,
        gated_at=AT,
    ),
    "train_steps": _schema(
        "run_id checkpoint_id",
        step=INT,
        at=AT,
        tokens=INT,
        loss=REAL,
        token_accuracy=REAL,
        tokens_per_s=REAL,
    ),
}
"""Tables kept as Parquet parts; the contract's other tables are rows of the catalog."""

PARTITION = "sweep_id"
PARTITIONED = frozenset(name for name, schema in TABLES.items() if PARTITION in schema.names)
"""Tables whose parts lie in one folder a sweep (hive: ``sweep_id=…``)."""

SORTED_BY: dict[str, tuple[str, ...]] = {
    "attempts": ("cell_id", "attempt_id"),
    "messages": ("cell_id", "attempt_id", "position"),
    "calls": ("cell_id", "sent_at"),
    "tool_runs": ("cell_id", "attempt_id", "step"),
    "retrievals": ("cell_id", "attempt_id", "step"),
    "scores": ("cell_id", "attempt_id", "scorer"),
    "server_metrics": ("cell_id", "name", "at"),
    "gateway_events": ("cell_id", "at"),
    "tasks": ("task_set_id", "task_id"),
    "train_steps": ("run_id", "step"),
}
"""The order of rows in compacted parts: a cell's rows lie together, a part's statistics tell."""

LOOKED_UP = ("attempt_id", "call_id", "task_id")
"""Columns of random ids, given Bloom filters: a row is found by id without reading its part."""
