"""Tests of the retrieval service's client: it gets a response or raises unavailable at once."""

import aiohttp
import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer

from tests.toolorchestra_service import toolorchestra_service
from tutti.tasks.agents.tools.retrieve import TOOLORCHESTRA, service_search
from tutti.tasks.agents.tools.tool import ToolUnavailable


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
        assert one.hits[0].text == "About K2." and two.hits[0].id == "K3-0"
        assert one.row["index_id"] == "index:7" and one.row["query"] == "K2"
        assert two.row["doc_ids"] == ["K3-0"] and two.row["scores"] == [1.0]
        for query, said in (("broken", "HTTP 503"), ("text", "JSON"), ("half", "unknown format")):
            with pytest.raises(ToolUnavailable, match=said):
                await search([query], 7)


async def test_toolorchestras_service_of_hle_is_read() -> None:
    """The service returns a bare list with numeric ids, web pages have no id, and each query is one
    request with the question's id."""
    with toolorchestra_service({"q1": ["The first.", "The second."], "q2": []}) as (url, asked):
        async with aiohttp.ClientSession() as http:
            one, two = await service_search(http, url, "q1")(["K2", "K3"], 50)
            with pytest.raises(ToolUnavailable, match="HTTP 500"):
                await service_search(http, url, "another")(["K2"], 50)
    assert [hit.text for hit in one.hits] == ["The first.", "The second.", "The web on K2."]
    assert one.row["doc_ids"][:2] == ["40", "41"] and one.row["scores"] == [0.9, 0.8, -1.0]
    page = one.row["doc_ids"][2]
    assert page.startswith("page:") and page != two.row["doc_ids"][2]
    assert {one.row["index_id"], two.row["index_id"]} == {TOOLORCHESTRA}
    sent = {"topk": 50, "return_scores": True, "eid": "q1"}
    assert sorted(asked[:2], key=lambda body: str(body["queries"])) == [
        {"queries": ["K2"]} | sent,
        {"queries": ["K3"]} | sent,
    ]


async def test_toolorchestras_service_of_frames_is_read() -> None:
    """The text of its documents is in `contents`."""
    with toolorchestra_service(["A page.", "Another."]) as (url, _):
        async with aiohttp.ClientSession() as http:
            (found,) = await service_search(http, url, "wiki____1")(["K2"], 150)
    assert [(hit.id, hit.text) for hit in found.hits] == [("0", "A page."), ("1", "Another.")]


@pytest.mark.parametrize(
    "answered",
    [
        [],
        [[], []],
        [[{"document": {"id": "1", "content": None}, "score": 1.0}]],
        [[{"document": {"id": "1", "content": "c"}}]],
        [[{"id": "1", "content": "c"}]],
        ["text"],
        {"result": [[]]},
        None,
    ],
)
async def test_other_answers_make_the_service_unavailable(answered: object) -> None:
    """A response in neither format voids the attempt and is not read as an empty result."""
    app = web.Application()

    async def other(_: web.Request) -> web.Response:
        return web.json_response(answered)

    app.router.add_post("/retrieve", other)
    async with TestServer(app) as server, aiohttp.ClientSession() as http:
        search = service_search(http, str(server.make_url("")).rstrip("/"))
        with pytest.raises(ToolUnavailable, match="unknown format"):
            await search(["K2"], 3)


async def test_a_service_that_is_down_is_not_waited_for() -> None:
    """The reference retried every three seconds forever."""
    async with aiohttp.ClientSession() as http:
        with pytest.raises(ToolUnavailable, match="search: ClientConnector"):
            await service_search(http, "http://127.0.0.1:9")(["K2"], 3)
