"""The client of the retrieval service: queries in, documents and rows of `retrievals` out."""

import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import aiohttp

from tutti.tasks.agents.tools import ToolUnavailable

SEARCH_TIMEOUT_S = 60.0  # a service that falls back to the web takes longer


@dataclass(frozen=True)
class Hit:
    """A document found by a search."""

    id: str
    text: str
    score: float


@dataclass(frozen=True)
class SearchResult:
    """The documents found for one query."""

    hits: tuple[Hit, ...]
    """Best first."""
    row: Mapping[str, Any]
    """index_id, query, doc_ids, scores, latency_s: what `retrievals` keeps."""


Search = Callable[[Sequence[str], int], Awaitable[Sequence[SearchResult]]]
"""``await search(queries, results)``: one `SearchResult` per query. Raises ToolUnavailable."""


def open_http() -> aiohttp.ClientSession:
    """HTTP connections to tools' services: as many as there are sessions; each use has its own
    timeout."""
    connector, timeout = aiohttp.TCPConnector(limit=0), aiohttp.ClientTimeout(total=None)
    return aiohttp.ClientSession(connector=connector, timeout=timeout)


def service_search(session: aiohttp.ClientSession, url: str) -> Search:
    """Search with the service at `url` (``POST /retrieve``). If it does not answer, or not in its
    format, ToolUnavailable is raised immediately: the attempt is void and not wrong."""

    async def search(queries: Sequence[str], results: int) -> Sequence[SearchResult]:
        body = {"queries": list(queries), "topk": results}
        timeout = aiohttp.ClientTimeout(total=SEARCH_TIMEOUT_S)
        sent = time.monotonic()
        try:
            async with session.post(f"{url}/retrieve", json=body, timeout=timeout) as response:
                answer = await response.json()
        except (aiohttp.ClientError, TimeoutError, ValueError) as error:
            raise ToolUnavailable(f"search: {type(error).__name__}: {error}") from error
        if response.status != 200:
            raise ToolUnavailable(f"search: HTTP {response.status}: {answer}")
        latency_s = time.monotonic() - sent
        try:
            return [
                _retrieved(query, found, answer["index_id"], latency_s)
                for query, found in zip(queries, answer["result"], strict=True)
            ]
        except (LookupError, TypeError, ValueError) as error:
            text = str(answer)[:200]
            raise ToolUnavailable(f"search: an answer in an unknown format: {text}") from error

    return search


def _retrieved(
    query: str, found: Sequence[Mapping[str, Any]], index_id: str, latency_s: float
) -> SearchResult:
    hits = tuple(
        Hit(each["document"]["id"], each["document"]["contents"], each["score"]) for each in found
    )
    row = {
        "index_id": index_id,
        "query": query,
        "doc_ids": [hit.id for hit in hits],
        "scores": [hit.score for hit in hits],
        "latency_s": latency_s,
    }
    return SearchResult(hits, row)
