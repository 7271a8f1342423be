"""The tables' Arrow schemas, as the contract states them: one place, one version."""

import pyarrow as pa

SCHEMA_VERSION = 1

TEXT, INT, REAL, FLAG = pa.string(), pa.int64(), pa.float64(), pa.bool_()
AT = pa.timestamp("us", tz="UTC")
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
        "attempt_id",
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
        "call_id attempt_id cell_id",
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
        token_ids=pa.list_(pa.int32()),
        logprobs=pa.list_(pa.float32()),
    ),
    "tool_runs": _schema(
        "attempt_id cell_id",
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
        "attempt_id cell_id",
        step=INT,
        index_id=TEXT,
        query=TEXT,
        doc_ids=pa.list_(TEXT),
        scores=pa.list_(REAL),
        latency_s=REAL,
    ),
    "scores": _schema(
        "attempt_id scorer scorer_version",
        value=REAL,
        correct=FLAG,
        answer=TEXT,
        detail=TEXT,
        judge_call_id=TEXT,
        scored_at=AT,
    ),
    "server_metrics": _schema("cell_id engine_id", at=AT, name=TEXT, value=REAL),
    "gateway_events": _schema(
        "",
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
