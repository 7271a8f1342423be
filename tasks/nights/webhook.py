"""Tell somebody of a night: one POST to the address in TUTTI_WEBHOOK_URL.

In: the body. Out: None, or in words why it did not arrive. The address is a secret (most hold a
token), so that neither it nor an error's own text is ever shown or kept.
"""

import asyncio
import logging
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

VARIABLE = "TUTTI_WEBHOOK_URL"
TRIES = 3
TIMEOUT_S = 10.0
WAIT_S = 2.0  # before the second try; twice that before the third
LATER = (429, 500, 502, 503, 504)  # worth another try


async def post_webhook(body: Mapping[str, Any], wait_s: float = WAIT_S) -> str | None:
    """POST `body` as JSON, if the environment names an address; a failure is words, no error."""
    url = os.environ.get(VARIABLE)
    if not url:
        return None
    why = ""
    for nth in range(TRIES):
        await asyncio.sleep(nth * wait_s)
        status, why = await _try(url, body)
        if not why or (status is not None and status not in LATER):
            break
    return f"{VARIABLE}: not delivered: {why}" if why else None


async def _try(url: str, body: Mapping[str, Any]) -> tuple[int | None, str]:
    """The status, None for no answer; and what was wrong, empty for nothing."""
    import httpx

    try:
        with _unlogged():
            async with httpx.AsyncClient(timeout=TIMEOUT_S) as client:
                answer = await client.post(url, json=dict(body))
    except (httpx.HTTPError, httpx.InvalidURL, ValueError) as error:
        return None, type(error).__name__  # its text may hold the address
    return answer.status_code, "" if answer.is_success else f"HTTP {answer.status_code}"


@contextmanager
def _unlogged() -> Iterator[None]:
    """httpx logs every request's address, and what is below it the host's."""
    loggers = [logging.getLogger(name) for name in ("httpx", "httpcore")]
    before = [each.level for each in loggers]
    for each in loggers:
        each.setLevel(logging.ERROR)
    try:
        yield
    finally:
        for each, level in zip(loggers, before, strict=True):
            each.setLevel(level)
