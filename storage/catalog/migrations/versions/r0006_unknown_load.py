"""Imported cells may have no policy and no concurrency: their logs do not always say."""

import sqlalchemy as sa
from alembic import op

revision = "0006"
down_revision = "0005"


def upgrade() -> None:
    """Allow null in both; cells of earlier imports keep what they have."""
    with op.batch_alter_table("cells") as cells:
        cells.alter_column("policy", existing_type=sa.Text(), nullable=True)
        cells.alter_column("concurrency", existing_type=sa.Integer(), nullable=True)
