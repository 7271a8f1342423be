"""The first release's tables."""

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None


def _table(name: str, columns: str, *others: "sa.schema.SchemaItem") -> None:
    """`columns` are texts: "!" marks the primary key, "*" those that may not be null."""
    texts = [
        sa.Column(
            column.strip("!*"), sa.Text, primary_key="!" in column, nullable=column.isidentifier()
        )
        for column in columns.split()
    ]
    op.create_table(name, *texts, *others)


def upgrade() -> None:
    """Make them."""
    time, integer, big = sa.DateTime(timezone=True), sa.Integer, sa.BigInteger

    def count(name: str, kind: "type[sa.Integer]" = integer) -> "sa.Column[int]":
        return sa.Column(name, kind, nullable=False)

    sizes = (count("rows", big), count("bytes", big), count("schema_version"))
    _table("parts", "!part_id *table_name *path *sha256", *sizes, sa.Column("created_at", time))
    op.create_index("ix_parts_table_name", "parts", ["table_name"])
    _table("artifacts", "!artifact_id *kind path *detail", sa.Column("created_at", time))
    op.create_index("ix_artifacts_kind", "artifacts", ["kind"])
    _table("artifact_parents", "!artifact_id !parent_id")
    span = (sa.Column("started_at", time), sa.Column("ended_at", time))
    _table("runs", "!run_id *flow *params *machine *code_version *status error", *span)
    _table("sweeps", "!sweep_id *name *spec", sa.Column("created_at", time))
    span = (sa.Column("started_at", time), sa.Column("ended_at", time))
    counts = [count(name) for name in ("concurrency", "repeat", "position", "samples")]
    ids = "!cell_id *sweep_id *benchmark *model *policy *task_set_id *index_id engine_id"
    _table("cells", ids + " *status reason", *counts, *span)
    op.create_index("ix_cells_sweep_id", "cells", ["sweep_id"])
    _table(
        "attempt_states",
        "!attempt_id *cell_id *sample_id *task_id *run_id *state status",
        count("trial"),
        count("attempt"),
        sa.Column("started_at", time),
        sa.UniqueConstraint("sample_id", "attempt"),
    )
    for column in ("cell_id", "sample_id"):
        op.create_index(f"ix_attempt_states_{column}", "attempt_states", [column])
    pid = sa.Column("pid", integer, primary_key=True, autoincrement=False)
    ticks = sa.Column("start_ticks", big, primary_key=True, autoincrement=False)
    _table("processes", "*role *detail", pid, ticks, sa.Column("started_at", time))
