"""Creates a catalog's tables, and refuses a catalog of another revision than this code's.

Release 0.2.0 begins with the revision below. The next change of the tables brings a migration from
it, run under the write lock.
"""

import sqlalchemy as sa

from tutti.storage.catalog.tables import metadata
from tutti.storage.errors import StoreError

REVISION = "0006"

stored_revision = sa.Table(
    "alembic_version", sa.MetaData(), sa.Column("version_num", sa.String(32), primary_key=True)
)


def is_current(connection: sa.Connection) -> bool:
    """Whether the catalog is at this code's revision; False for an empty database.

    Raises StoreError for another revision.
    """
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
