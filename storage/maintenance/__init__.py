"""Keeping a store in order: compact small parts, verify all of it, let old sweeps go.

Readers and writers go on meanwhile. A part that is replaced or let go is only marked as removed;
its file goes when no reader can still have it open.
"""

from tutti.storage.maintenance.compaction import Compacted, compact
from tutti.storage.maintenance.retention import Expired, expire
from tutti.storage.maintenance.verification import Finding, Verified, verify

__all__ = ["Compacted", "Expired", "Finding", "Verified", "compact", "expire", "verify"]
