"""Refuses a store that has parts but no catalog, because it would read as empty.

A catalog counts as missing when the database does not have its tables. A writer commits these
tables before it writes its first part. A part that was seen before the catalog was looked for
therefore had a catalog, which has since been lost. No crash leaves a store in this state, and no
race does: another process that creates the store has committed its catalog before its first part
can be seen.

A catalog that has its tables and lists no part is accepted. A writer that is killed between the
first part of a new store and its entry leaves this state, and nothing distinguishes the two cases.
`tutti verify` reports such parts.
"""

from pathlib import PurePosixPath

import sqlalchemy as sa

from tutti.storage.catalog.boundary import store_boundary
from tutti.storage.errors import CatalogMissing
from tutti.storage.files import files_of
from tutti.storage.home import Home


def refuse_missing_file(home: Home) -> None:
    """Raise CatalogMissing if the store's own catalog file is gone, before SQLite creates a new
    one: a log (`catalog.db-wal`) left beside it is kept for restoring it."""
    file = home.catalog_file
    if not file.exists() and holds_parts(home) and not file.exists():
        raise CatalogMissing(_message(home, f"{file} is missing"))


def refuse_empty(home: Home, connection: sa.Connection) -> None:
    """Raise CatalogMissing: the store had parts, and its database has no catalog."""
    url = connection.engine.url  # of the store's own file it names none
    place = url.render_as_string() if url.database else home.catalog_file  # without the password
    raise CatalogMissing(_message(home, f"the database {place} holds no catalog"))


def holds_parts(home: Home) -> bool:
    """Whether the store's tables have any part file, entered or not."""
    with store_boundary(home):
        names = (PurePosixPath(found.path).name for found in files_of(home).list("tables"))
        return any(name.startswith("part-") and name.endswith(".parquet") for name in names)


def _message(home: Home, what: str) -> str:
    return (
        f"{home}: {what}, but tables/ holds parts: without their catalog nothing says which rows "
        "count, and no command can rebuild it from them. Put the catalog back from a copy of the "
        "store; if it is in another database, set TUTTI_CATALOG_URL to that; or move tables/ away "
        "to begin an empty store."
    )
