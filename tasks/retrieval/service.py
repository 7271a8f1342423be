"""The retrieval service: ``POST /retrieve`` over one index.

Run: ``python -m tutti.tasks.retrieval.service --index FOLDER --port PORT``. Request
``{"queries": [...], "topk": k}``, answer ``{"result": [[{"document": {...}, "score": s}, ...]]}``;
`tasks.retrieval.request` has every field. Requests that come together are searched together, in a
thread; reranking and web search run beside, each for its own request.
"""

import argparse
import asyncio
import contextlib
import sys
import time
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import orjson
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from tutti.storage import current_home
from tutti.tasks.retrieval.batcher import WAIT_S, Batcher
from tutti.tasks.retrieval.embedder import Embedder
from tutti.tasks.retrieval.errors import (
    EmbedderFailed,
    FilterUnknown,
    RerankerFailed,
    RetrievalError,
    WebSearchFailed,
)
from tutti.tasks.retrieval.index import Hit, Index
from tutti.tasks.retrieval.pools import RowFilters, read_pools
from tutti.tasks.retrieval.request import SearchRequest, read_ask, result_rows
from tutti.tasks.retrieval.search.ann import gpu_count, limit_threads
from tutti.tasks.retrieval.search.rerank import EndpointReranker, Reranker
from tutti.tasks.retrieval.web import CachedWeb, HttpSearch, McpSearch, WebSearch

WEB_BELOW = 3  # the web is searched if there are fewer local hits than this, as in the reference
RERANKED_PER_HIT = 4
# The event loop and the searching thread share one interpreter. With Python's switch interval of 5
# ms, either may wait that long for the other, ten times the duration of a search.
SWITCH_S = 0.0005


@dataclass(frozen=True)
class Options:
    """Options of the service besides its index."""

    threads: int = 1
    """Threads of one search. One, because the service shares the cores with an engine."""
    wait_s: float = WAIT_S
    """How long a request may wait to be batched with others."""
    pools: Path | None = None
    """JSON file that maps names to document ids, selected by ``eid``."""
    web: WebSearch | None = None
    web_below: int = WEB_BELOW
    """A query with fewer local hits than this (or than requested) is also sent to the web."""
    cache: Path | None = None
    """Folder of cached web answers; None: under TUTTI_HOME."""
    reranker: Reranker | None = None


class SearchService:
    """Searches one index: validates, batches, reranks, and adds web search."""

    def __init__(self, index: Index, options: Options) -> None:
        self.index, self.options = index, options
        pools = None if options.pools is None else read_pools(options.pools)
        self.filters = RowFilters(index.documents, pools)
        self.batcher: Batcher[SearchRequest, list[list[Hit]] | FilterUnknown] = Batcher(
            self._search, options.wait_s, begin=lambda: limit_threads(options.threads)
        )
        cache = options.cache or current_home().root / "cache" / "web"
        self.web = None if options.web is None else CachedWeb(options.web, cache)

    def check(self, body: object) -> SearchRequest:
        """Validate a request. Raises ValueError."""
        ask = read_ask(body, self.filters.has_pools)
        if ask.mode is not None and ask.mode not in self.index.modes:
            raise ValueError(f"this index has no {ask.mode!r} ranking, only {self.index.modes}")
        if ask.rerank and self.options.reranker is None:
            raise ValueError("`rerank` was asked for, and the service has no reranker")
        return ask

    async def answer(self, ask: SearchRequest) -> tuple[list[list[Hit]], list[str]]:
        """Hits of each query, and errors of the optional steps.

        Raises FilterUnknown, EmbedderFailed, RerankerFailed.
        """
        wide = replace(ask, k=ask.k * RERANKED_PER_HIT) if ask.rerank else ask
        found = await self.batcher.submit(wide)
        if isinstance(found, FilterUnknown):
            raise found
        if ask.min_score is not None:
            found = [[hit for hit in hits if hit.score >= ask.min_score] for hits in found]
        pairs = list(zip(ask.queries, found, strict=True))
        if ask.rerank:
            found = await asyncio.gather(*(self._rerank(*pair, ask.k) for pair in pairs))
        if self.web is None or not ask.web:
            return found, []
        pairs = list(zip(ask.queries, found, strict=True))
        answers = await asyncio.gather(*(self._from_web(*pair, ask.k) for pair in pairs))
        return [hits for hits, _ in answers], [fault for _, fault in answers if fault]

    def _search(self, asks: Sequence[SearchRequest]) -> list[list[list[Hit]] | FilterUnknown]:
        """Search a batch in the batcher's thread, combining compatible requests."""
        results: list[list[list[Hit]] | FilterUnknown] = [[] for _ in asks]
        groups: dict[tuple[Any, ...], list[int]] = {}
        for nth, ask in enumerate(asks):
            groups.setdefault((ask.mode, ask.only, ask.approximate, ask.k), []).append(nth)
        for (mode, only, approximate, k), members in groups.items():
            try:
                rows = None if only is None else self.filters.rows(only)
            except FilterUnknown as error:
                for nth in members:
                    results[nth] = error
                continue
            queries = [query for nth in members for query in asks[nth].queries]
            hits = iter(self.index.search(queries, k, mode, rows, approximate))
            for nth in members:
                results[nth] = [next(hits) for _ in asks[nth].queries]
        return results

    async def _rerank(self, query: str, hits: list[Hit], k: int) -> list[Hit]:
        assert self.options.reranker is not None, "check refuses `rerank` without a reranker"
        if not hits:
            return hits
        scores = await self.options.reranker.score(query, [hit.document.text for hit in hits])
        scored = [replace(hit, score=score) for hit, score in zip(hits, scores, strict=True)]
        return sorted(scored, key=lambda hit: (-hit.score, hit.row))[:k]

    async def _from_web(self, query: str, hits: list[Hit], k: int) -> tuple[list[Hit], str | None]:
        """Local hits, followed by the web's with scores -1, -2, … if there are too few."""
        if self.web is None or len(hits) >= min(self.options.web_below, k):
            return hits, None
        try:
            pages = await self.web.search(query)
        except WebSearchFailed as error:
            return hits, str(error)
        room = k - len(hits)
        return [*hits, *(Hit(page, -1.0 - n) for n, page in enumerate(pages[:room]))], None


