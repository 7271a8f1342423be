"""Tests of a real vLLM after a weight update: every response comes from the requested weights.

Forty prompts are decoded greedily. The responses of each weights alone, one by one and with an
empty cache, equal those after a swap with a warm cache, all at once, and while other calls run.
"""

import asyncio
import subprocess
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from tutti.storage import Home, open_catalog
from tutti.tasks.platform.project import POCKET, PROJECT, models_python_path
from tutti.tasks.serving.engines import Engine, load_adapter, swap_weights
from tutti.tasks.serving.registry import Model

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(420)]
PROMPTS = [
    f"What is the last parameter of the function {name}({', '.join(parameters)})?"
    for name in ("read", "join", "open", "walk", "parse", "split", "merge", "find")
    for parameters in (("a",), ("path", "mode"), ("x", "y", "z"), ("self", "key"), ("n", "size"))
]
TOKENS = 24


def changed(folder: Path, seed: int, *flags: str) -> Path:
    out = folder / f"weights-{seed}"
    script = PROJECT / "tests" / "e2e" / "changed_weights.py"
    command = [str(models_python_path()), str(script), "--base", str(POCKET), "--out", str(out)]
    subprocess.run([*command, "--seed", str(seed), *flags], check=True, timeout=180)
    return out


@pytest.fixture(params=[False, True], ids=["whole", "adapter"])
def lora(request: pytest.FixtureRequest) -> bool:
    return bool(request.param)


@pytest.fixture
def engine(tmp_path: Path, lora: bool) -> Iterator[Engine]:
    settings = {"kv_blocks": 256, "max_sequences": 32, "max_batched_tokens": 2048, "lora": lora}
    entry = {"provider": "vllm", "checkpoint": POCKET, "context_tokens": 256, "engine": settings}
    with open_catalog(Home(tmp_path / "home")) as catalog:
        made = Engine("pocket", Model.model_validate(entry), catalog)
        with made:
            yield made


async def answer(session: aiohttp.ClientSession, url: str, model: str, prompt: str) -> str:
    body: dict[str, Any] = {"model": model, "temperature": 0, "max_tokens": TOKENS}
    body |= {"messages": [{"role": "user", "content": prompt}]}
    async with session.post(f"{url}/v1/chat/completions", json=body) as reply:
        assert reply.status == 200, await reply.text()
        said: str = (await reply.json())["choices"][0]["message"]["content"]
        return said


async def alone(session: aiohttp.ClientSession, engine: Engine, model: str) -> list[str]:
    found = []
    for prompt in PROMPTS:
        engine.reset()
        found.append(await answer(session, engine.address.url, model, prompt))
    return found


async def at_once(session: aiohttp.ClientSession, url: str, models: Sequence[str]) -> Any:
    """Return the responses by model, with the calls of all models in the same batches."""
    asked = [(model, prompt) for prompt in PROMPTS for model in models]
    said = await asyncio.gather(*(answer(session, url, model, prompt) for model, prompt in asked))
    return {
        model: [text for (by, _), text in zip(asked, said, strict=True) if by == model]
        for model in models
    }


@asynccontextmanager
async def traffic(session: aiohttp.ClientSession, url: str, model: str) -> AsyncIterator[None]:
    """Run four callers that call without a pause."""

    async def caller(number: int) -> None:
        for turn in range(10_000):
            await answer(session, url, model, f"Say something about {number} and {turn}.")

    callers = [asyncio.create_task(caller(number)) for number in range(4)]
    try:
        yield
        assert not any(each.done() for each in callers), "no call failed in a swap"
    finally:
        for each in callers:
            each.cancel()
        with suppress(asyncio.CancelledError):
            await asyncio.gather(*callers, return_exceptions=True)


def same(ours: Sequence[str], expected: Sequence[str]) -> int:
    return sum(a == b for a, b in zip(ours, expected, strict=True))


@pytest.mark.parametrize("lora", [False], indirect=True, ids=["whole"])
async def test_base_old_and_new_weights_answer_as_they_do_alone(
    engine: Engine, tmp_path: Path
) -> None:
    url = engine.address.url
    every = [POCKET, changed(tmp_path, 1), changed(tmp_path, 2)]
    async with aiohttp.ClientSession() as session:
        expected = []
        for folder in every:
            await swap_weights(url, folder)
            expected.append(await alone(session, engine, "pocket"))
        assert same(expected[0], expected[1]) < 20 and same(expected[1], expected[2]) < 20
        async with traffic(session, url, "pocket"):
            for nth in (0, 1, 2, 1, 0, 2):
                await swap_weights(url, every[nth])  # the cache is warm of the weights before
                for _ in range(2):
                    said = (await at_once(session, url, ["pocket"]))["pocket"]
                    assert same(said, expected[nth]) == 40, [
                        pair for pair in zip(said, expected[nth], strict=True) if pair[0] != pair[1]
                    ]


@pytest.mark.parametrize("lora", [True], indirect=True, ids=["adapter"])
async def test_an_adapter_and_the_base_answer_as_they_do_alone_in_mixed_batches(
    engine: Engine, tmp_path: Path
) -> None:
    """The second adapter, of the same name, replaces the first."""
    url = engine.address.url
    every = [changed(tmp_path, seed, "--adapter") for seed in (1, 2)]
    async with aiohttp.ClientSession() as session:
        base = await alone(session, engine, "pocket")
        expected = []
        for folder in every:
            await load_adapter(url, "own", folder)
            expected.append(await alone(session, engine, "own"))
        assert same(base, expected[0]) < 30 and same(expected[0], expected[1]) < 30
        async with traffic(session, url, "pocket"):
            for nth in (0, 1, 0):
                await load_adapter(url, "own", every[nth])
                for _ in range(2):
                    said = await at_once(session, url, ["pocket", "own"])
                    assert same(said["own"], expected[nth]) == 40
                    assert same(said["pocket"], base) == 40


@pytest.mark.parametrize("lora", [True], indirect=True, ids=["adapter"])
async def test_an_adapter_of_another_name_takes_the_place_of_the_one_before(
    engine: Engine, tmp_path: Path
) -> None:
    """Two adapters beside the base would need one more slot; the older is unloaded."""
    url = engine.address.url
    folder = changed(tmp_path, 1, "--adapter")
    await load_adapter(url, "first", folder)
    await load_adapter(url, "second", folder)
    async with aiohttp.ClientSession() as session, session.get(f"{url}/v1/models") as reply:
        listed = [model["id"] for model in (await reply.json())["data"]]
    assert listed == ["pocket", "second"]
