"""The catalog's tables and their revision; a catalog of another revision is refused.

Release 0.2.0 begins with the revision below. The next change of the tables brings a migration from
it, run under the write lock.
"""

from datetime import datetime
from enum import StrEnum
from typing import Any

import sqlalchemy as sa

from tutti.storage.base.errors import StoreError

metadata = sa.MetaData()


def _text(name: str, **options: Any) -> "sa.Column[str]":
    return sa.Column(name, sa.Text, **options)


def _time(name: str) -> "sa.Column[datetime]":
    return sa.Column(name, sa.DateTime(timezone=True))


parts = sa.Table(
    "parts",
    metadata,
    _text("part_id", primary_key=True),
    _text("table_name", nullable=False, index=True),
    _text("path", nullable=False),
    sa.Column("rows", sa.BigInteger, nullable=False),
    sa.Column("bytes", sa.BigInteger, nullable=False),
    _text("sha256", nullable=False),
    sa.Column("schema_version", sa.Integer, nullable=False),
    _time("created_at"),
    _text("sweep_id"),  # the partition; null for rows of no sweep
    # when it was last verified; if the file's time differs, it is verified again
    sa.Column("mtime_ns", sa.BigInteger),
    sa.Column("removed_at", sa.DateTime(timezone=True), index=True),  # null: visible to readers
    _text("removed_why"),  # compacted, retention; removed once the file is; quarantined
    _text("replaced_by"),
)
artifacts = sa.Table(
    "artifacts",
    metadata,
    _text("artifact_id", primary_key=True),
    _text("kind", nullable=False, index=True),
    _text("path"),
    _text("detail", nullable=False),
    _time("created_at"),
)
artifact_parents = sa.Table(
    "artifact_parents",
    metadata,
    _text("artifact_id", primary_key=True),
    _text("parent_id", primary_key=True),
    sa.Index("ix_artifact_parents_parent_id", "parent_id"),
)
runs = sa.Table(
    "runs",
    metadata,
    _text("run_id", primary_key=True),
    _text("flow", nullable=False),
    _text("params", nullable=False),
    _text("machine", nullable=False),
    _text("code_version", nullable=False),
    _text("status", nullable=False),
    _text("error"),
    _time("started_at"),
    _time("ended_at"),
)
sweeps = sa.Table(
    "sweeps",
    metadata,
    _text("sweep_id", primary_key=True),
    _text("name", nullable=False),
    _text("spec", nullable=False),
    _time("created_at"),
    _time("paused_at"),  # since when it starts no samples; null: it does
)
FINISHED, ENDED_EARLY, SUPERSEDED = "finished", "ended_early", "superseded"
"""Statuses of cells that have ended: measured completely; ended early for a reason, which is a
result; or replaced by another measurement."""
EXPIRED = "expired"
"""Status of cells whose rows, samples and states were removed; a plan of one enters it anew."""


class CellReason(StrEnum):
    """Why a cell is not measured completely (`cells.reason_code`), by its number `reason_value`."""

    LATENCY_LIMIT = "latency_limit"
    """The 95th percentile of its step latency is significantly above `reason_value` seconds."""
    ACCURACY_DECIDED = "accuracy_decided"
    """Its accuracy against the policy `reason_reference` is decided, with the margin
    `reason_value`."""
    TIME_LIMIT = "time_limit"
    """It ran for `reason_value` seconds."""
    LATE = "late"
    """Its last attempts took more than `reason_value` times the median duration and were cut."""
    BUDGET_MINUTES = "budget_minutes"
    """The run's time limit, `reason_value` minutes, was reached; the next run continues."""
    BUDGET_USD = "budget_usd"
    """The run's cost limit, `reason_value` USD, was reached; the next run continues."""
    EXPIRED = "expired"
    """Its rows were removed by `tutti gc`."""
    OTHER = "other"
    """Another reason from before revision 0005; `reason` has its text."""


