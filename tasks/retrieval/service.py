"""The retrieval service: ``POST /retrieve`` over one index.

Run: ``python -m tutti.tasks.retrieval.service --index FOLDER --port PORT``. Concurrent queries are
searched together, in a thread, and those of a large request alternate with others'; reranking and
web search run concurrently, each for its own request. The gateway's server and rules check each
request.
"""

import argparse
import asyncio
import contextlib
import gc
import sys
import time
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import orjson
import uvloop

from tutti.storage import current_home
from tutti.tasks.retrieval.ann import gpu_count, limit_threads
from tutti.tasks.retrieval.batcher import WAIT_S, Batcher
from tutti.tasks.retrieval.embedder import Embedder
from tutti.tasks.retrieval.endpoint import EndpointReranker
from tutti.tasks.retrieval.errors import (
    EmbedderFailed,
    FilterUnknown,
    RerankerFailed,
    RetrievalError,
    WebSearchFailed,
)
from tutti.tasks.retrieval.index import Hit, Index
from tutti.tasks.retrieval.request import (
    BODY_BYTES,
    MAX_TOPK,
    RowFilters,
    SearchRequest,
    read_pools,
    read_request,
    result_rows,
)
from tutti.tasks.retrieval.web import CachedWeb, HttpSearch, McpSearch, WebSearch
from tutti.tasks.serving.wire import (
    Exchange,
    Headers,
    RouteScreen,
    Server,
    ServerLimits,
    SiteGuard,
    call_permission,
    serve,
)

WEB_BELOW = 3  # the web is searched if there are fewer local hits than this, as in the reference
RERANKED_PER_HIT = 4
BATCH_WEIGHT = 32_768  # `SearchRequest.weight` of a batch: about 30 ms beside the search itself
LIMITS = ServerLimits(body_bytes=BODY_BYTES, buffered_bytes=128 * 2**20)
FEW_PASSAGES = 256  # answers of more passages are written in a thread
# The event loop and the searching thread share one interpreter. With Python's switch interval of 5
# ms, either may wait that long for the other, ten times the duration of a search.
SWITCH_S = 0.0005


@dataclass(frozen=True)
class Options:
    """Options of the service besides its index."""

    threads: int = 1  # of one search: the service shares the cores with an engine
    wait_s: float = WAIT_S  # how long a request may wait to be batched with others
    pools: Path | None = None  # JSON file that maps names to document ids, selected by ``eid``
    web: WebSearch | None = None
    web_below: int = WEB_BELOW  # with fewer local hits (or than requested) the web is searched
    cache: Path | None = None  # folder of cached web answers; None: under TUTTI_HOME
    reranker: EndpointReranker | None = None


class SearchService:
    """Searches one index: validates, batches, reranks, and adds web search."""

    def __init__(self, index: Index, options: Options) -> None:
        self.index, self.options = index, options
        pools = None if options.pools is None else read_pools(options.pools)
        self.filters = RowFilters(index.documents, pools)
        self.batcher: Batcher[SearchRequest, list[Hit] | FilterUnknown] = Batcher(
            self._search,
            options.wait_s,
            weigh=lambda ask: ask.weight,
            most_weight=BATCH_WEIGHT,
            begin=lambda: limit_threads(options.threads),
        )
        cache = options.cache or current_home().root / "cache" / "web"
        self.web = None if options.web is None else CachedWeb(options.web, cache)

    def check(self, body: bytes) -> SearchRequest:
        """Validate a request. Raises ValueError."""
        ask = read_request(body)
        if ask.mode is not None and ask.mode not in self.index.modes:
            raise ValueError(f"this index has no {ask.mode!r} ranking, only {self.index.modes}")
        if ask.rerank and self.options.reranker is None:
            raise ValueError("`rerank` was asked for, and the service has no reranker")
        return ask

    async def answer(self, ask: SearchRequest) -> tuple[list[list[Hit]], list[str]]:
        """Return hits of each query, and errors of the optional steps. Raises RetrievalError."""
        k = min(ask.topk * RERANKED_PER_HIT, MAX_TOPK) if ask.rerank else ask.topk
        asks = [ask.model_copy(update={"queries": (q,), "topk": k}) for q in ask.queries]
        found = list[list[Hit]]()
        for each in await self.batcher.submit(asks):
            if isinstance(each, FilterUnknown):
                raise each
            found.append(each)
        if ask.min_score is not None:
            found = [[hit for hit in hits if hit.score >= ask.min_score] for hits in found]
        pairs = list(zip(ask.queries, found, strict=True))
        if ask.rerank:
            found = await asyncio.gather(*(self._rerank(*pair, ask.topk) for pair in pairs))
        if self.web is None or not ask.web:
            return found, []
        pairs = list(zip(ask.queries, found, strict=True))
        answers = await asyncio.gather(*(self._from_web(*pair, ask.topk) for pair in pairs))
        return [hits for hits, _ in answers], [fault for _, fault in answers if fault]

    def _search(self, asks: Sequence[SearchRequest]) -> list[list[Hit] | FilterUnknown]:
        """Search a batch of single queries in the batcher's thread, combining compatible ones."""
        results: list[list[Hit] | FilterUnknown] = [[] for _ in asks]
        groups: dict[tuple[Any, ...], list[int]] = {}
        for nth, ask in enumerate(asks):
            key = ask.mode, ask.ids, str(ask.eid), ask.approximate, ask.topk
            groups.setdefault(key, []).append(nth)
        for (mode, _, _, approximate, k), members in groups.items():
            try:
                rows = self.filters.rows(asks[members[0]])
            except FilterUnknown as error:
                for nth in members:
                    results[nth] = error
                continue
            queries = [query for nth in members for query in asks[nth].queries]
            hits = self.index.search(queries, k, mode, rows, approximate)
            for nth, each in zip(members, hits, strict=True):
                results[nth] = each
        return results

    async def _rerank(self, query: str, hits: list[Hit], k: int) -> list[Hit]:
        assert self.options.reranker is not None, "check refuses `rerank` without a reranker"
        if not hits:
            return hits
        scores = await self.options.reranker.score(query, [hit.document.text for hit in hits])
        scored = [replace(hit, score=score) for hit, score in zip(hits, scores, strict=True)]
        return sorted(scored, key=lambda hit: (-hit.score, hit.row))[:k]

    async def _from_web(self, query: str, hits: list[Hit], k: int) -> tuple[list[Hit], str | None]:
        """Return local hits, followed by the web's with scores -1, -2, … if there are too few."""
        if self.web is None or len(hits) >= min(self.options.web_below, k):
            return hits, None
        try:
            pages = await self.web.search(query)
        except WebSearchFailed as error:
            return hits, str(error)
        room = k - len(hits)
        return [*hits, *(Hit(page, -1.0 - n) for n, page in enumerate(pages[:room]))], None


