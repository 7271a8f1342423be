"""Test that a real vLLM on the CPU survives more seeded prompts than fit into one step."""

import asyncio
from pathlib import Path

import aiohttp
import pytest

from tutti.storage import Home, open_catalog
from tutti.tasks.platform.project import POCKET
from tutti.tasks.serving.engines import Engine
from tutti.tasks.serving.registry import Model

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(300)]
SETTINGS = {"kv_blocks": 256, "max_sequences": 32, "max_batched_tokens": 256}
ENTRY = {"provider": "vllm", "checkpoint": POCKET, "context_tokens": 512, "engine": SETTINGS}


async def test_prompts_that_do_not_fit_together_are_all_answered(tmp_path: Path) -> None:
    """vLLM used to die with `CPU Generator does not use offset` when it processed one of them in
    parts."""
    with open_catalog(Home(tmp_path / "home")) as catalog:
        with Engine("pocket", Model.model_validate(ENTRY), catalog) as address:
            async with aiohttp.ClientSession() as session:

                async def ask(number: int) -> int:
                    words = " ".join(f"word{number}{nth}" for nth in range(60))
                    body = {"model": "pocket", "temperature": 1.0, "seed": number, "max_tokens": 8}
                    said = {"messages": [{"role": "user", "content": words}]}
                    url = f"{address.url}/v1/chat/completions"
                    async with session.post(url, json=body | said) as reply:
                        return reply.status

                assert set(await asyncio.gather(*map(ask, range(24)))) == {200}
