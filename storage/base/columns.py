"""The columns of all tables, and the version of the schema.

Columns are only ever added: what an older part lacks is null. Types are DuckDB's words, because
Arrow takes longer to load than a reader takes to answer (`storage.write.encode` has its types).
"""

SCHEMA_VERSION, OLDEST_READ = 9, 8

TEXT, INT, REAL, FLAG, AT = "varchar", "bigint", "double", "boolean", "timestamptz"
TOKEN_IDS, LOGPROBS = "integer[]", "float[]"
SPANS = "struct(first integer, last integer)[]"  # of message positions
TOKEN_SPANS = "struct(call_id varchar, first integer, last integer, ids integer[])[]"
TOOL_CALLS = "struct(id varchar, name varchar, arguments varchar)[]"


def _columns(text: str = "", **columns: str) -> dict[str, str]:
    """`text` names text columns that come first; `columns` follow in order."""
    return dict.fromkeys(text.split(), TEXT) | columns


REALS = (
    "seconds learning_rate gradient_norm reward entropy kl clip_share mfu peak_mb "
    "dead_group_share rollouts_per_s staleness mismatch_kl mismatch_max mismatch_share "
    "held_out_loss chosen_reward rejected_reward margin preference_accuracy"
)
_MESSAGE = {"position": INT, "role": TEXT, "content": TEXT, "reasoning": TEXT}
_MESSAGE |= {"tool_calls": TOOL_CALLS, "tool_call_id": TEXT, "name": TEXT, "call_id": TEXT}
COLUMNS: dict[str, dict[str, str]] = {
    "attempts": _columns(
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
        error_message=TEXT,
        due_at=AT,
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
        source=TEXT,
    ),
    "messages": _columns("sweep_id cell_id attempt_id", **_MESSAGE),
    "auxiliary_messages": _columns("sweep_id cell_id attempt_id thread", **_MESSAGE),
    "calls": _columns(
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
        token_ids=TOKEN_IDS,
        logprobs=LOGPROBS,
        prompt_token_ids=TOKEN_SPANS,
        weights_at_start=TEXT,
        weights_at_end=TEXT,
        prompt_thread=TEXT,
    ),
    "tool_runs": _columns(
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
    "retrievals": _columns(
        "sweep_id attempt_id cell_id",
        step=INT,
        index_id=TEXT,
        query=TEXT,
        doc_ids=f"{TEXT}[]",
        scores=f"{REAL}[]",
        latency_s=REAL,
    ),
    "scores": _columns(
        "sweep_id cell_id attempt_id scorer scorer_version",
        value=REAL,
        correct=FLAG,
        answer=TEXT,
        detail=TEXT,
        judge_call_id=TEXT,
        scored_at=AT,
    ),
    "server_metrics": _columns("sweep_id cell_id engine_id", at=AT, name=TEXT, value=REAL),
    "gateway_events": _columns(
        "sweep_id",
        at=AT,
        cell_id=TEXT,
        program_id=TEXT,
        event=TEXT,
        reason_code=TEXT,
        reason=TEXT,
        tokens=INT,
        booked=INT,
        capacity=INT,
    ),
    "tasks": _columns(
        "task_set_id task_id family split question answer slots",
        sources=f"{TEXT}[]",
        status=TEXT,
        reason=TEXT,
        oracle_messages=TEXT,
        gated_at=AT,
        template=TEXT,
        difficulty=TEXT,
    ),
    "gate_verdicts": _columns(
        "task_set_id task_id gate",
        position=INT,
        passed=FLAG,
        reason=TEXT,
        measured=REAL,
        gated_at=AT,
    ),
    "train_steps": _columns(
        "run_id checkpoint_id",
        step=INT,
        at=AT,
        tokens=INT,
        loss=REAL,
        token_accuracy=REAL,
        tokens_per_s=REAL,
        weights=TEXT,
        sequences=INT,
        groups=INT,
        **dict.fromkeys(REALS.split(), REAL),
    ),
}
"""Tables kept as Parquet parts; the contract's other tables are rows of the catalog."""

PARTITION = "sweep_id"
PARTITIONED = frozenset(name for name, schema in COLUMNS.items() if PARTITION in schema)
"""Tables whose parts are stored in one folder per sweep (hive: ``sweep_id=…``)."""

SORTED_BY: dict[str, tuple[str, ...]] = {
    "attempts": ("cell_id", "attempt_id"),
    "messages": ("cell_id", "attempt_id", "position"),
    "auxiliary_messages": ("cell_id", "attempt_id", "thread", "position"),
    "calls": ("cell_id", "sent_at"),
    "tool_runs": ("cell_id", "attempt_id", "step"),
    "retrievals": ("cell_id", "attempt_id", "step"),
    "scores": ("cell_id", "attempt_id", "scorer"),
    "server_metrics": ("cell_id", "name", "at"),
    "gateway_events": ("cell_id", "at"),
    "tasks": ("task_set_id", "task_id"),
    "gate_verdicts": ("task_set_id", "task_id", "position"),
    "train_steps": ("run_id", "step"),
}
"""The order of rows in compacted parts: a cell's rows are adjacent, so that statistics select."""

LOOKED_UP = ("attempt_id", "call_id", "task_id")
"""Columns of random ids, which get Bloom filters: a row is found by id without reading its part."""
