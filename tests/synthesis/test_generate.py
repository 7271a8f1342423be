"""Tests of a set about the standard library: its rejects are rows of `gate_verdicts` with their
gate, as for a domain, and the page of the set shows them."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from aiohttp import web

from tests.conftest import NewCatalog
from tutti import storage
from tutti.tasks.retrieval import Document, Parameter
from tutti.tasks.synthesis import StdlibSource, TaskRequest, count_gates, count_tasks
from tutti.tasks.task_sets import make_set

KNOWN = ("alpha.one", "beta.two", "gamma.three", "delta.four")
REQUEST = TaskRequest(families=("module", "parameter"), train_per_family=9, test_per_family=9)


def document(name: str) -> Document:
    """Return a function of two parameters."""
    module, short = name.split(".")
    parameters = (Parameter("first", None), Parameter("second", None))
    return Document(name, module, "function", parameters, f"{short} does it.")


DOCUMENTS = [document(name) for name in (*KNOWN, "epsilon.five", "alias.five")]


@asynccontextmanager
async def searching() -> AsyncIterator[str]:
    """Run a search service that knows only the documents of `KNOWN` and yield its URL."""

    async def retrieve(request: web.Request) -> web.Response:
        query = (await request.json())["queries"][0]
        found = [each for each in DOCUMENTS if query in each.name and each.name in KNOWN]
        hits = [{"document": {"id": d.name, "contents": d.text}, "score": 1.0} for d in found]
        return web.json_response({"result": [hits], "index_id": "index:1"})

    app = web.Application()
    app.router.add_post("/retrieve", retrieve)
    runner = web.AppRunner(app)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    try:
        yield f"http://127.0.0.1:{runner.addresses[0][1]}"
    finally:
        await runner.cleanup()


async def test_every_reject_has_its_gate(tmp_path: Path, new_catalog: NewCatalog) -> None:
    """Each gate gets the tasks that the earlier gates passed; the same request reuses the set."""
    with new_catalog(storage.Home(tmp_path)) as catalog:
        async with searching() as url:
            made = await make_set(StdlibSource(DOCUMENTS, REQUEST, "index:1", url), catalog)
            again = await make_set(StdlibSource(DOCUMENTS, REQUEST, "index:1", url), catalog)
        assert again == made
        gates = {row["gate"]: row for row in count_gates(catalog.home, made)}
        counts = count_tasks(catalog.home, made)
        rows = storage.query("select task_id, status, reason from tasks", catalog.home)
        entry = catalog.artifact(made)
    assert list(gates) == ["duplicates", "oracle", "no_op"]
    by_status: dict[str, int] = {}
    for row in counts:
        by_status[row["status"]] = by_status.get(row["status"], 0) + row["n"]
    assert gates["duplicates"]["shown"] == sum(by_status.values()) == len(rows)
    assert gates["duplicates"]["dropped"] == by_status["duplicate"] > 0
    assert gates["oracle"]["shown"] == len(rows) - by_status["duplicate"]
    assert gates["oracle"]["dropped"] == by_status["rejected"] > 0
    assert gates["no_op"]["shown"] == by_status["accepted"] and not gates["no_op"]["dropped"]
    begins = {row["status"]: row["reason"].partition(":")[0] for row in rows}
    assert begins == {"accepted": "", "duplicate": "duplicates", "rejected": "oracle"}
    assert entry is not None and entry["detail"]["accepted"] == by_status["accepted"]
