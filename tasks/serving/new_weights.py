"""Give a running vLLM new weights, and let no call see a mixture.

In: an engine with ``VLLM_SERVER_DEV_MODE``, on loopback, and a folder of safetensors. Out: the
engine with these weights and an empty prefix cache. Running calls are kept: they wait, go on with
the new weights, and recompute what they had in the cache, which the old weights had filled.
"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp

from tutti.tasks.serving.errors import EngineFailed

SWAP_TIMEOUT_S = 120.0


async def swap_weights(engine_url: str, folder: Path) -> None:
    """Load the weights of `folder` into the engine. Raises EngineFailed with its answer; the engine
    goes on, then with the old weights or, where the reload itself failed, with neither."""
    timeout = aiohttp.ClientTimeout(total=SWAP_TIMEOUT_S)
    async with aiohttp.ClientSession(timeout=timeout) as session:
        async with cache_emptied(engine_url, session):
            reload = {"method": "reload_weights", "kwargs": {"weights_path": str(folder.resolve())}}
            await _ask(session, f"{engine_url}/collective_rpc", reload)


@asynccontextmanager
async def cache_emptied(engine_url: str, session: aiohttp.ClientSession) -> AsyncIterator[None]:
    """Pause the engine with its calls kept, and empty its prefix cache before it goes on.

    Raises EngineFailed with its answer, also where the cache was not emptied.
    """
    await _ask(session, f"{engine_url}/pause?mode=keep")
    try:
        yield
        emptied = await _ask(
            session, f"{engine_url}/reset_prefix_cache?reset_running_requests=true"
        )
        # It answers 200 whether or not it could.
        if isinstance(emptied, dict) and emptied.get("success") is False:
            raise EngineFailed(f"{engine_url}: the prefix cache was not emptied: {emptied}")
    finally:
        await _ask(session, f"{engine_url}/resume")


async def _ask(session: aiohttp.ClientSession, url: str, body: Any = None) -> Any:
    try:
        async with session.post(url, json=body) as answer:
            text = await answer.text()
            if answer.status != 200:
                raise EngineFailed(f"{url}: HTTP {answer.status}: {text}")
            return await answer.json() if text else None
    except (aiohttp.ClientError, TimeoutError, ValueError) as error:
        raise EngineFailed(f"{url}: {type(error).__name__}: {error}") from error
