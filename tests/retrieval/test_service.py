"""Tests of the service: its own format and the reference's, filters, batches, reranking, and web
search."""

import asyncio
import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.retrieval.serving import ServiceAnswer, ServiceClient, serving
from tests.retrieval.vectors import passages
from tutti.storage import Catalog, Home
from tutti.tasks.agents.tools import MAX_QUERY_CHARS
from tutti.tasks.retrieval.endpoint import EndpointReranker
from tutti.tasks.retrieval.errors import RerankerFailed, WebSearchFailed
from tutti.tasks.retrieval.index import build_index
from tutti.tasks.retrieval.passage import Passage, PassageStore
from tutti.tasks.retrieval.request import BODY_BYTES
from tutti.tasks.retrieval.service import Options, open_service, web_of
from tutti.tasks.retrieval.spec import IndexSpec
from tutti.tasks.retrieval.web import HttpSearch, McpSearch


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    with Catalog(Home(tmp_path_factory.mktemp("home"))) as catalog:
        yield build_index(passages(40), catalog, IndexSpec(words=True))


@pytest.fixture()
def client(folder: Path, tmp_path: Path) -> Iterator[ServiceClient]:
    pools = tmp_path / "pools.json"
    pools.write_text(json.dumps({"17": ["p3", "p9"], "empty": []}))
    with serving(folder, Options(pools=pools)) as client:
        yield client


def ids(result: list[dict[str, Any]]) -> list[str]:
    """Return the ids of one query's documents."""
    return [row["document"]["id"] for row in result]


def test_an_answer_says_where_everything_comes_from(client: ServiceClient) -> None:
    """A response has neighbours, source, position, place in each ranking, index and corpus."""
    body = {"queries": ["title6"], "topk": 2, "neighbours": 1}
    answer = client.post(body).json()
    first = answer["result"][0][0]
    assert first["document"] == {"id": "p6", "contents": passages(40)[6].text}
    assert [near["id"] for near in first["neighbours"]] == ["p5", "p7"]
    assert first["source"] == "local"
    where = {"source": "book1", "position": 2, "row": 6, "ranks": {"dense": 1, "words": 1}}
    assert first["provenance"] == where
    assert answer["index_id"].startswith("index:") and answer["corpus_id"].startswith("corpus:")
    assert answer["latency_s"] > 0


def test_the_references_request_gets_the_references_answer(client: ServiceClient) -> None:
    """The response is a list of lists with `content` beside `contents` and only documents of the
    question's pool."""
    body = {"queries": ["title6"], "topk": 50, "return_scores": True, "eid": "17"}
    answer = client.post(body)
    (result,) = answer.json()
    assert sorted(ids(result)) == ["p3", "p9"], "title6 is the best document, and not in the pool"
    assert all(row["document"]["content"] == row["document"]["contents"] for row in result)
    assert all(isinstance(row["score"], float) for row in result)
    assert answer.headers["X-Index-Id"].startswith("index:")
    bare = client.post(body | {"return_scores": False, "eid": 17}).json()
    assert ids(bare[0]) == ids(result) and "score" not in bare[0][0]
    assert client.post(body | {"eid": "empty"}).json() == [[]]


def test_an_unknown_pool_is_said_and_harms_nobody_else(client: ServiceClient) -> None:
    """The reference failed the whole batch with a KeyError."""
    body = {"queries": ["title6"], "eid": "nobody"}
    refused = client.post(body)
    assert refused.status == 400 and "'nobody'" in refused.json()["error"]
    refused = client.post({"queries": ["a"], "ids": ["p1", "p99"]})
    assert refused.status == 400 and "'p99'" in refused.json()["error"]


def test_a_service_without_pools_ignores_the_questions_id(folder: Path) -> None:
    """The reference's service for a wiki does so, too."""
    with serving(folder) as client:
        (result,) = client.post({"queries": ["title6"], "eid": "x"}).json()
        assert ids(result)[0] == "p6"


