"""The interface of the gateway that the admin API, the views and the time limits use.

They take this protocol instead of `Gateway` to avoid import cycles.
"""

from collections import deque
from collections.abc import Coroutine
from typing import Any, Protocol

from tutti.storage import BufferedWriter
from tutti.tasks.serving.gateway.admin.access import Access
from tutti.tasks.serving.gateway.admin.targets import Targets
from tutti.tasks.serving.gateway.calls.proxied_call import ProxiedCall
from tutti.tasks.serving.gateway.endpoint import Endpoint
from tutti.tasks.serving.gateway.pools import Pool, Pools
from tutti.tasks.serving.gateway.pulse import Pulse
from tutti.tasks.serving.gateway.recording.call_recorder import CallRecorder
from tutti.tasks.serving.gateway.recording.events import EventLog
from tutti.tasks.serving.gateway.recording.gpus import Gpus
from tutti.tasks.serving.gateway.recording.journal import Journal
from tutti.tasks.serving.gateway.settings import Settings

Trend = deque[tuple[int, int]]
"""Calls held and running, one pair a second."""


class GatewayState(Protocol):
    """The state of one gateway, and the few actions that its parts need."""

    settings: Settings
    access: Access
    targets: Targets
    pools: Pools
    in_flight: dict[str, ProxiedCall]
    """Calls that have not ended, by call id."""
    cell_id: str
    """The running cell; empty outside a sweep."""
    concurrency: int | None
    events: EventLog
    recorder: BufferedWriter
    recording: CallRecorder
    journal: Journal | None
    gpus: Gpus
    pulse: Pulse
    trend: Trend
    counts: dict[str, int]

    def count(self, name: str) -> None:
        """Add one to a counter that the metrics show."""

    def spawn(self, work: Coroutine[Any, Any, None]) -> None:
        """Run a coroutine in the background."""

    def set_wake(self, pool: Pool) -> None:
        """Set the timer for the scheduler's next tick."""

    def release(self, pool: Pool, program_id: str) -> bool:
        """End a program; returns whether the pool knew it."""

    def endpoint_changed(self, endpoint: Endpoint) -> None:
        """Tell the scheduler that an endpoint failed or paused."""
