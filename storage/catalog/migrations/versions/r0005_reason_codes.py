"""Codes of why cells ended, with the numbers that are meant; read once from the texts before."""

import re

import sqlalchemy as sa
from alembic import op

revision = "0005"
down_revision = "0004"

NUMBER = r"(?P<value>\S+)"
TEXTS = (
    ("latency_limit", re.compile(rf"(?:p95 limit \S+ s: )?over-saturated: .* than {NUMBER} s \(")),
    ("accuracy_decided", re.compile(rf"margin {NUMBER} to (?P<reference>\S+): decided ")),
    ("time_limit", re.compile(rf"its {NUMBER} s are over$")),
    ("budget_minutes", re.compile(rf"the budget of {NUMBER} minutes is spent")),
    ("budget_usd", re.compile(rf"the budget of {NUMBER} USD is spent")),
    ("expired", re.compile("let go on ")),
)
"""How each code's reason was worded until this revision, from the start of the text."""


def upgrade() -> None:
    """Add the columns, and fill them for the cells that have a reason."""
    op.add_column("cells", sa.Column("reason_code", sa.Text()))
    op.add_column("cells", sa.Column("reason_value", sa.Float()))
    op.add_column("cells", sa.Column("reason_reference", sa.Text()))
    names = ("cell_id", "reason", "reason_code", "reason_value", "reason_reference")
    columns: list[sa.ColumnClause[object]] = [sa.column(name) for name in names]
    cells = sa.table("cells", *columns)
    connection = op.get_bind()
    texts = sa.select(cells.c.reason).where(cells.c.reason.is_not(None)).distinct()
    for text in connection.execute(texts).scalars().all():
        which = cells.c.reason == text
        connection.execute(sa.update(cells).where(which).values(_codes(str(text))))


def _codes(text: str) -> dict[str, object]:
    for code, pattern in TEXTS:
        if (found := pattern.match(text)) is not None:
            given = found.groupdict()
            value = None if "value" not in given else float(given["value"])
            reference = given.get("reference")
            return {"reason_code": code, "reason_value": value, "reason_reference": reference}
    return {"reason_code": "other", "reason_value": None, "reason_reference": None}
