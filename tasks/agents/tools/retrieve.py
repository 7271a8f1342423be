"""The client of a retrieval service: queries in, documents and rows of `retrievals` out.

It reads tutti's answers, ``{"result": [hits], "index_id": …}``, and those of ToolOrchestra's
services, a bare ``[hits]``, in which a web page has no id.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import aiohttp

from tutti.storage import artifact_id
from tutti.tasks.agents.tools.tool import ToolUnavailable

MAX_QUERY_CHARS = 16_384
"""Of a query. tutti's service refuses a longer one, and `Toolbox` answers it with an error."""
SEARCH_TIMEOUT_S = 60.0  # a service that falls back to the web takes longer
TOOLORCHESTRA = "toolorchestra"
"""`index_id` of what ToolOrchestra's own services found: they name no index."""
INDEX_HEADER = "X-Index-Id"  # tutti's service names its index here where it answers in their format


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
    """Return HTTP connections to tools' services, without a limit on their number; each use has its
    own timeout."""
    connector, timeout = aiohttp.TCPConnector(limit=0), aiohttp.ClientTimeout(total=None)
    return aiohttp.ClientSession(connector=connector, timeout=timeout)


def service_search(session: aiohttp.ClientSession, url: str, eid: str | None = None) -> Search:
    """Search with the service at `url` (``POST /retrieve``), one request per query. `eid` is the
    question's id in its benchmark: a service with documents of each question searches among them.
    If a service does not answer, or in another format, ToolUnavailable is raised immediately,
    because the attempt is void and not wrong."""
    timeout = aiohttp.ClientTimeout(total=SEARCH_TIMEOUT_S)
    question = {} if eid is None else {"eid": eid}

    async def search_one(query: str, results: int) -> SearchResult:
        body = {"queries": [query], "topk": results, "return_scores": True} | question
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
            if isinstance(answer, list):
                (found,), index_id = answer, response.headers.get(INDEX_HEADER, TOOLORCHESTRA)
            else:
                (found,), index_id = answer["result"], answer["index_id"]
            hits = tuple(map(_hit, found))
        except (LookupError, TypeError, ValueError) as error:
            text = str(answer)[:200]
            raise ToolUnavailable(f"search: an answer in an unknown format: {text}") from error
        row = {
            "index_id": index_id,
            "query": query,
            "doc_ids": [hit.id for hit in hits],
            "scores": [hit.score for hit in hits],
            "latency_s": latency_s,
        }
        return SearchResult(hits, row)

    async def search(queries: Sequence[str], results: int) -> Sequence[SearchResult]:
        return await asyncio.gather(*(search_one(query, results) for query in queries))

    return search


def _hit(found: Mapping[str, Any]) -> Hit:
    document = found["document"]
    text = document["content" if "content" in document else "contents"]
    if not isinstance(text, str):
        raise TypeError(f"the text of a document is {text!r}")
    name = document["id"] if "id" in document else artifact_id("page", text)
    return Hit(str(name), text, float(found["score"]))
