"""Endpoints: an embedder that calls ``/v1/embeddings``, and a reranker that calls ``/v1/rerank``.

In: texts. Out: unit vectors, or one score for each text. A reranker (vLLM, Jina, Cohere) reads the
query with each document. Keys are read from the environment when needed and never written.
"""

import asyncio
import json
import os
import random
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import aiohttp
import numpy as np
import orjson

from tutti.tasks.retrieval.embedder import Vectors
from tutti.tasks.retrieval.errors import EmbedderFailed, RerankerFailed, RetrievalError

FILE = "embedder.json"
TRIES = 5
FIRST_WAIT_S = 0.5  # doubled at each try, with jitter
TIMEOUT_S = 120.0
BUSY = frozenset({408, 409, 429, 500, 502, 503, 504})
RERANK_TIMEOUT_S = 30.0


@dataclass(frozen=True)
class JsonPost:
    """Requests to one address, with a key from the environment; each failure is a `refusal`."""

    url: str
    key_env: str  # the environment variable of the key; if it is unset or empty, no key is sent
    refusal: type[RetrievalError]
    timeout_s: float = TIMEOUT_S

    async def send(
        self, body: Mapping[str, Any], headers: Mapping[str, str] | None = None, tries: int = 1
    ) -> tuple[Any, Mapping[str, str]]:
        """The decoded answer, None if empty, and its headers. Raises `refusal`."""
        for nth in range(tries):
            if nth:
                await asyncio.sleep(FIRST_WAIT_S * 2 ** (nth - 1) * random.uniform(0.5, 1.5))
            try:
                status, data, answered = await self._exchange(body, headers or {})
            except (aiohttp.ClientError, TimeoutError) as error:
                reason = f"{type(error).__name__}: {error}"
                continue
            if status in (200, 202):
                try:
                    return (orjson.loads(data) if data.strip() else None), answered
                except orjson.JSONDecodeError as error:
                    why = f"{self.url} did not answer with JSON: {data[:300]!r}"
                    raise self.refusal(why) from error
            reason = f"HTTP {status}: {data[:300]!r}"
            if status not in BUSY:
                raise self.refusal(f"{self.url} refused: {reason}")
        raise self.refusal(f"{self.url} did not answer after {tries} tries: {reason}")

    async def _exchange(
        self, body: Mapping[str, Any], headers: Mapping[str, str]
    ) -> tuple[int, bytes, Mapping[str, str]]:
        key = os.environ.get(self.key_env)
        headers = {**headers, **({"Authorization": f"Bearer {key}"} if key else {})}
        timeout = aiohttp.ClientTimeout(total=self.timeout_s)
        async with aiohttp.ClientSession(timeout=timeout) as session:
            async with session.post(self.url, json=body, headers=headers) as response:
                data = await response.read()
        if "text/event-stream" in response.headers.get("Content-Type", ""):
            events = [line[5:] for line in data.splitlines() if line.startswith(b"data:")]
            data = events[-1] if events else b""
        return response.status, data, response.headers


@dataclass(frozen=True)
class EndpointEmbedder:
    """An endpoint and its embedding model."""

    url: str  # its base, ending in ``/v1``
    model: str
    dimensions: int
    key_env: str = "OPENAI_API_KEY"
    texts_per_request: int = 64
    requests_at_once: int = 8

    def describe(self) -> dict[str, Any]:
        """Return the model and its width: the same model at another URL makes the same index."""
        return {"kind": "endpoint", "model": self.model, "dimensions": self.dimensions}

    def save(self, folder: Path) -> None:
        (folder / FILE).write_text(json.dumps(asdict(self), indent=1))

    @classmethod
    def load(cls, folder: Path) -> "EndpointEmbedder":
        """Load the embedder with which an index was built. Raises FileNotFoundError."""
        return cls(**json.loads((folder / FILE).read_text()))

    def embed(self, texts: Sequence[str]) -> Vectors:
        """Vectors [len(texts), dimensions] of unit length; blocks. Raises EmbedderFailed."""
        return asyncio.run(self._embed(texts))

    async def _embed(self, texts: Sequence[str]) -> Vectors:
        size = self.texts_per_request
        parts = [list(texts[start : start + size]) for start in range(0, len(texts), size)]
        gate = asyncio.Semaphore(self.requests_at_once)
        tasks = [asyncio.create_task(self._ask(gate, part)) for part in parts]
        try:
            vectors = await asyncio.gather(*tasks)
        finally:
            for task in tasks:  # the first failure is raised; no more requests are sent
                task.cancel()
        return np.concatenate([np.empty((0, self.dimensions), dtype=np.float32), *vectors])

    async def _ask(self, gate: asyncio.Semaphore, texts: list[str]) -> Vectors:
        post = JsonPost(f"{self.url.rstrip('/')}/embeddings", self.key_env, EmbedderFailed)
        body = {"model": self.model, "input": texts, "encoding_format": "float"}
        async with gate:
            answer, _ = await post.send(body, tries=TRIES)
        try:
            rows = sorted(answer["data"], key=lambda row: row["index"])
            vectors = np.array([row["embedding"] for row in rows], dtype=np.float32)
        except (KeyError, TypeError, ValueError) as error:
            raise EmbedderFailed(f"{self.url} answered without embeddings: {error!r}") from error
        wanted = (len(texts), self.dimensions)
        if vectors.shape != wanted or not np.isfinite(vectors).all():
            raise EmbedderFailed(f"{self.url} answered shape {vectors.shape}, not {wanted}")
        norms = np.linalg.norm(vectors, axis=1, keepdims=True)
        unit: Vectors = vectors / np.maximum(norms, np.float32(1e-9))
        return unit


@dataclass(frozen=True)
class EndpointReranker:
    """A reranking endpoint."""

    url: str  # the full URL, such as ``http://host:8000/v1/rerank``
    model: str
    key_env: str = "RERANK_API_KEY"

    async def score(self, query: str, texts: Sequence[str]) -> list[float]:
        """One score for each text, higher is better. Raises RerankerFailed."""
        body = {"model": self.model, "query": query, "documents": list(texts)}
        post = JsonPost(self.url, self.key_env, RerankerFailed, RERANK_TIMEOUT_S)
        answer, _ = await post.send(body)
        try:
            scores = {int(r["index"]): float(r["relevance_score"]) for r in answer["results"]}
            return [scores[nth] for nth in range(len(texts))]
        except (ValueError, KeyError, TypeError) as error:
            raise RerankerFailed(f"{self.url} did not score all documents: {error!r}") from error
