"""The catalog: what exists and in what state. SQLAlchemy Core; SQLite or PostgreSQL.

The catalog is authoritative for runs, cells, samples, attempts, parts and artifacts. Large rows are
in Parquet parts; a part exists for readers only once its row is here.
"""

from tutti.storage.base.clock import at as at
from tutti.storage.base.clock import now as now
from tutti.storage.catalog.boundary import store_boundary as store_boundary
from tutti.storage.catalog.store import Catalog as Catalog
from tutti.storage.catalog.store import any_of as any_of
from tutti.storage.catalog.store import database_now as database_now
from tutti.storage.catalog.store import enter_artifact as enter_artifact
from tutti.storage.catalog.store import insert_if_absent as insert_if_absent
from tutti.storage.catalog.store import insert_new as insert_new
from tutti.storage.catalog.store import open_catalog as open_catalog
from tutti.storage.catalog.store import upsert as upsert
from tutti.storage.catalog.tables import ENDED_EARLY as ENDED_EARLY
from tutti.storage.catalog.tables import ENDING_REASONS as ENDING_REASONS
from tutti.storage.catalog.tables import EXPIRED as EXPIRED
from tutti.storage.catalog.tables import FINISHED as FINISHED
from tutti.storage.catalog.tables import REASON_PRECISION as REASON_PRECISION
from tutti.storage.catalog.tables import SUPERSEDED as SUPERSEDED
from tutti.storage.catalog.tables import CellReason as CellReason
from tutti.storage.catalog.tables import artifact_parents as artifact_parents
from tutti.storage.catalog.tables import artifacts as artifacts
from tutti.storage.catalog.tables import attempt_states as attempt_states
from tutti.storage.catalog.tables import cells as cells
from tutti.storage.catalog.tables import leases as leases
from tutti.storage.catalog.tables import metadata as metadata
from tutti.storage.catalog.tables import parts as parts
from tutti.storage.catalog.tables import processes as processes
from tutti.storage.catalog.tables import runs as runs
from tutti.storage.catalog.tables import samples as samples
from tutti.storage.catalog.tables import sweeps as sweeps
from tutti.storage.catalog.tables import verdicts as verdicts
from tutti.storage.catalog.tables import windows as windows
