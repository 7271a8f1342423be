"""The retrieval service as agents ask it: answered at once, or unavailable at once."""

import aiohttp
import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer

from tutti.tasks.agents.retrieve import service_search
from tutti.tasks.agents.tools import ToolUnavailable


async def answer(request: web.Request) -> web.Response:
    body = await request.json()
    if body["queries"] == ["broken"]:
        return web.json_response({"error": "no index"}, status=503)
    if body["queries"] == ["text"]:
        return web.Response(text="not JSON", content_type="application/json")
    if body["queries"] == ["half"]:
        return web.json_response({"result": [], "index_id": "index:1"})
    found = [
        [{"document": {"id": f"{query}-{n}", "contents": f"About {query}."}, "score": 1.0 - n}]
        for n, query in enumerate(body["queries"])
    ]
    return web.json_response({"result": found, "index_id": f"index:{body['topk']}"})


async def test_each_query_has_its_documents_and_its_row() -> None:
    app = web.Application()
    app.router.add_post("/retrieve", answer)
    async with TestServer(app) as server, aiohttp.ClientSession() as http:
        search = service_search(http, str(server.make_url("")).rstrip("/"))
        one, two = await search(["K2", "K3"], 7)
        assert one.hits[0].text == "About K2." and two.hits[0].id == "K3-1"
        assert one.row["index_id"] == "index:7" and one.row["query"] == "K2"
        assert two.row["doc_ids"] == ["K3-1"] and two.row["scores"] == [0.0]
        for query, said in (("broken", "HTTP 503"), ("text", "JSON"), ("half", "unknown format")):
            with pytest.raises(ToolUnavailable, match=said):
                await search([query], 7)


async def test_a_service_that_is_down_is_not_waited_for() -> None:
    """The reference retried every three seconds forever."""
    async with aiohttp.ClientSession() as http:
        with pytest.raises(ToolUnavailable, match="search: ClientConnector"):
            await service_search(http, "http://127.0.0.1:9")(["K2"], 3)
