"""Turns errors of the disk and the database into store errors that say what to do."""

import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager

import sqlalchemy as sa

from tutti.storage.errors import StoreBusy, StoreError, StoreFull
from tutti.storage.home import Home

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
