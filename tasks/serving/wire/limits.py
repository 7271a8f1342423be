"""Limits of an HTTP server on the resources of its clients."""

from dataclasses import dataclass


@dataclass(frozen=True)
class ServerLimits:
    """Limits on the resources of clients."""

    body_bytes: int = 16 * 2**20
    """Size of one request's body: text of that size is parsed in 30 ms, which nothing can
    interrupt."""
    buffered_bytes: int = 2**30
    """Size of all bodies together that are arriving, waiting or being answered; beyond it, requests
    get 503."""
    receive_s: float = 60.0
    """Time for a whole request to arrive."""
    idle_s: float = 300.0
    """Time of a connection without a request."""
    stalled_s: float = 300.0
    """Time of a client that reads nothing of what is sent."""
    connections: int = 20_000
