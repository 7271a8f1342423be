"""Codes of why cells ended, with the numbers meant; codes of windows; who accepted a night.

What only a text said until this revision is read from the text here, once.
"""

import json
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
    cells = sa.table("cells", *(sa.column(name) for name in names))
    connection = op.get_bind()
    texts = sa.select(cells.c.reason).where(cells.c.reason.is_not(None)).distinct()
    for text in connection.execute(texts).scalars().all():
        which = cells.c.reason == text
        connection.execute(sa.update(cells).where(which).values(_codes(str(text))))
    op.add_column("windows", sa.Column("reason_code", sa.Text()))
    windows = sa.table("windows", sa.column("reason"), sa.column("reason_code"))
    of_suite = windows.c.reason == "the suite's"
    connection.execute(sa.update(windows).where(of_suite).values(reason_code="suite"))
    _nights(connection)


def _nights(connection: sa.Connection) -> None:
    """Say in a night's details whether it was accepted by hand."""
    names = ("verdict_id", "metric", "detail")
    verdicts = sa.table("verdicts", *(sa.column(name) for name in names))
    nights = sa.select(verdicts.c.verdict_id, verdicts.c.detail).where(verdicts.c.metric == "night")
    for verdict_id, text in connection.execute(nights).all():
        detail = json.loads(text)
        detail["by_hand"] = str(detail.get("accepted") or "").startswith("by hand: ")
        which = verdicts.c.verdict_id == verdict_id
        connection.execute(sa.update(verdicts).where(which).values(detail=json.dumps(detail)))


def _codes(text: str) -> dict[str, object]:
    for code, pattern in TEXTS:
        if (found := pattern.match(text)) is not None:
            given = found.groupdict()
            value = None if "value" not in given else float(given["value"])
            reference = given.get("reference")
            return {"reason_code": code, "reason_value": value, "reason_reference": reference}
    return {"reason_code": "other", "reason_value": None, "reason_reference": None}
