"""Since when a sweep is paused."""

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"


def upgrade() -> None:
    """Add what sweeps could not say."""
    op.add_column("sweeps", sa.Column("paused_at", sa.DateTime(timezone=True)))
