"""Reads and sets the pause of a sweep, and counts its running attempts."""

from datetime import datetime

import sqlalchemy as sa

from tutti.storage import Catalog
from tutti.storage import catalog as cat


def paused_at(catalog: Catalog, sweep_id: str) -> datetime | None:
    """The time at which the sweep was paused; None if it is not."""
    query = sa.select(cat.sweeps.c.paused_at).where(cat.sweeps.c.sweep_id == sweep_id)
    found: datetime | None = catalog.rows(query)[0]["paused_at"]
    return found


def set_paused(catalog: Catalog, sweep_id: str, since: datetime | None) -> None:
    """Pause the sweep, or continue it (None). Its process checks about once a second."""
    with catalog.transaction() as connection:
        of = sa.update(cat.sweeps).where(cat.sweeps.c.sweep_id == sweep_id)
        connection.execute(of.values(paused_at=since))


def running(catalog: Catalog, sweep_id: str) -> int:
    """The number of attempts that the sweep's present process has started and not yet stored."""
    states, cells, leases = cat.attempt_states.c, cat.cells.c, cat.leases.c
    of = sa.select(cells.cell_id).where(cells.sweep_id == sweep_id)
    own = sa.select(leases.token).where(leases.name == sweep_id).scalar_subquery()
    count = sa.func.count().label("n")
    query = sa.select(count).where(states.cell_id.in_(of), states.state == "running")
    query = query.where(states.lease_token == own)  # not those of a killed process
    return int(catalog.rows(query)[0]["n"])
