"""Tests of the embedding endpoint: order, retries, refusals, and a key that is never written."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer

from tutti.tasks.retrieval import endpoint
from tutti.tasks.retrieval.endpoint import EndpointEmbedder
from tutti.tasks.retrieval.errors import EmbedderFailed


@asynccontextmanager
async def served(answer: Callable[[web.Request, Any], web.Response]) -> AsyncIterator[str]:
    """Run an endpoint with this response function and yield its base URL."""

    async def handle(request: web.Request) -> web.Response:
        return answer(request, await request.json())

    app = web.Application()
    app.router.add_post("/v1/embeddings", handle)
    async with TestServer(app) as server:
        yield f"http://127.0.0.1:{server.port}/v1"


def embeddings(body: Any) -> web.Response:
    """Return the vectors [length, 1] of the texts, in reverse order with their index."""
    rows = [{"index": n, "embedding": [len(t), 1]} for n, t in enumerate(body["input"])]
    return web.json_response({"data": rows[::-1]})


async def test_vectors_come_in_order_of_their_texts(monkeypatch: pytest.MonkeyPatch) -> None:
    """There are several requests with the key of the environment; vectors have unit length."""
    keys = set()
    monkeypatch.setenv("OPENAI_API_KEY", "secret")

    def answer(request: web.Request, body: Any) -> web.Response:
        keys.add(request.headers["Authorization"])
        return embeddings(body)

    async with served(answer) as url:
        embedder = EndpointEmbedder(url, "m", 2, texts_per_request=3)
        found = await asyncio.to_thread(embedder.embed, ["x" * nth for nth in range(10)])
    np.testing.assert_allclose(found[:, 0] / found[:, 1], np.arange(10), rtol=1e-5)
    np.testing.assert_allclose(np.linalg.norm(found, axis=1), 1, rtol=1e-6)
    assert keys == {"Bearer secret"}


async def test_a_busy_endpoint_is_asked_again_a_few_times(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(endpoint, "FIRST_WAIT_S", 0.001)
    asked = [0]

    def answer(_: web.Request, body: Any) -> web.Response:
        asked[0] += 1
        return embeddings(body) if asked[0] == 3 else web.Response(status=503)

    async with served(answer) as url:
        embedder = EndpointEmbedder(url, "m", 2)
        assert (await asyncio.to_thread(embedder.embed, ["a"])).shape == (1, 2)
        with pytest.raises(EmbedderFailed, match="after 5 tries"):
            await asyncio.to_thread(embedder.embed, ["a"])
    assert asked[0] == 3 + endpoint.TRIES


@pytest.mark.parametrize(
    ("response", "fault"),
    [
        (web.json_response({"error": "no such model"}, status=404), "no such model"),
        (web.json_response({"data": [{"index": 0, "embedding": [1, 2, 3]}]}), "shape"),
        (web.json_response({"data": []}), "shape"),
        (web.json_response({"oh": 1}), "without embeddings"),
        (web.Response(text="<html>"), "JSON"),
    ],
)
async def test_nonsense_is_an_error_at_once(response: web.Response, fault: str) -> None:
    """Nothing is retried, because the response would be the same."""
    async with served(lambda request, body: response) as url:
        with pytest.raises(EmbedderFailed, match=fault):
            await asyncio.to_thread(EndpointEmbedder(url, "m", 2).embed, ["a"])


def test_the_key_stays_in_the_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "secret")
    embedder = EndpointEmbedder("http://host/v1", "m", 2)
    embedder.save(tmp_path)
    assert EndpointEmbedder.load(tmp_path) == embedder
    assert not [f for f in tmp_path.iterdir() if "secret" in f.read_text()]
    elsewhere = EndpointEmbedder("http://other/v1", "m", 2)
    assert elsewhere.describe() == embedder.describe()
