"""The HTTP client of model calls: unlimited concurrency, timed to the first token.

In: the URL of a gateway (or of any server with the same API), http or https. Out: whole answers;
for a stream also the time of its first token. It uses the gateway's own HTTP code
(`tutti.tasks.serving.wire`) with persistent connections. There is no limit on connections and no
timeout, because the gateway may hold a call for long. Cancelling the task of a call closes its
connection. Figures: docs/load.md.

`Retry` says which failures are retried, and when. Transient ones are: failed connections, 408, 429
and 5xx, after the pause that the server asks for (500 only once, since it is as often a bug).
Permanent ones are not: an invalid request, a missing permission, an exhausted budget. Each class
has its limit, and all retries share a deadline.
"""

import time
from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from random import Random
from typing import Any

import orjson

from tutti.tasks.serving.wire import Answer, AnswerReceiver, Headers, Origin, ask

SWEEP_S = 1.0
COMPLETIONS = b"/v1/chat/completions"
TOKENS = ("content", "reasoning_content", "reasoning", "tool_calls")
"""Keys of a delta that carries a token; a delta with only the role carries none."""


@dataclass(frozen=True)
class StreamedAnswer:
    """A complete streamed answer, with the time of its first token."""

    answer: Answer
    first_token_at: float | None
    """When the piece with the first token was read, on the monotonic clock; None if there was
    none."""

    def ttft_s(self, start: float | None = None) -> float | None:
        """Seconds to first token: from `start`, the intended time of the call, or (None) from
        sending."""
        if self.first_token_at is None:
            return None
        return self.first_token_at - (self.answer.sent_at if start is None else start)


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

    async def post(self, path: bytes, headers: Headers, body: bytes) -> Answer:
        """Send JSON; returns the answer whatever its status. Raises NoAnswer."""
        return await self._ask(path, headers, body, None)

    async def stream(self, headers: Headers, body: bytes) -> StreamedAnswer:
        """A chat completion whose `body` asks for a stream, read to its end. Raises NoAnswer."""
        events = _Events()
        answer = await self._ask(COMPLETIONS, headers, body, events)
        return StreamedAnswer(answer, events.first_token_at)

    async def __aenter__(self) -> "Client":
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._origin.close()

    async def _ask(
        self, path: bytes, headers: Headers, body: bytes, receiver: AnswerReceiver | None
    ) -> Answer:
        now = time.monotonic()
        if now - self._swept > SWEEP_S:  # connections that the server is about to close
            self._swept = now
            self._origin.sweep()
        all_headers = [(b"Content-Type", b"application/json"), *headers]
        return await ask(self._origin, b"POST", path, all_headers, body, receiver)


class _Events(AnswerReceiver):
    """Server-sent events of a chat completion, looked at until one has a token."""

    def __init__(self) -> None:
        super().__init__()
        self.first_token_at: float | None = None
        self._line: list[bytes] = []  # the incomplete event

    def on_data(self, data: bytes) -> None:
        """A piece arrived: part of an event, or several events."""
        self.keep(data)
        if self.first_token_at is not None:
            return
        now = time.monotonic()
        whole, newline, rest = data.rpartition(b"\n")
        if not newline:
            self._line.append(data)
            return
        lines, self._line = b"".join((*self._line, whole)).split(b"\n"), [rest]
        if any(map(_has_token, lines)):
            self.first_token_at = now


def _has_token(line: bytes) -> bool:
    if not line.startswith(b"data:"):
        return False
    try:
        event: Any = orjson.loads(line[5:])
        delta = event["choices"][0]["delta"]
        return any(delta.get(name) for name in TOKENS)
    except (orjson.JSONDecodeError, LookupError, TypeError, AttributeError):
        return False  # [DONE], usage, or a comment


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
PASSING: AbstractSet[int] = RETRY.tries.keys()
"""Statuses of failures that may pass."""
