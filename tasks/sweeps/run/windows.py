"""Named windows of a sweep's cells, as rows of `windows`: what a suite wants to ask for by name.

In: a suite's `report.windows`. Out, for each of its cells: name, start and end in seconds since
its first request. Nothing is fixed by them: any window can be asked for, and the reports' is the
steady one.
"""

import sqlalchemy as sa

from tutti.storage import Catalog
from tutti.storage import catalog as cat
from tutti.tasks.sweeps.spec import Suite

OF_SUITE = "suite"
"""The code of a window that a suite names."""
TEXT = "the suite's"


def enter_windows(suite: Suite, sweep_id: str, catalog: Catalog) -> None:
    """Enter the suite's windows for every cell of the sweep; those it no longer names go."""
    cells, windows = cat.cells.c, cat.windows
    ids = sa.select(cells.cell_id).where(cells.sweep_id == sweep_id)
    with catalog.transaction() as connection:
        mine = windows.c.cell_id.in_(ids) & (windows.c.reason_code == OF_SUITE)
        connection.execute(sa.delete(windows).where(mine))
        for cell_id in connection.execute(ids).scalars().all():
            for name, (start_s, end_s) in suite.report.windows.items():
                row = {"cell_id": cell_id, "name": name, "start_s": start_s, "end_s": end_s}
                row |= {"reason_code": OF_SUITE, "reason": TEXT, "created_at": cat.now()}
                cat.upsert(connection, windows, row)