ENDING_REASONS = frozenset(
    (
        CellReason.LATENCY_LIMIT,
        CellReason.ACCURACY_DECIDED,
        CellReason.TIME_LIMIT,
        CellReason.LATE,
    )
)
"""Reasons that end a cell permanently: its status is then ENDED_EARLY."""
REASON_PRECISION = 1e-5
"""Relative precision: values from before revision 0005 were parsed from text of six digits."""
cells = sa.Table(
    "cells",
    metadata,
    _text("cell_id", primary_key=True),
    _text("sweep_id", nullable=False, index=True),
    _text("benchmark", nullable=False),
    _text("model", nullable=False),
    _text("policy"),  # null: an imported log does not say
    sa.Column("concurrency", sa.Integer),  # null: an imported log does not say
    sa.Column("repeat", sa.Integer, nullable=False),
    sa.Column("position", sa.Integer, nullable=False),
    _text("task_set_id", nullable=False),
    _text("index_id", nullable=False),
    _text("engine_id"),
    sa.Column("samples", sa.Integer, nullable=False),
    _text("status", nullable=False),
    _text("reason"),
    _time("started_at"),
    _time("ended_at"),
    _text("sandbox"),
    _text("reason_code"),  # a CellReason; null: complete, or not ended yet
    sa.Column("reason_value", sa.Float),
    _text("reason_reference"),  # the policy that the accuracy was compared with
)
samples = sa.Table(
    "samples",
    metadata,
    _text("sample_id", primary_key=True),
    _text("cell_id", nullable=False, index=True),
    _text("task_id", nullable=False),
    sa.Column("trial", sa.Integer, nullable=False),
    sa.Column("position", sa.Integer, nullable=False),
)
attempt_states = sa.Table(
    "attempt_states",
    metadata,
    _text("attempt_id", primary_key=True),
    _text("cell_id", nullable=False, index=True),
    _text("sample_id", nullable=False),  # indexed by the unique constraint below
    _text("task_id", nullable=False),
    sa.Column("trial", sa.Integer, nullable=False),
    sa.Column("attempt", sa.Integer, nullable=False),
    _text("run_id", nullable=False),
    _text("state", nullable=False),  # running, done, or lost: its rows are missing in the store
    _text("status"),
    _time("started_at"),
    sa.Column("lease_token", sa.BigInteger),  # of the lease it was entered under
    sa.UniqueConstraint("sample_id", "attempt"),
)
leases = sa.Table(
    "leases",
    metadata,
    _text("name", primary_key=True),
    _text("holder", nullable=False),  # JSON: host, pid, start_ticks; empty if nobody holds it
    sa.Column("token", sa.BigInteger, nullable=False),  # increases with every holder
    _time("acquired_at"),
    _time("expires_at"),
)
windows = sa.Table(
    "windows",
    metadata,
    _text("cell_id", primary_key=True),
    _text("name", primary_key=True),
    sa.Column("start_s", sa.Float),
    sa.Column("end_s", sa.Float),
    _text("reason"),
    _time("created_at"),
    _text("reason_code"),  # suite: named by the suite; null: entered from elsewhere
)
verdicts = sa.Table(
    "verdicts",
    metadata,
    _text("verdict_id", primary_key=True),
    _text("sweep_id"),
    _text("cell_a", nullable=False),
    _text("cell_b", nullable=False),
    _text("metric", nullable=False),
    sa.Column("n", sa.Integer),
    sa.Column("difference", sa.Float),
    sa.Column("ci_low", sa.Float),
    sa.Column("ci_high", sa.Float),
    sa.Column("p", sa.Float),
    _text("verdict", nullable=False),  # better, worse, same, inconclusive
    _text("reason"),
    _text("detail"),
    _time("created_at"),
)
processes = sa.Table(
    "processes",
    metadata,
    sa.Column("pid", sa.Integer, primary_key=True),
    sa.Column("start_ticks", sa.BigInteger, primary_key=True),
    _text("role", nullable=False),
    _text("detail", nullable=False),
    _time("started_at"),
    _text("host"),
)


REVISION = "0006"

stored_revision = sa.Table(
    "alembic_version", sa.MetaData(), sa.Column("version_num", sa.String(32), primary_key=True)
)


def is_current(connection: sa.Connection) -> bool:
    """Whether the catalog is at this code's revision; False for an empty database. Raises
    StoreError for another revision."""
    names = set(sa.inspect(connection).get_table_names())
    if stored_revision.name not in names:
        if "parts" in names:
            raise StoreError(_older("one without a number"))
        return False
    found = connection.execute(sa.select(stored_revision.c.version_num)).scalar_one()
    if found > REVISION:
        raise StoreError(
            f"the catalog is at revision {found!r}, made by a newer tutti than this one, which "
            f"knows {REVISION}; upgrade tutti"
        )
    if found < REVISION:
        raise StoreError(_older(repr(found)))
    return True


def create(connection: sa.Connection) -> None:
    """Create the tables inside the caller's transaction, which holds the write lock."""
    metadata.create_all(connection)
    stored_revision.create(connection)
    connection.execute(sa.insert(stored_revision).values(version_num=REVISION))


def _older(found: str) -> str:
    return (
        f"the catalog is at revision {found}, of a tutti from before {REVISION}, which this one "
        "does not read; export its sweeps with the tutti that made it (`tutti export`) and import "
        "them into a new store"
    )
