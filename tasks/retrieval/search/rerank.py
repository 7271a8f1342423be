"""Reranking: a slower model reads the query with each document and reorders the hits.

In: a query and the texts of its hits. Out: one score per hit. Any object with `score` works;
`EndpointReranker` calls a ``/v1/rerank`` (vLLM, Jina, Cohere). It runs concurrently with the index,
for the request that asked for it, and delays no other.
"""

import json
import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import aiohttp

from tutti.tasks.retrieval.errors import RerankerFailed

TIMEOUT_S = 30.0


class Reranker(Protocol):
    """Scores texts for a query; higher is better."""

    async def score(self, query: str, texts: Sequence[str]) -> list[float]:
        """One score for each text. Raises RerankerFailed."""
        ...


@dataclass(frozen=True)
class EndpointReranker:
    """A reranking endpoint."""

    url: str
    """The full URL, such as ``http://host:8000/v1/rerank``."""
    model: str
    key_env: str = "RERANK_API_KEY"
    timeout_s: float = TIMEOUT_S

    async def score(self, query: str, texts: Sequence[str]) -> list[float]:
        """See `Reranker.score`."""
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
