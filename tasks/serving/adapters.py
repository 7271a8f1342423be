"""Load LoRA adapters into a running vLLM, so that none answers for another or for the base.

vLLM's prefix cache is keyed by an adapter's name and path: new weights under a known name would
answer from keys of the old ones. And on the CPU the adapter in the last slot also answers calls of
the base that are in one batch with it, so there is one slot more than adapters.
"""

from pathlib import Path
from typing import Any

import aiohttp

from tutti.tasks.serving.errors import EngineFailed
from tutti.tasks.serving.new_weights import cache_emptied

LOAD_TIMEOUT_S = 60.0
ADAPTER_RANK = 16
"""Most rank of an adapter."""
MOST_ADAPTERS = 1
"""Adapters beside the base in one engine."""


async def load_adapter(engine_url: str, name: str, folder: Path) -> None:
    """Serve the adapter in `folder` as model `name`, in place of any other adapter.

    Running calls of the same name go on with the new weights. Raises EngineFailed with the engine's
    answer.
    """
    timeout = aiohttp.ClientTimeout(total=LOAD_TIMEOUT_S)
    async with aiohttp.ClientSession(timeout=timeout) as session:
        for other in await _loaded(session, engine_url):
            if other != name:
                await _post(session, f"{engine_url}/v1/unload_lora_adapter", {"lora_name": other})
        body = {"lora_name": name, "lora_path": str(folder.resolve()), "load_inplace": True}
        async with cache_emptied(engine_url, session):
            await _post(session, f"{engine_url}/v1/load_lora_adapter", body)


async def _loaded(session: aiohttp.ClientSession, engine_url: str) -> list[str]:
    """Names of the adapters that are loaded: models with a parent."""
    try:
        async with session.get(f"{engine_url}/v1/models") as answer:
            listed = (await answer.json())["data"]
    except (aiohttp.ClientError, TimeoutError, KeyError, ValueError) as error:
        raise EngineFailed(f"{engine_url}/v1/models: {type(error).__name__}: {error}") from error
    return [model["id"] for model in listed if model.get("parent") is not None]


async def _post(session: aiohttp.ClientSession, url: str, body: dict[str, Any]) -> None:
    try:
        async with session.post(url, json=body) as answer:
            text = await answer.text()
    except (aiohttp.ClientError, TimeoutError) as error:
        raise EngineFailed(
            f"{url}: {body['lora_name']}: {type(error).__name__}: {error}"
        ) from error
    if answer.status != 200:
        raise EngineFailed(f"{url}: {body}: HTTP {answer.status}: {text}")
