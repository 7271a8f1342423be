"""The gateway's settings."""

from dataclasses import dataclass, field
from typing import Any

from tutti.tasks.serving.gateway.options import SLOTS
from tutti.tasks.serving.metering.prices import PriceBook
from tutti.tasks.serving.wire.limits import ServerLimits


@dataclass(frozen=True)
class Settings:
    """Settings of one gateway; the defaults are safe."""

    name: str = ""
    """The sweep in which programs that come by base URL are attempts; empty: they are none."""
    policy: str = "adaptive"
    options: dict[str, Any] = field(default_factory=dict)
    hold_s: float = 300.0
    """The longest hold; then 503 with Retry-After."""
    max_held: int = 20_000
    """Most calls held at once; further calls get 503."""
    comment_s: float = 15.0
    """Interval of comments to a held stream's client; 0 for none."""
    upstream_s: float = 600.0
    """The longest silence of an engine."""
    idle_lease_s: float = 1800.0
    sample_s: float = 1.0
    prices: PriceBook | None = None
    """Prices of models whose endpoint has no prices of its own."""
    record_tokens: bool = False
    slots: int = SLOTS
    """Calls in flight at an engine without usable metrics, if it sets no limit of its own."""
    all_events: bool = False
    """Also record events that `calls` already covers: arrive, admit, first_token, finish,
    tool_start."""
    engine_hosts: tuple[str, ...] = ()
    """Hosts of engines added over HTTP, besides public addresses and the hosts of engines given at
    the start: names, addresses, networks."""
    engine_keys: tuple[str, ...] = ()
    """Environment variables whose keys may be used for such engines."""
    server: ServerLimits = field(default_factory=ServerLimits)
