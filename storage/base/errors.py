"""The store's errors.

StoreError
├── StoreFull        the disk (or quota) under TUTTI_HOME has no room left
├── StoreBusy        the catalog was locked for too long, or another process holds a lease
├── CommitUncertain  the database did not answer a commit: it may be in
├── LeaseLost        another process took the lease: nothing more can be committed under it
├── RowRefused       a row does not fit its table; the message names table, row, column and value
├── PartDamaged      a part is missing or not what was entered; the message names the file
└── CatalogMissing   the store has parts but no catalog; it is not treated as empty
"""

from typing import Any

from tutti.errors import TuttiError


class StoreError(TuttiError, RuntimeError):
    """Base class: a store operation failed; the message says what to do."""


class StoreFull(StoreError):
    """No room left on the device that holds TUTTI_HOME."""


class StoreBusy(StoreError):
    """The catalog was locked for too long, or another process holds the lease."""


class CommitUncertain(StoreError):
    """A commit was sent and not answered; `settle` determines later whether it took effect."""

    def __init__(self, message: str, entries: list[dict[str, Any]]) -> None:
        super().__init__(message)
        self.entries = entries
        """The parts that it would have entered."""


class LeaseLost(StoreError):
    """Another process took the lease; nothing more can be committed under it."""


class RowRefused(StoreError):
    """A row does not fit its table."""


class PartDamaged(StoreError):
    """A part is missing, truncated or changed since it was entered."""


class CatalogMissing(StoreError):
    """The store's tables have parts, but the catalog is missing or belongs to another store."""


PERMANENT = (CatalogMissing, LeaseLost, PartDamaged, RowRefused)  # no retry changes these
