"""The catalog: what exists and in what state. SQLAlchemy Core; SQLite or PostgreSQL.

The catalog is the truth about runs, cells, samples, attempts, parts and artifacts. Big rows live
in Parquet parts; a part exists for readers only once its row is here.
"""

from tutti.storage.catalog.boundary import BUSY_TIMEOUT_S, store_boundary
from tutti.storage.catalog.store import (
    Catalog,
    database_now,
    enter_artifact,
    insert_if_absent,
    open_catalog,
    upsert,
)
from tutti.storage.catalog.tables import (
    ENDED_EARLY,
    ENDING_REASONS,
    EXPIRED,
    FINISHED,
    REASON_PRECISION,
    SUPERSEDED,
    CellReason,
    artifact_parents,
    artifacts,
    attempt_states,
    cells,
    leases,
    metadata,
    parts,
    processes,
    runs,
    samples,
    sweeps,
    verdicts,
    windows,
)
from tutti.storage.clock import at, now

__all__ = [
    "BUSY_TIMEOUT_S",
    "ENDED_EARLY",
    "ENDING_REASONS",
    "EXPIRED",
    "FINISHED",
    "REASON_PRECISION",
    "SUPERSEDED",
    "Catalog",
    "CellReason",
    "artifact_parents",
    "artifacts",
    "at",
    "attempt_states",
    "cells",
    "database_now",
    "enter_artifact",
    "insert_if_absent",
    "leases",
    "metadata",
    "now",
    "open_catalog",
    "parts",
    "processes",
    "runs",
    "samples",
    "store_boundary",
    "sweeps",
    "upsert",
    "verdicts",
    "windows",
]
