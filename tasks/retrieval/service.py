"""The retrieval service: ``POST /retrieve`` over one index.

Run: ``python -m tasks.retrieval.service --index FOLDER --port PORT``. Request
``{"queries": [...], "topk": k}``, answer ``{"result": [[{"document": {...}, "score": s}, ...]]}``.
"""

import argparse
import contextlib
import time
from collections.abc import AsyncIterator
from pathlib import Path

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import Route

from tasks.retrieval.index import Hit, Index

MAX_QUERIES = 256
MAX_TOPK = 100


def make_app(folder: Path) -> Starlette:
    """The application; the index is loaded when the server starts."""
    loaded: dict[str, Index] = {}

    @contextlib.asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncIterator[None]:
        loaded["index"] = Index(folder)
        yield

    async def retrieve(request: Request) -> JSONResponse:
        try:
            queries, k = _read_request(await request.json())
        except (ValueError, TypeError) as error:
            return JSONResponse({"error": str(error)}, status_code=400)
        started = time.monotonic()
        results = loaded["index"].search(queries, k)
        answer = {
            "result": [[_row(hit) for hit in hits] for hits in results],
            "index_id": loaded["index"].index_id,
            "latency_s": time.monotonic() - started,
        }
        return JSONResponse(answer)

    async def health(_: Request) -> JSONResponse:
        index = loaded["index"]
        return JSONResponse({"index_id": index.index_id, "documents": len(index.documents)})

    routes = [Route("/retrieve", retrieve, methods=["POST"]), Route("/health", health)]
    return Starlette(routes=routes, lifespan=lifespan)


def _read_request(body: object) -> tuple[list[str], int]:
    if not isinstance(body, dict):
        raise ValueError("the body must be an object with `queries`")
    queries, k = body.get("queries"), body.get("topk", 5)
    if not isinstance(queries, list) or not all(isinstance(query, str) for query in queries):
        raise ValueError("`queries` must be a list of strings")
    if not 1 <= len(queries) <= MAX_QUERIES:
        raise ValueError(f"`queries` must hold 1 to {MAX_QUERIES} strings, not {len(queries)}")
    if not isinstance(k, int) or not 1 <= k <= MAX_TOPK:
        raise ValueError(f"`topk` must be a whole number from 1 to {MAX_TOPK}, not {k!r}")
    return queries, k


def _row(hit: Hit) -> dict[str, object]:
    document = {"id": hit.document.name, "contents": hit.document.text}
    return {"document": document, "score": hit.score}


def main() -> None:
    """Serve on loopback until SIGTERM."""
    import faiss
    import uvicorn

    parser = argparse.ArgumentParser(description="Serve one index over HTTP.")
    parser.add_argument("--index", type=Path, required=True, help="the index's folder")
    parser.add_argument("--port", type=int, required=True)
    given = parser.parse_args()
    faiss.omp_set_num_threads(1)  # the engine needs the cores; a small flat index does not
    uvicorn.run(make_app(given.index), host="127.0.0.1", port=given.port, log_level="warning")


if __name__ == "__main__":
    main()
