"""The store's errors.

StoreError
├── StoreFull        the disk (or quota) under TUTTI_HOME has no room left
└── StoreBusy        the catalog stayed locked for longer than its bound
"""


class StoreError(RuntimeError):
    """The store could not do what was asked; the message says what to do."""


class StoreFull(StoreError):
    """No room left on the device that holds TUTTI_HOME."""


class StoreBusy(StoreError):
    """The catalog stayed locked for longer than its bound."""