def test_filter_mode_and_floor(client: ServiceClient) -> None:
    allowed = {"queries": ["title6"], "ids": ["p1", "p2", "p3"], "mode": "dense", "topk": 2}
    (dense,) = client.post(allowed).json()["result"]
    assert set(ids(dense)) < {"p1", "p2", "p3"} and len(dense) == 2
    high = allowed | {"min_score": dense[0]["score"]}
    assert ids(client.post(high).json()["result"][0]) == ids(dense[:1])


@pytest.mark.parametrize(
    ("field", "value", "fault"),
    [
        ("mode", "magic", "`mode`"),
        ("neighbours", 11, "`neighbours`"),
        ("topk", True, "`topk`"),
        ("ids", "p1", "`ids`"),
        ("min_score", "x", "`min_score`"),
        ("rerank", True, "no reranker"),
        ("web", 1, "`web`"),
        ("top_k", 3, "top_k"),
    ],
)
def test_a_wrong_field_is_named(
    client: ServiceClient, field: str, value: object, fault: str
) -> None:
    refused = client.post({"queries": ["a"], field: value})
    assert refused.status == 400 and fault in refused.json()["error"]


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"Origin": "http://evil.example"}, 403),
        ({"Origin": "null"}, 403),
        ({"Host": "evil.example"}, 403),
        ({"Host": "localhost.evil.example:80"}, 403),
        ({"Content-Type": "text/plain"}, 415),
        ({"Content-Type": "multipart/form-data; boundary=x"}, 415),
        ({"Content-Type": "application/x-www-form-urlencoded"}, 415),
        ({"Host": "localhost:1"}, 200),
        ({"Host": "search.localhost", "Origin": "http://search.localhost"}, 200),
    ],
)
def test_a_page_of_another_site_reads_no_document(
    client: ServiceClient, headers: dict[str, str], status: int
) -> None:
    """This was an attack: a page in a browser on this machine could read the corpus."""
    answer = client.post({"queries": ["title6"]}, headers)
    assert answer.status == status and (b"number6" in answer.body) is (status == 200)


