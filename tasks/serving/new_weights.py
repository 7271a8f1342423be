"""Give a running vLLM new weights or a LoRA adapter, and let no call see a mixture.

In: an engine with ``VLLM_SERVER_DEV_MODE``, on loopback, and a folder of safetensors. Out: the
engine with these weights and an empty prefix cache. Running calls are kept: they wait, go on with
the new weights, and recompute what they had in the cache, which the old weights had filled.

vLLM's prefix cache is keyed by an adapter's name and path: new weights under a known name would
answer from keys of the old ones. And on the CPU the adapter in the last slot also answers calls of
the base that are in one batch with it, so there is one slot more than adapters.
"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import aiohttp

from tutti.tasks.serving.control import ask, ask_json, control_session, empty_prefix_cache
from tutti.tasks.serving.errors import EngineFailed

SWAP_TIMEOUT_S = 120.0
LOAD_TIMEOUT_S = 60.0
ADAPTER_RANK = 16
"""Most rank of an adapter."""
MOST_ADAPTERS = 1
"""Adapters beside the base in one engine."""


async def swap_weights(engine_url: str, folder: Path) -> None:
    """Load the weights of `folder` into the engine. Raises EngineFailed with its answer; the engine
    goes on, then with the old weights or, where the reload itself failed, with neither."""
    async with control_session(SWAP_TIMEOUT_S) as session:
        async with _cache_emptied(session, engine_url):
            reload = {"method": "reload_weights", "kwargs": {"weights_path": str(folder.resolve())}}
            await ask(session, f"{engine_url}/collective_rpc", reload)


async def load_adapter(engine_url: str, name: str, folder: Path) -> None:
    """Serve the adapter in `folder` as model `name`, in place of any other adapter.

    Running calls of the same name go on with the new weights. Raises EngineFailed with the engine's
    answer.
    """
    async with control_session(LOAD_TIMEOUT_S) as session:
        for other in await _loaded(session, engine_url):
            if other != name:
                await ask(session, f"{engine_url}/v1/unload_lora_adapter", {"lora_name": other})
        body = {"lora_name": name, "lora_path": str(folder.resolve()), "load_inplace": True}
        async with _cache_emptied(session, engine_url):
            await ask(session, f"{engine_url}/v1/load_lora_adapter", body)


async def _loaded(session: aiohttp.ClientSession, engine_url: str) -> list[str]:
    """Names of the adapters that are loaded: models with a parent."""
    listed = await ask_json(session, f"{engine_url}/v1/models", method="GET")
    try:
        return [model["id"] for model in listed["data"] if model.get("parent") is not None]
    except KeyError as error:
        raise EngineFailed(f"{engine_url}/v1/models: KeyError: {error}") from error


@asynccontextmanager
async def _cache_emptied(session: aiohttp.ClientSession, engine_url: str) -> AsyncIterator[None]:
    """Pause the engine with its calls kept, and empty its prefix cache before it goes on.

    Raises EngineFailed with its answer, also where the cache was not emptied.
    """
    await ask(session, f"{engine_url}/pause?mode=keep")
    try:
        yield
        await empty_prefix_cache(session, engine_url)
    finally:
        await ask(session, f"{engine_url}/resume")
