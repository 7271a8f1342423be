"""Web search for queries with too few hits in the index.

In: a query. Out: passages from the web, cached on disk in the store, so that a query is sent once.
It runs on the event loop beside the index's batches: a slow search delays only its own request, and
no longer than its timeout. Keys are read from the environment when needed.
"""

import asyncio
import hashlib
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

import aiohttp
import orjson

from tutti.storage import replacing
from tutti.tasks.retrieval.errors import WebSearchFailed
from tutti.tasks.retrieval.passage import Passage

TIMEOUT_S = 10.0
AT_ONCE = 8
RESULTS = 5
TAVILY = "https://api.tavily.com/search"
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

    url: str = TAVILY
    key_env: str = "TAVILY_API_KEY"
    name: str = "http"

    async def search(self, query: str) -> list[Passage]:
        """See `WebSearch.search`."""
        key = os.environ.get(self.key_env)
        headers = {"Authorization": f"Bearer {key}"} if key else {}
        body = {"query": query, "max_results": RESULTS}
        answer, _ = await _post(self.url, body, headers)
        return _pages(answer, self.url)


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
        key = os.environ.get(self.key_env)
        headers = {"Accept": "application/json, text/event-stream"}
        headers |= {"Authorization": f"Bearer {key}"} if key else {}
        hello = {
            "protocolVersion": MCP_VERSION,
            "capabilities": {},
            "clientInfo": {"name": "tutti", "version": "1"},
        }
        _, answered = await _post(self.url, _order(1, "initialize", hello), headers)
        if session := answered.get("Mcp-Session-Id"):
            headers["Mcp-Session-Id"] = session
        headers["MCP-Protocol-Version"] = MCP_VERSION
        ready = {"jsonrpc": "2.0", "method": "notifications/initialized"}
        await _post(self.url, ready, headers)
        call = {"name": self.tool, "arguments": {self.argument: query}}
        answer, _ = await _post(self.url, _order(2, "tools/call", call), headers)
        result = answer.get("result") if isinstance(answer, dict) else None
        if not isinstance(result, dict) or result.get("isError"):
            raise WebSearchFailed(f"{self.url} {self.tool}: {str(answer)[:300]}")
        texts = [part["text"] for part in result.get("content", []) if part.get("type") == "text"]
        return [
            Passage(f"{self.tool}#{nth}", text, source=self.url) for nth, text in enumerate(texts)
        ]


def _order(number: int, method: str, parameters: Mapping[str, Any]) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": number, "method": method, "params": parameters}


async def _post(
    url: str, body: Mapping[str, Any], headers: Mapping[str, str]
) -> tuple[Any, Mapping[str, str]]:
    """(decoded answer, its headers); None for an empty answer. Raises WebSearchFailed."""
    try:
        async with aiohttp.ClientSession() as session:
            async with session.post(url, json=body, headers=headers) as response:
                data = await response.read()
    except aiohttp.ClientError as error:
        raise WebSearchFailed(f"{url}: {type(error).__name__}: {error}") from error
    if response.status not in (200, 202):
        raise WebSearchFailed(f"{url}: HTTP {response.status}: {data[:300]!r}")
    if "text/event-stream" in response.headers.get("Content-Type", ""):
        lines = [line[5:] for line in data.splitlines() if line.startswith(b"data:")]
        data = lines[-1] if lines else b""
    try:
        return (orjson.loads(data) if data.strip() else None), response.headers
    except orjson.JSONDecodeError as error:
        raise WebSearchFailed(f"{url} did not answer with JSON: {data[:300]!r}") from error


def _pages(answer: Any, url: str) -> list[Passage]:
    rows = answer.get("results") if isinstance(answer, dict) else None
    if not isinstance(rows, list):
        raise WebSearchFailed(f"{url} answered without `results`: {str(answer)[:300]}")
    found = []
    for row in rows:
        place, text = str(row.get("url") or ""), row.get("content") or row.get("text")
        if isinstance(text, str) and text:
            found.append(Passage(place or url, text, str(row.get("title") or ""), place))
    return found


@dataclass
class CachedWeb:
    """A web search with a cache in `folder`, a timeout and a concurrency limit."""

    search_with: WebSearch
    folder: Path
    timeout_s: float = TIMEOUT_S
    asked: int = 0
    _running: "dict[str, asyncio.Task[list[Passage]]]" = field(default_factory=dict)
    _gate: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(AT_ONCE))

    async def search(self, query: str) -> Sequence[Passage]:
        """Pages for `query`; equal queries share one search at a time. Raises WebSearchFailed."""
        key = hashlib.sha256(f"{self.search_with!r}\n{query}".encode()).hexdigest()[:32]
        path = self.folder / f"{key}.json"
        if path.is_file():
            return _read(await asyncio.to_thread(path.read_bytes))
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
                self.asked += 1
                found = await self.search_with.search(query)
        except TimeoutError as error:
            waited = f"no answer in {self.timeout_s} s"
            raise WebSearchFailed(f"{self.search_with.name}: {waited}") from error
        await asyncio.to_thread(_keep, path, found)
        return found


def _read(data: bytes) -> list[Passage]:
    return [Passage(**row) for row in orjson.loads(data)]


def _keep(path: Path, found: Sequence[Passage]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with replacing(path) as staging:
        staging.write_bytes(orjson.dumps([passage.as_row() for passage in found]))
