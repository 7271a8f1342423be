"""The store's errors.

StoreError
├── StoreFull        the disk (or quota) under TUTTI_HOME has no room left
├── StoreBusy        the catalog stayed locked for longer than its bound, or another holds a lease
├── CommitUncertain  the database did not answer a commit: it may be in
├── LeaseLost        another took the lease over: what was done under it may not be committed
├── RowRefused       a row does not fit its table; the message names table, row, column and value
├── PartDamaged      a part is missing or not what was entered; the message names the file
└── CatalogMissing   there are parts and no catalog: the store was not read as an empty one
"""

from typing import Any

from tutti.errors import TuttiError


class StoreError(TuttiError, RuntimeError):
    """The store could not do what was asked; the message says what to do."""


class StoreFull(StoreError):
    """No room left on the device that holds TUTTI_HOME."""


class StoreBusy(StoreError):
    """The catalog stayed locked for longer than its bound, or another holds the lease."""


class CommitUncertain(StoreError):
    """A commit was sent and not answered; `settle` tells later whether it is in."""

    def __init__(self, message: str, entries: list[dict[str, Any]]) -> None:
        super().__init__(message)
        self.entries = entries
        """The parts it would have entered."""


class LeaseLost(StoreError):
    """Another process took the lease over; nothing more can be committed under it."""


class RowRefused(StoreError):
    """A row that its table cannot hold faithfully."""


class PartDamaged(StoreError):
    """A part that is missing, cut short or changed since it was entered."""


class CatalogMissing(StoreError):
    """A store whose tables hold parts, and whose catalog is gone or is another one."""
