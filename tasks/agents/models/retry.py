"""Which failures of a model call are retried, and when.

Transient failures are retried: failed connections, 408, 429 and 5xx, after the pause that the
server asks for (500 only once, since it is as often a bug). Permanent ones are not: an invalid
request, a missing permission, an exhausted budget. Each class has its limit, and all retries share
a deadline.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from random import Random

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
        """Seconds until the next try after `failed` ones; None to give up.

        The server's requested pause is a minimum; jitter spreads calls that failed together.
        """
        if failed >= self.tries.get(status, 1):
            return None
        backoff = min(self.most_s, self.first_s * 2 ** (failed - 1))
        pause = max(asked_s or 0.0, backoff * draw.uniform(0.5, 1.0))
        return pause if spent_s + pause < self.deadline_s else None


OVERLOADED = 529
"""Anthropic's status."""
RETRY = Retry({CONNECTION: 3, 408: 2, 429: 6, 500: 2, 502: 3, 503: 4, 504: 2, OVERLOADED: 4})
PASSING = RETRY.tries.keys()
"""Statuses of failures that may pass."""
