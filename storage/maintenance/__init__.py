"""Maintenance of a store: compact small parts, verify all parts, remove old sweeps.

Readers and writers keep working meanwhile. A part that is replaced or removed is only marked; its
file is deleted when no reader can still have it open.
"""

from tutti.storage.maintenance.compaction import CompactionReport as CompactionReport
from tutti.storage.maintenance.compaction import TaskOfAttempt as TaskOfAttempt
from tutti.storage.maintenance.compaction import compact as compact
from tutti.storage.maintenance.compaction import set_tasks as set_tasks
from tutti.storage.maintenance.retention import ExpiredSweep as ExpiredSweep
from tutti.storage.maintenance.retention import expire as expire
from tutti.storage.maintenance.verification import StoreFault as StoreFault
from tutti.storage.maintenance.verification import VerificationReport as VerificationReport
from tutti.storage.maintenance.verification import verify as verify
