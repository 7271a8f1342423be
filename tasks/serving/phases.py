"""Let an engine sleep while a training needs its card, or nobody uses it, and wake it.

In: a vLLM that runs with ``--enable-sleep-mode`` and ``VLLM_SERVER_DEV_MODE``, on loopback. Out:
its weights in the host's memory (level 1) or nowhere (level 2), and its KV cache discarded. Calls
that run or arrive meanwhile are kept: they wait, and recompute what they had in the cache.

vLLM's CPU build answers as if it slept and frees nothing (it logs "sleep mode is not supported on
CPU"): there is no card to free. An engine on a GPU without ``--enable-sleep-mode`` frees nothing
either, and does not say so: start it with the flag.
"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Literal

import aiohttp

from tutti.tasks.serving.control import ask, ask_json, control_session, empty_prefix_cache
from tutti.tasks.serving.errors import EngineFailed

PHASE_TIMEOUT_S = 300.0
"""Of each request: 140 GB of weights take half a minute over PCIe."""
ANSWER_TIMEOUT_S = 10.0
"""Of the question whether it sleeps: an engine that takes longer hangs."""


@asynccontextmanager
async def asleep(engine_url: str, level: Literal[1, 2] = 1) -> AsyncIterator[None]:
    """Let the engine sleep during the block, and wake it with an empty prefix cache.

    After level 2 it has no weights: give it some with `swap_weights` before it is called. Raises
    EngineFailed where it does not sleep, or does not wake. Where the block fails too, its own error
    is raised, with a note.
    """
    async with control_session(PHASE_TIMEOUT_S) as session:
        if await _sleeps(session, engine_url):
            raise EngineFailed(f"{engine_url}: sleeps already: another run has its card")
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
    """Whether the engine sleeps, or is paused. Raises EngineFailed where it does not say."""
    async with control_session(ANSWER_TIMEOUT_S) as session:
        return await _sleeps(session, engine_url)


async def fall_asleep(engine_url: str) -> None:
    """Put an engine to sleep, its weights in the host's memory, until `wake`. Raises EngineFailed
    where it does not sleep; it is awake then."""
    async with control_session(PHASE_TIMEOUT_S) as session:
        try:
            await _fall_asleep(session, engine_url, 1)
        except EngineFailed:
            await _wake(session, engine_url)
            raise


async def wake(engine_url: str) -> bool:
    """Wake an engine that sleeps; returns whether it did. Raises EngineFailed where it sleeps on,
    or does not say."""
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
