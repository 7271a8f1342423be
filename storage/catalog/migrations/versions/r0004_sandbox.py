"""Behind which walls a cell's programs ran."""

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"


def upgrade() -> None:
    """Add what cells could not say; null for those from before."""
    op.add_column("cells", sa.Column("sandbox", sa.Text()))