@contextlib.asynccontextmanager
async def open_service(
    folder: Path, options: Options | None = None, embedder: Embedder | None = None
) -> AsyncIterator[Server]:
    """Load the index; yield its server, which does not listen yet."""
    searching = SearchService(Index(folder, embedder, gpu_count()), options or Options())
    tasks: set[asyncio.Task[None]] = set()

    def retrieve(exchange: Exchange) -> None:
        task = asyncio.get_running_loop().create_task(_retrieve(searching, exchange))
        tasks.add(task)
        task.add_done_callback(tasks.discard)
        exchange.on_gone = partial(_cancel, task)

    def health(exchange: Exchange) -> None:
        index, batcher = searching.index, searching.batcher
        content = {
            "index_id": index.index_id,
            "documents": len(index.documents),
            "kind": index.spec.kind,
            "modes": index.modes,
            "queries": batcher.items,
            "batches": batcher.batches,
        }
        _answer(exchange, 200, orjson.dumps(content))

    routes = {("POST", "/retrieve"): retrieve, ("GET", "/health"): health}
    async with searching.batcher:
        yield Server(call_permission, LIMITS, RouteScreen(SiteGuard(), routes))
        for task in tasks:
            task.cancel()


def _cancel(task: asyncio.Task[None]) -> None:
    task.cancel()


async def _retrieve(searching: SearchService, exchange: Exchange) -> None:
    started = time.monotonic()
    try:
        ask = searching.check(exchange.body)
        found, faults = await searching.answer(ask)
        write = partial(_body, searching.index, ask, found, faults, started)
        body = write() if ask.passages <= FEW_PASSAGES else await asyncio.to_thread(write)
    except (ValueError, FilterUnknown) as error:
        _refuse(exchange, 400, str(error))
        return
    except (EmbedderFailed, RerankerFailed) as error:
        _refuse(exchange, 502, str(error))
        return
    except Exception:
        _refuse(exchange, 500, "the service failed; see its log")
        raise
    _answer(exchange, 200, body, [(b"X-Index-Id", searching.index.index_id.encode())])


def _body(
    index: Index, ask: SearchRequest, found: list[list[Hit]], faults: list[str], started: float
) -> bytes:
    # A query at a time: the encoder does not let the event loop run until it is done.
    rows = (result_rows(hits, ask, index.documents) for hits in found)
    result = [orjson.Fragment(orjson.dumps(each)) for each in rows]
    if ask.as_list:
        return orjson.dumps(result)
    content = {
        "result": result,
        "index_id": index.index_id,
        "corpus_id": index.manifest["corpus_id"],
        "latency_s": time.monotonic() - started,
    }
    if faults:
        content["web_errors"] = faults
    return orjson.dumps(content)


def _refuse(exchange: Exchange, status: int, reason: str) -> None:
    _answer(exchange, status, orjson.dumps({"error": reason}))


def _answer(exchange: Exchange, status: int, body: bytes, headers: Headers | None = None) -> None:
    kind = (b"Content-Type", b"application/json")
    exchange.respond(status, [kind, *(headers or [])], body)


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
        gpu_count()  # before the server starts, whose traceback would hide the message
    except RetrievalError as error:
        sys.exit(f"error: {error}")
    run(given.index, given.port, options)


def run(
    folder: Path, port: int, options: Options | None = None, embedder: Embedder | None = None
) -> None:
    """Serve on loopback until SIGTERM, in a process of its own: it sets the switch interval."""

    async def work() -> None:
        async with open_service(folder, options, embedder) as server:
            gc.freeze()  # else each full collection holds the loop for all that was loaded
            await serve(server, port)

    sys.setswitchinterval(SWITCH_S)
    uvloop.run(work())


def web_of(given: str) -> WebSearch:
    """Return the web search that a flag names. Raises ValueError."""
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
