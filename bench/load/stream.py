"""Streamed chat completions of the client of model calls, timed to the first token."""

import time
from dataclasses import dataclass
from typing import Any

import orjson

from tutti.tasks.agents.models.client import COMPLETIONS, Client
from tutti.tasks.serving.wire import Answer, AnswerReceiver, Headers

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


async def stream(client: Client, headers: Headers, body: bytes) -> StreamedAnswer:
    """A chat completion whose `body` asks for a stream, read to its end. Raises NoAnswer."""
    events = Events()
    answer = await client.post(COMPLETIONS, headers, body, events)
    return StreamedAnswer(answer, events.first_token_at)


class Events(AnswerReceiver):
    """Server-sent events of a chat completion, looked at until one has a token."""

    def __init__(self) -> None:
        super().__init__()
        self.first_token_at: float | None = None
        self._line: list[bytes] = []  # the incomplete event

    def on_data(self, data: bytes) -> None:
        super().on_data(data)
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
