"""Runs a search service for an index on loopback, for the tests of agents on a question set."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from aiohttp import web

from tutti.tasks.retrieval import Index


@asynccontextmanager
async def searching(folder: Path) -> AsyncIterator[str]:
    """Run the service for the index in `folder` and yield its URL."""
    index = Index(folder)

    async def retrieve(request: web.Request) -> web.Response:
        body = await request.json()
        found = index.search(body["queries"], body["topk"])
        rows = [
            [{"document": {"id": h.document.id, "contents": h.document.text}, "score": h.score}
             for h in hits]
            for hits in found
        ]  # fmt: skip
        return web.json_response({"result": rows, "index_id": index.index_id})

    app = web.Application()
    app.router.add_post("/retrieve", retrieve)
    runner = web.AppRunner(app)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    try:
        yield f"http://127.0.0.1:{runner.addresses[0][1]}"
    finally:
        await runner.cleanup()
