"""The store: Parquet parts, a catalog, and SQL over both.

Knows nothing of Prefect, models or HTTP. `connect()` gives a DuckDB connection with every table.
Names are loaded when first used: ids alone need neither DuckDB nor SQLAlchemy, and the models
environment, which has neither, uses them too.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tutti.storage.buffered import BufferedWriter
    from tutti.storage.catalog import Catalog, open_catalog
    from tutti.storage.errors import (
        CatalogMissing,
        LeaseLost,
        PartDamaged,
        RowRefused,
        StoreBusy,
        StoreError,
        StoreFull,
    )
    from tutti.storage.home import Home, current_home, home_at
    from tutti.storage.leases import Holder, Lease, held, holder_of
    from tutti.storage.lineage import artifact_id, content_hash
    from tutti.storage.views import connect, query
    from tutti.storage.writer import commit

_HOMES = {
    "buffered": ("BufferedWriter",),
    "catalog": ("Catalog", "open_catalog"),
    "errors": (
        "CatalogMissing",
        "LeaseLost",
        "PartDamaged",
        "RowRefused",
        "StoreBusy",
        "StoreError",
        "StoreFull",
    ),
    "home": ("Home", "current_home", "home_at"),
    "leases": ("Holder", "Lease", "held", "holder_of"),
    "lineage": ("artifact_id", "content_hash"),
    "views": ("connect", "query"),
    "writer": ("commit",),
}
_MODULE_OF = {name: module for module, names in _HOMES.items() for name in names}

__all__ = [
    "BufferedWriter",
    "Catalog",
    "CatalogMissing",
    "Holder",
    "Home",
    "Lease",
    "LeaseLost",
    "PartDamaged",
    "RowRefused",
    "StoreBusy",
    "StoreError",
    "StoreFull",
    "artifact_id",
    "commit",
    "connect",
    "content_hash",
    "current_home",
    "held",
    "holder_of",
    "home_at",
    "open_catalog",
    "query",
]


def __getattr__(name: str) -> Any:
    if name not in _MODULE_OF:
        raise AttributeError(f"module 'storage' has no attribute {name!r}")
    return getattr(import_module(f"tutti.storage.{_MODULE_OF[name]}"), name)
