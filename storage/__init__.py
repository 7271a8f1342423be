"""The store: Parquet parts, a catalog, and SQL over both.

It is independent of Prefect, models and HTTP. `connect()` gives a DuckDB connection with every
table. Names are loaded on first use: ids need neither DuckDB nor SQLAlchemy, and the models
environment, which has neither, uses them too.
"""

from typing import TYPE_CHECKING

from tutti.face import lazy

if TYPE_CHECKING:
    from tutti.storage.base.clock import aware as aware
    from tutti.storage.base.clock import now as now
    from tutti.storage.base.columns import COLUMNS as COLUMNS
    from tutti.storage.base.errors import CatalogMissing as CatalogMissing
    from tutti.storage.base.errors import LeaseLost as LeaseLost
    from tutti.storage.base.errors import PartDamaged as PartDamaged
    from tutti.storage.base.errors import RowRefused as RowRefused
    from tutti.storage.base.errors import StoreBusy as StoreBusy
    from tutti.storage.base.errors import StoreError as StoreError
    from tutti.storage.base.errors import StoreFull as StoreFull
    from tutti.storage.base.home import Home as Home
    from tutti.storage.base.home import current_home as current_home
    from tutti.storage.base.home import home_at as home_at
    from tutti.storage.base.home import replacing as replacing
    from tutti.storage.base.lineage import artifact_id as artifact_id
    from tutti.storage.base.lineage import content_hash as content_hash
    from tutti.storage.base.meanings import meaning as meaning
    from tutti.storage.base.outcomes import COUNTED as COUNTED
    from tutti.storage.base.outcomes import MOST_MESSAGE as MOST_MESSAGE
    from tutti.storage.base.outcomes import SCORABLE as SCORABLE
    from tutti.storage.base.outcomes import Cost as Cost
    from tutti.storage.base.outcomes import ErrorType as ErrorType
    from tutti.storage.base.outcomes import foreign_error as foreign_error
    from tutti.storage.base.outcomes import http_error as http_error
    from tutti.storage.catalog import Catalog as Catalog
    from tutti.storage.catalog import open_catalog as open_catalog
    from tutti.storage.catalog.leasing import Lease as Lease
    from tutti.storage.catalog.leasing import Renewals as Renewals
    from tutti.storage.catalog.leasing import check_lease as check_lease
    from tutti.storage.catalog.leasing import held as held
    from tutti.storage.catalog.leasing import holder_of as holder_of
    from tutti.storage.catalog.leasing import start_ticks as start_ticks
    from tutti.storage.catalog.leasing import this_host as this_host
    from tutti.storage.programs.states import begin_program as begin_program
    from tutti.storage.programs.states import end_program as end_program
    from tutti.storage.programs.states import known_programs as known_programs
    from tutti.storage.programs.states import may_end as may_end
    from tutti.storage.programs.states import read_tallies as read_tallies
    from tutti.storage.programs.states import record_lost as record_lost
    from tutti.storage.programs.tally import PARTNERS as PARTNERS
    from tutti.storage.programs.tally import ProgramCell as ProgramCell
    from tutti.storage.programs.tally import ProgramClock as ProgramClock
    from tutti.storage.programs.tally import ProgramTally as ProgramTally
    from tutti.storage.programs.tally import WaitedTime as WaitedTime
    from tutti.storage.programs.tally import sweep_of_gateway as sweep_of_gateway
    from tutti.storage.read.lineage_graph import RENDERINGS as RENDERINGS
    from tutti.storage.read.lineage_graph import Direction as Direction
    from tutti.storage.read.lineage_graph import walk as walk
    from tutti.storage.read.views import connect as connect
    from tutti.storage.read.views import macros_named as macros_named
    from tutti.storage.read.views import query as query
    from tutti.storage.write.batch import Group as Group
    from tutti.storage.write.buffered import BufferedWriter as BufferedWriter
    from tutti.storage.write.conversation import Conversation as Conversation
    from tutti.storage.write.conversation import KeptContext as KeptContext
    from tutti.storage.write.conversation import Message as Message
    from tutti.storage.write.conversation import spans_of as spans_of
    from tutti.storage.write.encode import TABLES as TABLES
    from tutti.storage.write.encode import storable as storable
    from tutti.storage.write.token_history import BrokenSpans as BrokenSpans
    from tutti.storage.write.token_history import LastUsed as LastUsed
    from tutti.storage.write.token_history import TokenHistories as TokenHistories
    from tutti.storage.write.token_history import TokenHistory as TokenHistory
    from tutti.storage.write.token_history import read_prompts as read_prompts
    from tutti.storage.write.writer import commit as commit
    from tutti.storage.write.writer import end_attempts as end_attempts

if not TYPE_CHECKING:  # with it, a type checker would accept any name of this package
    __getattr__ = lazy(__name__, __file__)
