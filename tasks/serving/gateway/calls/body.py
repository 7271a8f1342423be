"""Reads JSON bodies within limits, so that no body blocks the event loop.

The parser accepts deeper nesting than the writer, and a body of empty objects takes twenty times
its size in memory. Both are checked here, before the body is used. The parser cannot be interrupted
and keeps other threads waiting: what bounds it is a large body's values, checked before in slices,
and the size that the server accepts.
"""

import asyncio
from typing import Any, Protocol

import orjson

from tutti.tasks.serving.gateway.calls.routes import BadRequest
from tutti.tasks.serving.wire.exchange import Exchange
from tutti.tasks.serving.wire.screen import answer, refusal

SHALLOW = 200
"""A body with fewer brackets cannot be nested too deeply."""
MARGIN = 4  # levels that the gateway may add
LARGE_BYTES = 2**20
MAX_PARTS = 1_000_000
"""Approximate number of values of a large body: a prompt of a million token ids, parsed in 20
ms."""
MAX_TEXTS = 100_000
"""Approximate number of keys and texts of a large body: other keys each time, parsed in 20 ms."""
SEPARATORS = (b",", b"{", b"{", b"[", b"[")
"""An object or a list takes the time of two other values: the garbage collector sees it."""


class BodyOwner(Protocol):
    """What reading large bodies needs from its gateway."""

    def handle(self, exchange: Exchange) -> None:
        """Handle a request."""

    def report(self, error: Exception) -> None:
        """Report an error that only the operator can act on."""


class LargeBodies:
    """Parses large bodies in turns of the loop, one body at a time, before they are handled."""

    def __init__(self, owner: BodyOwner) -> None:
        self._owner, self._lock = owner, asyncio.Lock()

    async def parse(self, exchange: Exchange) -> None:
        """Parse a body, then have the request handled."""
        try:
            async with self._lock:
                if not exchange.gone:
                    exchange.parsed = await read_large(exchange.body)
                    self._owner.handle(exchange)
        except BadRequest as error:
            answer(exchange, 400, refusal(400, str(error)))
        except Exception as error:  # without this the request would get no answer
            self._owner.report(error)
            answer(exchange, 500, refusal(500, "the gateway failed"))


def read_object(exchange: Exchange) -> dict[str, Any]:
    """The JSON object in a request's body. Raises BadRequest."""
    if exchange.parsed is not None:
        return exchange.parsed  # type: ignore[no-any-return]
    data = exchange.body
    body = _parse(data)
    if data.count(b"{") + data.count(b"[") > SHALLOW:
        _check_depth(body)
    return body


async def read_large(data: bytes) -> dict[str, Any]:
    """`read_object` for a large body, in several turns of the event loop. Raises BadRequest."""
    parts = quotes = 0
    for start in range(0, len(data), LARGE_BYTES):
        piece = data[start : start + LARGE_BYTES]
        parts += sum(map(piece.count, SEPARATORS))
        quotes += piece.count(b'"') - piece.count(b'\\"')
        if parts > MAX_PARTS:
            raise BadRequest(f"the body has more than {MAX_PARTS} values")
        if quotes > 2 * MAX_TEXTS:
            raise BadRequest(f"the body has more than {MAX_TEXTS} keys and texts")
        await asyncio.sleep(0)
    body = _parse(data)
    await asyncio.sleep(0)
    _check_depth(body)
    await asyncio.sleep(0)
    return body


def _parse(data: bytes) -> dict[str, Any]:
    try:
        body = orjson.loads(data)
    except orjson.JSONDecodeError as error:
        raise BadRequest(f"the body is not JSON: {error}") from None
    if not isinstance(body, dict):
        raise BadRequest("the body must be a JSON object")
    return body


def _check_depth(body: Any) -> None:
    for _ in range(MARGIN):
        body = [body]
    try:
        orjson.dumps(body)
    except orjson.JSONEncodeError as error:
        raise BadRequest(f"the body is nested too deeply: {error}") from None