@pytest.mark.parametrize(
    ("body", "status", "fault"),
    [
        (b'{"queries": ["%b"]}' % (b"a " * BODY_BYTES), 413, "too large"),
        ({"queries": ["a" * (MAX_QUERY_CHARS + 1)]}, 400, "at most 16384 characters"),
        ({"queries": ["a"] * 257}, 400, "at most 256"),
        ({"queries": ["a"] * 256, "topk": 129}, 400, "33024 passages"),
        ({"queries": ["a"] * 2, "topk": 1000, "neighbours": 10}, 400, "42000 passages"),
        ({"queries": ["a"], "ids": ["p1"] * 10_001}, 400, "not 10001"),
        (b'{"queries": ' + b"[" * 500_000, 400, ""),
        ({"queries": ["a"], "ids": [1] * 150_000}, 400, "`ids.0`"),
        ({"queries": ["a"]} | {f"{n:x}": 1 for n in range(60_000)}, 400, "unknown field 0;"),
        ({"queries": ["a " * (MAX_QUERY_CHARS // 2)]}, 200, ""),
    ],
)
def test_what_is_asked_for_is_bounded(
    client: ServiceClient, body: Any, status: int, fault: str
) -> None:
    """This was an attack: a query of 100 MB took 2.5 GB and blocked all callers for a minute."""
    answer = client.post(body)
    assert answer.status == status and fault in answer.body.decode()
    assert client.post({"queries": ["title6"]}).status == 200


def test_what_a_wrong_value_holds_is_not_sent_back(client: ServiceClient) -> None:
    for field in ("mode", "topk", "min_score", "eid", "rerank", "x" * 500_000):
        refused = client.post({"queries": ["a"], field: "y" * 500_000})
        assert refused.status == 400 and len(refused.body) < 1000


def test_the_searching_thread_keeps_to_its_threads(folder: Path) -> None:
    """A limit set in the main thread does not apply to it, because OpenMP keeps one for each
    thread."""
    import faiss

    seen = []
    ids_of = PassageStore.__getitem__

    def look(store: PassageStore, row: Any) -> Any:
        seen.append(faiss.omp_get_max_threads())
        return ids_of(store, row)

    before = faiss.omp_get_max_threads()
    faiss.omp_set_num_threads(2)
    try:
        with serving(folder, Options(threads=1)) as client, pytest.MonkeyPatch.context() as patched:
            patched.setattr(PassageStore, "__getitem__", look)
            client.post({"queries": ["amber"]})
    finally:
        faiss.omp_set_num_threads(before)
    assert set(seen) == {1}


def test_health_counts_batches(client: ServiceClient) -> None:
    client.post({"queries": ["a"]})
    health = client.ask("GET", "/health").json()
    assert health["documents"] == 40 and health["modes"] == ["fused", "dense", "words"]
    assert health["queries"] == health["batches"] == 1


class Backwards(EndpointReranker):
    """Reranker that puts the document with the highest number first."""

    async def score(self, query: str, texts: Sequence[str]) -> list[float]:
        if query == "broken":
            raise RerankerFailed("out of order")
        return [float(text.rsplit("number", 1)[1]) for text in texts]


def test_a_reranker_orders_more_than_was_asked_for(folder: Path) -> None:
    with serving(folder, Options(reranker=Backwards("", ""))) as client:
        body = {"queries": ["amber"], "topk": 2, "rerank": True}
        plain = client.post(body | {"rerank": False, "topk": 8}).json()
        (result,) = client.post(body).json()["result"]
        wanted = sorted(ids(plain["result"][0]), key=lambda name: -int(name[1:]))[:2]
        assert ids(result) == wanted
        assert client.post(body | {"queries": ["broken"]}).status == 502


class SlowWeb:
    """Web search that responds when the test allows it and fails for some queries."""

    name = "slow"

    def __init__(self) -> None:
        self.asked, self.go = asyncio.Event(), asyncio.Event()

    async def search(self, query: str) -> list[Passage]:
        self.asked.set()
        await self.go.wait()
        if query == "broken":
            raise WebSearchFailed("no such page")
        return [Passage(f"http://page/{nth}", query, source="http://page") for nth in range(3)]


async def test_a_slow_web_search_holds_up_nobody_else(folder: Path, tmp_path: Path) -> None:
    """The reference ran it in its only batch worker, so one slow search stalled every caller."""
    web = SlowWeb()
    options = Options(web=web, web_below=2, cache=tmp_path / "cache")
    lonely = {"queries": ["title6"], "ids": ["p3"], "topk": 3, "mode": "dense"}
    async with open_service(folder, options) as server:
        client = ServiceClient(await server.listen("127.0.0.1", 0))

        async def post(body: Any) -> ServiceAnswer:
            return await asyncio.to_thread(client.post, body)

        try:
            slow = asyncio.create_task(post(lonely))
            await web.asked.wait()
            for _ in range(5):
                await post({"queries": ["title1"], "topk": 2})
            assert not slow.done()
            web.go.set()
            (result,) = (await slow).json()["result"]
            assert ids(result) == ["p3", "http://page/0", "http://page/1"]
            assert [row["source"] for row in result] == ["local", "web", "web"]
            assert [row["score"] for row in result][1:] == [-1, -2]
            web.asked.clear()
            again = await post(lonely)
            assert again.json()["result"] == [result] and not web.asked.is_set(), "kept"
            failed = await post(lonely | {"queries": ["broken"]})
            assert ids(failed.json()["result"][0]) == ["p3"]
            assert failed.json()["web_errors"] == ["no such page"]
            local = await post(lonely | {"web": False})
            assert ids(local.json()["result"][0]) == ["p3"]
        finally:
            await server.close(1.0)


def test_what_the_flag_for_the_web_names(monkeypatch: pytest.MonkeyPatch) -> None:
    """Tavily's key is not sent to another search service."""
    assert web_of("tavily") == HttpSearch(name="tavily")
    assert web_of("mcp:find@http://host/mcp") == McpSearch("http://host/mcp", "find")
    own = web_of("http://host/search")
    assert isinstance(own, HttpSearch) and own.key_env != HttpSearch().key_env
    with pytest.raises(ValueError, match="mcp:TOOL@URL"):
        web_of("mcp:find")
