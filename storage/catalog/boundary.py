"""Store errors that say what to do, for errors of the disk, of the database, and a lost catalog.

A store that has parts but no catalog is refused, because it would read as empty. A catalog counts
as missing if the database does not have its tables. A writer commits these tables before it writes
its first part: if a part was seen before the lookup of the catalog, there was a catalog, which has
since been lost. Neither a crash nor a race leaves a store in this state.

A catalog that has its tables and lists no part is accepted: a writer that is killed between the
first part of a new store and its entry leaves this state too. `tutti verify` reports such parts.
"""

import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import PurePosixPath

import sqlalchemy as sa

from tutti.storage.base.errors import CatalogMissing, StoreBusy, StoreError, StoreFull
from tutti.storage.base.home import Home, files_of

BUSY_TIMEOUT_S = 30  # several processes commit at once; each commit takes milliseconds


@contextmanager
def store_boundary(home: Home) -> Iterator[None]:
    """Turn errors of the disk and the database into store errors that say what to do."""
    try:
        yield
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            raise StoreFull(_full(home)) from error
        raise StoreError(f"{home}: {error}") from error
    except RuntimeError as error:
        if os.strerror(errno.ENOSPC) not in str(error) or isinstance(error, StoreError):
            raise
        # FAISS reports the system's message, not its number
        raise StoreFull(_full(home)) from error
    except sa.exc.DatabaseError as error:
        if isinstance(error, sa.exc.IntegrityError | sa.exc.ProgrammingError | sa.exc.DataError):
            raise  # a bug, not an error of the disk or the server
        raise _of_database(home, str(error.orig).strip()) from error


def _of_database(home: Home, reason: str) -> StoreError:
    if "full" in reason or os.strerror(errno.ENOSPC) in reason:
        return StoreFull(_full(home))
    if "locked" in reason or "lock timeout" in reason:
        return StoreBusy(f"{home}: catalog locked for {BUSY_TIMEOUT_S} s; try again")
    if "readonly" in reason:
        return StoreError(
            f"{home}: the catalog cannot be written ({reason}); what was committed is safe. Make "
            "the folder writable, then run the same command again."
        )
    return StoreError(f"the catalog of {home}: {reason}")


def _full(home: Home) -> str:
    return (
        f"{home}: no space left on the device. What was committed is safe. Free some space or "
        "set TUTTI_HOME to another disk, then run the same command again."
    )


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