def make_app(
    folder: Path, options: Options | None = None, embedder: Embedder | None = None
) -> Starlette:
    """The application; the index is loaded when the server starts."""
    state: dict[str, SearchService] = {}

    @contextlib.asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncIterator[None]:
        state["searching"] = SearchService(
            Index(folder, embedder, gpu_count()), options or Options()
        )
        async with state["searching"].batcher:
            yield

    async def retrieve(request: Request) -> Response:
        return await _retrieve(state["searching"], await request.body())

    async def health(_: Request) -> Response:
        return _json(_health(state["searching"]))

    routes = [Route("/retrieve", retrieve, methods=["POST"]), Route("/health", health)]
    return Starlette(routes=routes, lifespan=lifespan)


async def _retrieve(searching: SearchService, body: bytes) -> Response:
    started = time.monotonic()
    try:
        ask = searching.check(orjson.loads(body))
        found, faults = await searching.answer(ask)
    except (ValueError, FilterUnknown) as error:
        return _json({"error": str(error)}, 400)
    except (EmbedderFailed, RerankerFailed) as error:
        return _json({"error": str(error)}, 502)
    index = searching.index
    result = [result_rows(hits, ask, index.documents) for hits in found]
    if ask.as_list:
        return _json(result, index_id=index.index_id)
    answer = {
        "result": result,
        "index_id": index.index_id,
        "corpus_id": index.manifest["corpus_id"],
        "latency_s": time.monotonic() - started,
    }
    if faults:
        answer["web_errors"] = faults
    return _json(answer, index_id=index.index_id)


def _health(searching: SearchService) -> dict[str, Any]:
    index, batcher = searching.index, searching.batcher
    return {
        "index_id": index.index_id,
        "documents": len(index.documents),
        "kind": index.spec.kind,
        "modes": index.modes,
        "requests": batcher.items,
        "batches": batcher.batches,
    }


def _json(content: object, status: int = 200, index_id: str | None = None) -> Response:
    headers = None if index_id is None else {"X-Index-Id": index_id}
    data = orjson.dumps(content)
    return Response(data, status, headers, media_type="application/json")


def main() -> None:
    """Serve on loopback until SIGTERM."""
    parser = argparse.ArgumentParser(description="Serve one index over HTTP.")
    parser.add_argument("--index", type=Path, required=True, help="the index's folder")
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--threads", type=int, default=1, help="threads of one search")
    parser.add_argument("--wait-ms", type=float, default=WAIT_S * 1000, help="for a batch")
    parser.add_argument("--pools", type=Path, help="JSON of names to document ids, for `eid`")
    parser.add_argument("--web", help="tavily, a search's URL, or mcp:TOOL@URL")
    parser.add_argument("--web-below", type=int, default=WEB_BELOW, help="local hits")
    parser.add_argument("--rerank-url", help="a reranking endpoint")
    parser.add_argument("--rerank-model", default="", help="its model")
    given = parser.parse_args()
    reranker = EndpointReranker(given.rerank_url, given.rerank_model) if given.rerank_url else None
    options = Options(
        threads=given.threads,
        wait_s=given.wait_ms / 1000,
        pools=given.pools,
        web=None if given.web is None else web_of(given.web),
        web_below=given.web_below,
        reranker=reranker,
    )
    try:
        gpu_count()  # said before the server starts, whose traceback would hide it
    except RetrievalError as error:
        sys.exit(f"error: {error}")
    serve(make_app(given.index, options), given.port)


def serve(app: Starlette, port: int) -> None:
    """Serve on loopback until SIGTERM, in a separate process, because it sets the thread switch
    interval."""
    import uvicorn

    sys.setswitchinterval(SWITCH_S)
    uvicorn.run(app, host="127.0.0.1", port=port, log_level="warning", access_log=False)


def web_of(given: str) -> WebSearch:
    """The web search that a flag names. Raises ValueError."""
    if given == "tavily":
        return HttpSearch(name="tavily")
    if given.startswith("mcp:"):
        tool, at, url = given.removeprefix("mcp:").partition("@")
        if not at:
            raise ValueError(f"an MCP search is mcp:TOOL@URL, not {given!r}")
        return McpSearch(url, tool)
    # A custom search has its own key: Tavily's is not sent to it.
    return HttpSearch(given, "WEB_SEARCH_API_KEY")


if __name__ == "__main__":
    main()
