"""Retention: removes whole sweeps by age or by name, never a part of one, and only on request.

It removes the sweep's rows in every table, its attempts' states and its samples. The sweep, its
cells (marked as expired) and its place in the lineage stay. Files are moved out of ``tables/`` and
deleted by the next compaction after the grace period, so that current readers are not disturbed.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

import sqlalchemy as sa

from tutti.storage import catalog as cat
from tutti.storage.base.clock import aware
from tutti.storage.base.errors import StoreBusy, StoreError
from tutti.storage.catalog.leasing import check_lease, held
from tutti.storage.maintenance.compaction import set_replaced_aside

SPAN = ("started_at", "ended_at")


@dataclass(frozen=True)
class ExpiredSweep:
    """A sweep that was removed, or would be in a dry run."""

    sweep_id: str
    name: str
    last_used: datetime | None
    cells: int
    parts: int
    rows: int
    bytes: int
    kept: str = ""
    """Why it is not removed; empty if it is."""


def expire(
    catalog: cat.Catalog,
    *,
    older_than: timedelta | None = None,
    sweeps: Sequence[str] = (),
    dry_run: bool = False,
) -> list[ExpiredSweep]:
    """Remove sweeps last used longer ago than `older_than`, and those named (by id or name).

    With both, only those named that are also that old. Raises StoreError for an unknown name, and
    if neither is given. A sweep that a process is running is kept.
    """
    if older_than is None and not sweeps:
        raise StoreError("no sweep was selected; select by age, by name or both")
    before = None if older_than is None else cat.now() - older_than
    chosen = [
        found
        for found in _sweeps(catalog)
        if (not sweeps or found.sweep_id in sweeps or found.name in sweeps)
        and (before is None or (found.last_used is not None and found.last_used < before))
    ]
    unknown = set(sweeps) - {name for s in _sweeps(catalog) for name in (s.sweep_id, s.name)}
    if unknown:
        raise StoreError(f"no sweep is called {', '.join(sorted(unknown))}")
    if dry_run:
        return chosen
    expired = [_let_go(catalog, each) for each in chosen]
    set_replaced_aside(catalog)
    return expired


def _let_go(catalog: cat.Catalog, sweep: ExpiredSweep) -> ExpiredSweep:
    try:
        with held(catalog, sweep.sweep_id) as lease, catalog.transaction() as connection:
            check_lease(connection, lease)
            _remove(connection, sweep.sweep_id)
    except StoreBusy as error:
        return ExpiredSweep(**{**vars(sweep), "kept": str(error)})
    return sweep


def _remove(connection: sa.Connection, sweep_id: str) -> None:
    at = cat.now()
    live = (cat.parts.c.sweep_id == sweep_id) & cat.parts.c.removed_at.is_(None)
    gone = {"removed_at": at, "removed_why": "retention"}
    connection.execute(sa.update(cat.parts).where(live).values(gone))
    mine = cat.cells.c.sweep_id == sweep_id
    cells = sa.select(cat.cells.c.cell_id).where(mine)
    for table in (cat.attempt_states, cat.samples, cat.windows):
        connection.execute(sa.delete(table).where(table.c.cell_id.in_(cells)))
    why: dict[str, Any] = {
        "reason": f"let go on {at:%Y-%m-%d}",
        "reason_code": str(cat.CellReason.EXPIRED),
    }
    why |= dict.fromkeys(("reason_value", "reason_reference"))
    connection.execute(sa.update(cat.cells).where(mine).values(status=cat.EXPIRED, **why))


def _sweeps(catalog: cat.Catalog) -> list[ExpiredSweep]:
    parts = cat.parts
    sums = (sa.func.count(), sa.func.sum(parts.c.rows), sa.func.sum(parts.c.bytes))
    figures = (
        column.label(name) for column, name in zip(sums, ("n", "rows", "bytes"), strict=True)
    )
    query = sa.select(parts.c.sweep_id, *figures).where(parts.c.removed_at.is_(None))
    held_by = {row["sweep_id"]: row for row in catalog.rows(query.group_by(parts.c.sweep_id))}
    found = []
    for sweep in catalog.rows(sa.select(cat.sweeps).order_by(cat.sweeps.c.created_at)):
        own: dict[str, Any] = held_by.get(sweep["sweep_id"], {})
        if not own:
            continue
        cells = catalog.rows(sa.select(cat.cells).where(cat.cells.c.sweep_id == sweep["sweep_id"]))
        # Not the age of its parts: compaction makes new ones.
        times = [sweep["created_at"], *(cell[at] for cell in cells for at in SPAN)]
        last_used = max((aware(at) for at in times if at is not None), default=None)
        counts = (len(cells), own["n"], int(own["rows"]), int(own["bytes"]))
        found.append(ExpiredSweep(sweep["sweep_id"], sweep["name"], last_used, *counts))
    return found
