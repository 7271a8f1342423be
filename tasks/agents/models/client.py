"""The HTTP client of model calls, with unlimited concurrency.

It uses the gateway's own HTTP code with persistent connections, and has no timeout, because the
gateway may hold a call for long. `Retry` has the number of tries by status and the pauses between
them; a 500 is retried only once, because it is as often a bug. Figures: docs/load.md.
"""

import time
from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from random import Random
from typing import Self

from tutti.tasks.serving.wire import Answer, AnswerReceiver, Headers, Origin, ask

SWEEP_S = 1.0
COMPLETIONS = b"/v1/chat/completions"


class Client:
    """Connections to one gateway; an async context manager."""

    def __init__(self, url: str) -> None:
        """Raises ValueError unless `url` is an http(s) URL."""
        self._origin = Origin(url)
        self._swept = 0.0

    @property
    def url(self) -> str:
        """The gateway's URL."""
        return self._origin.url

    async def post(
        self, path: bytes, headers: Headers, body: bytes, receiver: AnswerReceiver | None = None
    ) -> Answer:
        """Send JSON; return the answer whatever its status. Raises NoAnswer."""
        now = time.monotonic()
        if now - self._swept > SWEEP_S:  # connections that the server is about to close
            self._swept = now
            self._origin.sweep()
        all_headers = [(b"Content-Type", b"application/json"), *headers]
        return await ask(self._origin, b"POST", path, all_headers, body, receiver)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._origin.close()


CONNECTION = 0
"""Pseudo-status of a call that got no answer."""


@dataclass(frozen=True)
class Retry:
    """The number of tries and the pauses between them."""

    tries: Mapping[int, int]
    """The most calls in all, by status."""
    first_s: float = 0.5
    most_s: float = 8.0
    deadline_s: float = 900.0
    """No try starts later than this after the first."""

    def pause_s(
        self, status: int, failed: int, asked_s: float | None, spent_s: float, draw: Random
    ) -> float | None:
        """Seconds until the next try after `failed` ones; None to give up. The server's requested
        pause is a minimum; jitter spreads calls that failed together."""
        if failed >= self.tries.get(status, 1):
            return None
        backoff = min(self.most_s, self.first_s * 2 ** (failed - 1))
        pause = max(asked_s or 0.0, backoff * draw.uniform(0.5, 1.0))
        return pause if spent_s + pause < self.deadline_s else None


OVERLOADED = 529
"""Anthropic's status."""
RETRY = Retry({CONNECTION: 3, 408: 2, 429: 6, 500: 2, 502: 3, 503: 4, 504: 2, OVERLOADED: 4})
PASSING: AbstractSet[int] = RETRY.tries.keys()
"""Statuses of failures that may pass."""
