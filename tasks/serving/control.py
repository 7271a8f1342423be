"""Requests to the control routes of a vLLM that runs with ``VLLM_SERVER_DEV_MODE``, on loopback."""

import json
from typing import Any

import aiohttp

from tutti.tasks.serving.errors import EngineFailed


def control_session(timeout_s: float) -> aiohttp.ClientSession:
    """A session whose requests take at most `timeout_s`."""
    return aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=timeout_s))


async def ask(
    session: aiohttp.ClientSession, url: str, body: Any = None, method: str = "POST"
) -> str:
    """The text of an engine's answer. Raises EngineFailed where it has none, or refuses."""
    where = url if body is None else f"{url}: {body}"
    try:
        async with session.request(method, url, json=body) as answer:
            text = await answer.text()
    except (aiohttp.ClientError, TimeoutError, ValueError) as error:
        raise EngineFailed(f"{where}: {type(error).__name__}: {error}") from error
    if answer.status == 404 and "/v1/" not in url:
        raise EngineFailed(f"{where}: HTTP 404: start it with VLLM_SERVER_DEV_MODE=1")
    if answer.status != 200:
        raise EngineFailed(f"{where}: HTTP {answer.status}: {text}")
    return text


async def ask_json(
    session: aiohttp.ClientSession, url: str, method: str = "POST"
) -> dict[str, Any]:
    """The object of an engine's answer; empty where it answers nothing. Raises EngineFailed."""
    text = await ask(session, url, method=method)
    try:
        content = json.loads(text or "{}")
    except ValueError as error:
        raise EngineFailed(f"{url}: {type(error).__name__}: {error}") from error
    return content if isinstance(content, dict) else {}


async def empty_prefix_cache(session: aiohttp.ClientSession, engine_url: str) -> None:
    """Empty the prefix cache; running calls recompute. Raises EngineFailed where it was not."""
    reset = f"{engine_url}/reset_prefix_cache?reset_running_requests=true"
    emptied = await ask_json(session, reset)
    if emptied.get("success") is False:  # it answers 200 whether or not it could
        raise EngineFailed(f"{engine_url}: the prefix cache was not emptied: {emptied}")
