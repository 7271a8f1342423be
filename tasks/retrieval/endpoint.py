"""Endpoints: an embedder that calls ``/v1/embeddings``, and a reranker that calls ``/v1/rerank``.

In: texts. Out: unit vectors, or one score for each text. Several requests for embeddings are sent
concurrently; those that fail because the endpoint is busy are retried a few times, refused ones are
not. A reranker (vLLM, Jina, Cohere) reads the query with each document. Keys are read from the
environment when needed and never written.
"""

import asyncio
import json
import os
import random
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import aiohttp
import numpy as np

from tutti.tasks.retrieval.embedder import Vectors
from tutti.tasks.retrieval.errors import EmbedderFailed, RerankerFailed

FILE = "embedder.json"
TRIES = 5
FIRST_WAIT_S = 0.5  # doubled at each try, with jitter
TIMEOUT_S = 120.0
BUSY = frozenset({408, 409, 429, 500, 502, 503, 504})


class _EndpointBusy(Exception):
    """A temporary failure of the endpoint."""


@dataclass(frozen=True)
class EndpointEmbedder:
    """An endpoint and the model it embeds with."""

    url: str
    """Its base, ending in ``/v1``."""
    model: str
    dimensions: int
    key_env: str = "OPENAI_API_KEY"
    """The environment variable of the key; if it is unset or empty, no key is sent."""
    texts_per_request: int = 64
    requests_at_once: int = 8

    def describe(self) -> dict[str, Any]:
        """The model and its width: the same model at another URL makes the same index."""
        return {"kind": "endpoint", "model": self.model, "dimensions": self.dimensions}

    def save(self, folder: Path) -> None:
        """Write the settings needed to embed queries, without the key."""
        (folder / FILE).write_text(json.dumps(asdict(self), indent=1))

    @classmethod
    def load(cls, folder: Path) -> "EndpointEmbedder":
        """Load the embedder that an index was built with. Raises FileNotFoundError."""
        return cls(**json.loads((folder / FILE).read_text()))

    def embed(self, texts: Sequence[str]) -> Vectors:
        """Vectors [len(texts), dimensions] of unit length; blocks. Raises EmbedderFailed."""
        return asyncio.run(self._embed(texts))

    async def _embed(self, texts: Sequence[str]) -> Vectors:
        size = self.texts_per_request
        parts = [list(texts[start : start + size]) for start in range(0, len(texts), size)]
        gate = asyncio.Semaphore(self.requests_at_once)
        timeout = aiohttp.ClientTimeout(total=TIMEOUT_S)
        async with aiohttp.ClientSession(timeout=timeout) as session:
            tasks = [asyncio.create_task(self._ask(session, gate, part)) for part in parts]
            try:
                found = await asyncio.gather(*tasks)
            finally:
                for task in tasks:  # the first failure is raised; no more requests are sent
                    task.cancel()
        return np.concatenate([np.empty((0, self.dimensions), dtype=np.float32), *found])

    async def _ask(
        self, session: aiohttp.ClientSession, gate: asyncio.Semaphore, texts: list[str]
    ) -> Vectors:
        async with gate:
            for nth in range(TRIES):
                try:
                    return self._read(await self._post(session, texts), len(texts))
                except (_EndpointBusy, aiohttp.ClientConnectionError, TimeoutError) as error:
                    reason = f"{type(error).__name__} {error}"
                if nth + 1 < TRIES:
                    await asyncio.sleep(FIRST_WAIT_S * 2**nth * random.uniform(0.5, 1.5))
        raise EmbedderFailed(f"{self.url} did not embed after {TRIES} tries: {reason}")

    async def _post(self, session: aiohttp.ClientSession, texts: list[str]) -> Any:
        key = os.environ.get(self.key_env)
        headers = {"Authorization": f"Bearer {key}"} if key else {}
        body = {"model": self.model, "input": texts, "encoding_format": "float"}
        url = f"{self.url.rstrip('/')}/embeddings"
        async with session.post(url, json=body, headers=headers) as response:
            text = await response.text()
        if response.status in BUSY:
            raise _EndpointBusy(f"HTTP {response.status}")
        if response.status != 200:
            raise EmbedderFailed(f"{url} refused: HTTP {response.status}: {text[:300]}")
        try:
            return json.loads(text)
        except ValueError as error:
            raise EmbedderFailed(f"{url} did not answer with JSON: {text[:300]}") from error

    def _read(self, answer: Any, count: int) -> Vectors:
        try:
            rows = sorted(answer["data"], key=lambda row: row["index"])
            vectors = np.array([row["embedding"] for row in rows], dtype=np.float32)
        except (KeyError, TypeError, ValueError) as error:
            raise EmbedderFailed(f"{self.url} answered without embeddings: {error!r}") from error
        if vectors.shape != (count, self.dimensions) or not np.isfinite(vectors).all():
            wanted = (count, self.dimensions)
            raise EmbedderFailed(f"{self.url} answered shape {vectors.shape}, not {wanted}")
        norms = np.linalg.norm(vectors, axis=1, keepdims=True)
        unit: Vectors = vectors / np.maximum(norms, np.float32(1e-9))
        return unit


RERANK_TIMEOUT_S = 30.0


@dataclass(frozen=True)
class EndpointReranker:
    """A reranking endpoint."""

    url: str
    """The full URL, such as ``http://host:8000/v1/rerank``."""
    model: str
    key_env: str = "RERANK_API_KEY"
    timeout_s: float = RERANK_TIMEOUT_S

    async def score(self, query: str, texts: Sequence[str]) -> list[float]:
        """One score for each text, higher is better. Raises RerankerFailed."""
        key = os.environ.get(self.key_env)
        headers = {"Authorization": f"Bearer {key}"} if key else {}
        body = {"model": self.model, "query": query, "documents": list(texts)}
        timeout = aiohttp.ClientTimeout(total=self.timeout_s)
        try:
            async with aiohttp.ClientSession(timeout=timeout) as session:
                async with session.post(self.url, json=body, headers=headers) as response:
                    text = await response.text()
        except (aiohttp.ClientError, TimeoutError) as error:
            raise RerankerFailed(f"{self.url}: {type(error).__name__}: {error}") from error
        if response.status != 200:
            raise RerankerFailed(f"{self.url}: HTTP {response.status}: {text[:300]}")
        return _read(self.url, text, len(texts))


def _read(url: str, text: str, count: int) -> list[float]:
    try:
        rows: Any = json.loads(text)["results"]
        scores = {int(row["index"]): float(row["relevance_score"]) for row in rows}
        return [scores[nth] for nth in range(count)]
    except (ValueError, KeyError, TypeError) as error:
        raise RerankerFailed(f"{url} did not score every document: {error!r}") from error
