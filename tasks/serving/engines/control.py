"""Requests to the control routes of a running engine on loopback: sleep, weights, caches.

In: a vLLM that runs with ``VLLM_SERVER_DEV_MODE``. Concurrent calls wait, and recompute their part
of the cache. vLLM's prefix cache is keyed by an adapter's name and path, so it is emptied when new
weights come under a known name. An engine without ``--enable-sleep-mode``, and vLLM's CPU build,
answer as if they slept and free nothing.
"""

import json
import re
import time
import urllib.error
import urllib.request
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Literal

import aiohttp

from tutti.tasks.serving.errors import EngineFailed
from tutti.tasks.serving.registry.settings import ServerKind


def control_session(timeout_s: float) -> aiohttp.ClientSession:
    """Return a session whose requests take at most `timeout_s`."""
    return aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=timeout_s))


async def ask(
    session: aiohttp.ClientSession, url: str, body: Any = None, method: str = "POST"
) -> str:
    """The text of an engine's answer. Raises EngineFailed if it does not answer, or refuses."""
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
    """Return the object of an engine's answer; empty for an empty answer. Raises EngineFailed."""
    text = await ask(session, url, method=method)
    try:
        content = json.loads(text or "{}")
    except ValueError as error:
        raise EngineFailed(f"{url}: {type(error).__name__}: {error}") from error
    return content if isinstance(content, dict) else {}


async def empty_prefix_cache(session: aiohttp.ClientSession, engine_url: str) -> None:
    """Empty the prefix cache; running calls recompute. Raises EngineFailed on failure."""
    reset = f"{engine_url}/reset_prefix_cache?reset_running_requests=true"
    emptied = await ask_json(session, reset)
    if emptied.get("success") is False:  # it answers 200 whether or not it could
        raise EngineFailed(f"{engine_url}: the prefix cache was not emptied: {emptied}")


SWAP_TIMEOUT_S = 120.0
LOAD_TIMEOUT_S = 60.0
ADAPTER_RANK = 16
MOST_ADAPTERS = 1
"""Adapters beside the base in one engine."""


async def swap_weights(engine_url: str, folder: Path) -> None:
    """Load the weights of `folder` into the engine. Raises EngineFailed with its answer; the engine
    continues with the old weights or, if the reload itself failed, without valid weights."""
    async with control_session(SWAP_TIMEOUT_S) as session:
        async with _cache_emptied(session, engine_url):
            reload = {"method": "reload_weights", "kwargs": {"weights_path": str(folder.resolve())}}
            await ask(session, f"{engine_url}/collective_rpc", reload)


async def load_adapter(engine_url: str, name: str, folder: Path) -> None:
    """Serve the adapter in `folder` as model `name`, in place of any other adapter. Running calls
    of the same name continue with the new weights. Raises EngineFailed with the engine's answer."""
    async with control_session(LOAD_TIMEOUT_S) as session:
        listed = await ask_json(session, f"{engine_url}/v1/models", method="GET")
        if "data" not in listed:
            raise EngineFailed(f"{engine_url}/v1/models: no data in {listed}")
        for model in listed["data"]:  # adapters are models with a parent
            if model.get("parent") is not None and (other := model["id"]) != name:
                await ask(session, f"{engine_url}/v1/unload_lora_adapter", {"lora_name": other})
        body = {"lora_name": name, "lora_path": str(folder.resolve()), "load_inplace": True}
        async with _cache_emptied(session, engine_url):
            await ask(session, f"{engine_url}/v1/load_lora_adapter", body)


@asynccontextmanager
async def _cache_emptied(session: aiohttp.ClientSession, engine_url: str) -> AsyncIterator[None]:
    """Pause the engine without ending its calls, and empty its prefix cache before it continues.
    Raises EngineFailed with its answer, also if the cache was not emptied."""
    await ask(session, f"{engine_url}/pause?mode=keep")
    try:
        yield
        await empty_prefix_cache(session, engine_url)
    finally:
        await ask(session, f"{engine_url}/resume")


PHASE_TIMEOUT_S = 300.0
"""Of each request: 140 GB of weights take half a minute over PCIe."""
ANSWER_TIMEOUT_S = 10.0
"""Of the question whether it sleeps: an engine that takes longer hangs."""


