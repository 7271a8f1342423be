"""Partitions and removal of parts, samples, leases, windows, verdicts; hosts of processes."""

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"


def upgrade() -> None:
    """Add what the first release had not."""
    time = sa.DateTime(timezone=True)
    for column in (
        sa.Column("sweep_id", sa.Text),
        sa.Column("mtime_ns", sa.BigInteger),
        sa.Column("removed_at", time),
        sa.Column("removed_why", sa.Text),
        sa.Column("replaced_by", sa.Text),
    ):
        op.add_column("parts", column)
    op.create_index("ix_parts_removed_at", "parts", ["removed_at"])
    op.create_index("ix_artifact_parents_parent_id", "artifact_parents", ["parent_id"])
    op.drop_index("ix_attempt_states_sample_id", "attempt_states")  # the constraint has one
    op.add_column("attempt_states", sa.Column("lease_token", sa.BigInteger))
    op.add_column("processes", sa.Column("host", sa.Text))
    _new_tables(time)


def _new_tables(time: "sa.DateTime") -> None:
    op.create_table(
        "samples",
        sa.Column("sample_id", sa.Text, primary_key=True),
        sa.Column("cell_id", sa.Text, nullable=False),
        sa.Column("task_id", sa.Text, nullable=False),
        sa.Column("trial", sa.Integer, nullable=False),
        sa.Column("position", sa.Integer, nullable=False),
    )
    op.create_index("ix_samples_cell_id", "samples", ["cell_id"])
    op.create_table(
        "leases",
        sa.Column("name", sa.Text, primary_key=True),
        sa.Column("holder", sa.Text, nullable=False),
        sa.Column("token", sa.BigInteger, nullable=False),
        sa.Column("acquired_at", time),
        sa.Column("expires_at", time),
    )
    op.create_table(
        "windows",
        sa.Column("cell_id", sa.Text, primary_key=True),
        sa.Column("name", sa.Text, primary_key=True),
        sa.Column("start_s", sa.Float),
        sa.Column("end_s", sa.Float),
        sa.Column("reason", sa.Text),
        sa.Column("created_at", time),
    )
    texts = [
        sa.Column("verdict_id", sa.Text, primary_key=True),
        sa.Column("sweep_id", sa.Text),
        *(sa.Column(n, sa.Text, nullable=False) for n in ("cell_a", "cell_b", "metric", "verdict")),
        *(sa.Column(name, sa.Text) for name in ("reason", "detail")),
    ]
    figures = [sa.Column(n, sa.Float) for n in ("difference", "ci_low", "ci_high", "p")]
    op.create_table(
        "verdicts", *texts, sa.Column("n", sa.Integer), *figures, sa.Column("created_at", time)
    )
