"""Web search for queries with too few hits in the index.

Pages are cached on disk in the store, so that a query is sent once. A slow search delays only its
own request, and no longer than its timeout. Keys are read from the environment when needed.
"""

import asyncio
import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

import orjson

from tutti.storage import replacing
from tutti.tasks.retrieval.endpoint import JsonPost
from tutti.tasks.retrieval.errors import WebSearchFailed
from tutti.tasks.retrieval.passage import Passage

TIMEOUT_S = 10.0
AT_ONCE = 8
RESULTS = 5
MCP_VERSION = "2025-06-18"


class WebSearch(Protocol):
    """The interface of a web search."""

    @property
    def name(self) -> str:
        """The name of the search in error messages."""
        ...

    async def search(self, query: str) -> list[Passage]:
        """Search for pages, best first. Raises WebSearchFailed."""
        ...


@dataclass(frozen=True)
class HttpSearch:
    """An HTTP search: POST ``{"query", "max_results"}``, answer ``{"results": [{"url", …}]}``. This
    is Tavily's format; with its URL it searches with Tavily."""

    url: str = "https://api.tavily.com/search"
    key_env: str = "TAVILY_API_KEY"
    name: str = "http"

    async def search(self, query: str) -> list[Passage]:
        post = JsonPost(self.url, self.key_env, WebSearchFailed)
        answer, _ = await post.send({"query": query, "max_results": RESULTS})
        rows = answer.get("results") if isinstance(answer, dict) else None
        if not isinstance(rows, list):
            raise WebSearchFailed(f"{self.url} answered without `results`: {str(answer)[:300]}")
        pages = []
        for row in rows:
            place, text = str(row.get("url") or ""), row.get("content") or row.get("text")
            if isinstance(text, str) and text:
                pages.append(Passage(place or self.url, text, str(row.get("title") or ""), place))
        return pages


@dataclass(frozen=True)
class McpSearch:
    """A search tool of an MCP server (streamable HTTP)."""

    url: str
    tool: str
    argument: str = "query"
    key_env: str = "MCP_API_KEY"
    name: str = "mcp"

    async def search(self, query: str) -> list[Passage]:
        """One session per search: initialize, then tools/call. See `WebSearch.search`."""
        post = JsonPost(self.url, self.key_env, WebSearchFailed)
        headers = {"Accept": "application/json, text/event-stream"}
        hello = {"protocolVersion": MCP_VERSION, "capabilities": {}}
        hello |= {"clientInfo": {"name": "tutti", "version": "1"}}
        order = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": hello}
        _, answered = await post.send(order, headers)
        if session := answered.get("Mcp-Session-Id"):
            headers["Mcp-Session-Id"] = session
        headers["MCP-Protocol-Version"] = MCP_VERSION
        await post.send({"jsonrpc": "2.0", "method": "notifications/initialized"}, headers)
        call = {"name": self.tool, "arguments": {self.argument: query}}
        order = {"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": call}
        answer, _ = await post.send(order, headers)
        result = answer.get("result") if isinstance(answer, dict) else None
        if not isinstance(result, dict) or result.get("isError"):
            raise WebSearchFailed(f"{self.url} {self.tool}: {str(answer)[:300]}")
        texts = [part["text"] for part in result.get("content", []) if part.get("type") == "text"]
        return [Passage(f"{self.tool}#{n}", text, source=self.url) for n, text in enumerate(texts)]


@dataclass
class CachedWeb:
    """A web search with a cache in `folder`, a timeout and a concurrency limit."""

    search_with: WebSearch
    folder: Path
    timeout_s: float = TIMEOUT_S
    _running: "dict[str, asyncio.Task[list[Passage]]]" = field(default_factory=dict)
    _gate: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(AT_ONCE))

    async def search(self, query: str) -> Sequence[Passage]:
        """Pages for `query`; equal queries share one search at a time. Raises WebSearchFailed."""
        key = hashlib.sha256(f"{self.search_with!r}\n{query}".encode()).hexdigest()[:32]
        path = self.folder / f"{key}.json"
        if path.is_file():
            data = await asyncio.to_thread(path.read_bytes)
            return [Passage(**row) for row in orjson.loads(data)]
        if key not in self._running:
            task = asyncio.create_task(self._ask(query, path))
            self._running[key] = task
            task.add_done_callback(lambda done: self._end(key, done))
        # Shielded: cancelling one caller does not cancel the search for the others.
        return await asyncio.shield(self._running[key])

    def _end(self, key: str, done: "asyncio.Task[list[Passage]]") -> None:
        self._running.pop(key, None)
        if not done.cancelled():
            done.exception()  # retrieve the exception: all callers may have been cancelled

    async def _ask(self, query: str, path: Path) -> list[Passage]:
        try:
            async with asyncio.timeout(self.timeout_s), self._gate:
                pages = await self.search_with.search(query)
        except TimeoutError as error:
            waited = f"no answer in {self.timeout_s} s"
            raise WebSearchFailed(f"{self.search_with.name}: {waited}") from error

        def store() -> None:
            path.parent.mkdir(parents=True, exist_ok=True)
            with replacing(path) as staging:
                staging.write_bytes(orjson.dumps([page.as_row() for page in pages]))

        await asyncio.to_thread(store)
        return pages