@asynccontextmanager
async def asleep(engine_url: str, level: Literal[1, 2] = 1) -> AsyncIterator[None]:
    """Let the engine sleep during the block, and wake it with an empty prefix cache.

    After level 2 it has no weights: load some with `swap_weights` before calling it. Raises
    EngineFailed if it does not sleep, or does not wake. If the block fails too, its own error is
    raised, with a note.
    """
    async with control_session(PHASE_TIMEOUT_S) as session:
        if await _sleeps(session, engine_url):
            raise EngineFailed(f"{engine_url}: sleeps already: another run has its GPU")
        try:
            await _fall_asleep(session, engine_url, level)
            yield
        except BaseException as error:
            try:
                await _wake(session, engine_url)
            except EngineFailed as broken:
                error.add_note(f"Nor was the engine woken: {broken}")
            raise
        await _wake(session, engine_url)


async def is_asleep(engine_url: str) -> bool:
    """Whether the engine sleeps, or is paused. Raises EngineFailed if it does not report it."""
    async with control_session(ANSWER_TIMEOUT_S) as session:
        return await _sleeps(session, engine_url)


async def fall_asleep(engine_url: str) -> None:
    """Put an engine to sleep, its weights in the host's memory, until `wake`. Raises EngineFailed
    if it does not sleep; it is awake then."""
    async with control_session(PHASE_TIMEOUT_S) as session:
        try:
            await _fall_asleep(session, engine_url, 1)
        except EngineFailed:
            await _wake(session, engine_url)
            raise


async def wake(engine_url: str) -> bool:
    """Wake an engine that sleeps; return whether it slept. Raises EngineFailed if it does not wake,
    or does not report its state."""
    if not await is_asleep(engine_url):
        return False
    async with control_session(PHASE_TIMEOUT_S) as session:
        await _wake(session, engine_url)
    return True


async def _fall_asleep(session: aiohttp.ClientSession, engine_url: str, level: int) -> None:
    # kept: by default running calls are aborted, with HTTP 200 and a part of their text
    await ask(session, f"{engine_url}/sleep?level={level}&mode=keep")
    if not await _sleeps(session, engine_url):
        raise EngineFailed(f"{engine_url}: was told to sleep and does not (is_sleeping)")


async def _wake(session: aiohttp.ClientSession, engine_url: str) -> None:
    answer = await ask_json(session, f"{engine_url}/wake_up")
    if answer.get("status") != "awake" or await _sleeps(session, engine_url):
        raise EngineFailed(f"{engine_url}: was told to wake and sleeps on: {answer}")
    await empty_prefix_cache(session, engine_url)


async def _sleeps(session: aiohttp.ClientSession, engine_url: str) -> bool:
    answer = await ask_json(session, f"{engine_url}/is_sleeping", method="GET")
    return bool(answer.get("is_sleeping"))


IDLE_TIMEOUT_S, ASK_TIMEOUT_S, POLL_S = 60.0, 20.0, 0.1
RUNNING = {
    "vllm": r"vllm:num_requests_(?:running|waiting)",
    "sglang": r"sglang:num_(?:running_reqs|queue_reqs)",
    "llama.cpp": r"llamacpp:requests_(?:processing|deferred)",
}
BUSY = {
    server: re.compile(rf"^{names}(?:\{{[^}}]*\}})? ([0-9.eE+-]+)$", re.MULTILINE)
    for server, names in RUNNING.items()
}


def reset_prefix_cache(url: str, server: ServerKind = "vllm") -> None:
    """Wait until the engine at `url` (without /v1) is idle, then empty its cache. Raises
    EngineFailed if it does not answer, or is busy for more than a minute."""
    deadline = time.monotonic() + IDLE_TIMEOUT_S
    while any(float(count) for count in BUSY[server].findall(fetch(f"{url}/metrics"))):
        if time.monotonic() > deadline:
            raise EngineFailed(f"{url} is still busy after {IDLE_TIMEOUT_S:.0f} s")
        time.sleep(POLL_S)
    if server == "llama.cpp":
        for slot in json.loads(fetch(f"{url}/slots")):
            fetch(f"{url}/slots/{slot['id']}?action=erase", "POST")
    else:
        fetch(f"{url}/{'flush_cache' if server == 'sglang' else 'reset_prefix_cache'}", "POST")


def fetch(url: str, method: str = "GET") -> str:
    """Return the text of an engine's answer; blocks. Raises EngineFailed."""
    request = urllib.request.Request(url, method=method)
    try:
        with urllib.request.urlopen(request, timeout=ASK_TIMEOUT_S) as answer:
            text: str = answer.read().decode()
            return text
    except (urllib.error.URLError, OSError) as error:
        raise EngineFailed(f"{method} {url}: {error}") from error
