"""Maintenance of a store: compact small parts, verify all parts, remove old sweeps.

Readers and writers keep working meanwhile. A part that is replaced or removed is only marked; its
file is deleted when no reader can still have it open.
"""

from tutti.storage.maintenance.compaction import CompactionReport, TaskOfAttempt, compact, set_tasks
from tutti.storage.maintenance.retention import ExpiredSweep, expire
from tutti.storage.maintenance.verification import StoreFault, VerificationReport, verify

__all__ = [
    "CompactionReport",
    "ExpiredSweep",
    "StoreFault",
    "TaskOfAttempt",
    "VerificationReport",
    "compact",
    "expire",
    "set_tasks",
    "verify",
]
