"""Tests of web search: keys, responses, faults, timeouts, and pages stored on disk."""

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer

from tutti.tasks.retrieval.endpoint import EndpointReranker
from tutti.tasks.retrieval.errors import RerankerFailed, WebSearchFailed
from tutti.tasks.retrieval.passage import Passage
from tutti.tasks.retrieval.web import CachedWeb, HttpSearch, McpSearch

Handler = Callable[[web.Request], Awaitable[web.Response]]


@asynccontextmanager
async def served(handle: Handler) -> AsyncIterator[str]:
    """Run a server that answers every POST with `handle` and yield its URL."""
    app = web.Application()
    app.router.add_post("/", handle)
    async with TestServer(app) as server:
        yield f"http://127.0.0.1:{server.port}/"


async def test_pages_of_a_search_by_http(monkeypatch: pytest.MonkeyPatch) -> None:
    """The key is the current one of the environment; pages without text are left out."""

    async def handle(request: web.Request) -> web.Response:
        assert request.headers["Authorization"] == "Bearer k"
        query = (await request.json())["query"]
        rows = [{"url": "http://a", "title": "A", "content": query}, {"url": "http://b"}]
        return web.json_response({"results": rows})

    monkeypatch.setenv("TAVILY_API_KEY", "k")
    async with served(handle) as url:
        found = await HttpSearch(url).search("who")
    assert found == [Passage("http://a", "who", "A", "http://a")]


async def test_a_tool_of_an_mcp_server() -> None:
    """One session has initialize, initialized and the call; responses are JSON or an event
    stream."""
    methods: list[str] = []

    async def handle(request: web.Request) -> web.Response:
        body = await request.json()
        methods.append(body["method"])
        if body["method"] == "initialize":
            return web.json_response({"id": 1, "result": {}}, headers={"Mcp-Session-Id": "s"})
        assert request.headers["Mcp-Session-Id"] == "s"
        if "id" not in body:
            return web.Response(status=202)
        text = body["params"]["arguments"]["query"]
        result = {"content": [{"type": "text", "text": text}, {"type": "image"}]}
        data = json.dumps({"jsonrpc": "2.0", "id": 2, "result": result})
        stream = f"event: message\ndata: {data}\n\n"
        return web.Response(text=stream, content_type="text/event-stream")

    async with served(handle) as url:
        assert await McpSearch(url, "find").search("who") == [Passage("find#0", "who", source=url)]
    assert methods == ["initialize", "notifications/initialized", "tools/call"]


@pytest.mark.parametrize(
    ("text", "status", "fault"),
    [("{}", 200, "results"), ("<html>", 200, "JSON"), ("no key", 401, "401")],
)
async def test_what_a_search_answers_wrongly_is_said(text: str, status: int, fault: str) -> None:
    async def handle(_: web.Request) -> web.Response:
        return web.Response(text=text, status=status)

    async with served(handle) as url:
        with pytest.raises(WebSearchFailed, match=fault):
            await HttpSearch(url).search("who")
        if fault != "results":
            with pytest.raises(RerankerFailed):
                await EndpointReranker(url, "m").score("who", ["a"])


async def test_scores_of_a_reranking_endpoint_come_in_order() -> None:
    async def handle(request: web.Request) -> web.Response:
        texts = (await request.json())["documents"]
        rows = [{"index": n, "relevance_score": len(t)} for n, t in enumerate(texts)]
        return web.json_response({"results": rows[::-1]})

    async with served(handle) as url:
        assert await EndpointReranker(url, "m").score("q", ["a", "bbb", "cc"]) == [1, 3, 2]


class Counted:
    """Web search that counts its queries and never answers "never"."""

    name = "counted"

    def __init__(self) -> None:
        self.asked: list[str] = []

    def __repr__(self) -> str:
        return "Counted"

    async def search(self, query: str) -> list[Passage]:
        self.asked.append(query)
        await asyncio.sleep(10 if query == "never" else 0.02)
        return [Passage("id", query)]


async def test_the_same_query_is_asked_once(tmp_path: Path) -> None:
    """This holds for concurrent callers, for a cancelled caller, and for the next process."""
    search = Counted()
    first = CachedWeb(search, tmp_path)
    leaver = asyncio.create_task(first.search("who"))
    await asyncio.sleep(0.005)
    leaver.cancel()
    found = await asyncio.gather(*(first.search("who") for _ in range(5)))
    found += [await CachedWeb(search, tmp_path).search("who")]
    assert [list(pages) for pages in found] == [[Passage("id", "who")]] * 6
    assert search.asked == ["who"]
    assert not list(tmp_path.glob("*.tmp"))


async def test_no_answer_in_its_time_is_not_kept(tmp_path: Path) -> None:
    web_search = CachedWeb(Counted(), tmp_path, timeout_s=0.05)
    with pytest.raises(WebSearchFailed, match=r"no answer in 0\.05 s"):
        await web_search.search("never")
    assert not list(tmp_path.iterdir())
