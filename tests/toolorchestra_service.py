"""Retrieval service with exactly the interface of ToolOrchestra's own.

It follows ``evaluation/retrieval_hle.py`` and ``retrieval_wiki.py`` of the fork at 8bb9e69: one
query per request, an unknown question is an error, hits without scores are bare documents, web
pages have no id.
"""

import json
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

TYPES = {"queries": list, "topk": int, "return_scores": bool, "eid": str, "new_cache_dir": str}
LEAST_HITS = 3  # with fewer, HLE's service appends pages of the web


def hle_answer(pools: Mapping[str, Sequence[str]], body: Mapping[str, Any]) -> Any:
    """Return HLE's response: the documents of the question alone, then a web page. Raises
    KeyError."""
    assert len(body["queries"]) == 1, "We now assume single query search"
    texts = pools[body["eid"]][: body["topk"]]
    documents = [{"id": 40 + n, "content": text} for n, text in enumerate(texts)]
    if not body.get("return_scores", False):
        return [documents]
    hits: list[Any] = [{"document": d, "score": 0.9 - n / 10} for n, d in enumerate(documents)]
    if len(hits) < LEAST_HITS:
        hits.append({"document": {"content": f"The web on {body['queries'][0]}."}, "score": -1})
    return [hits]


def wiki_answer(texts: Sequence[str], body: Mapping[str, Any]) -> Any:
    """Return FRAMES's response: all pages for any question, with their text in ``contents``."""
    documents = [{"id": str(n), "contents": text} for n, text in enumerate(texts)]
    if not body.get("return_scores", False):
        return [documents for _ in body["queries"]]
    hits = [{"document": d, "score": 0.5} for d in documents[: body["topk"]]]
    return [hits for _ in body["queries"]]


@contextmanager
def toolorchestra_service(
    documents: Mapping[str, Sequence[str]] | Sequence[str],
) -> Iterator[tuple[str, list[dict[str, Any]]]]:
    """Run HLE's service on texts by question, or FRAMES's on all texts; yield its URL and the
    requests received."""
    asked: list[dict[str, Any]] = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            """Search; any failure is an HTTP 500, a field of another type a 422."""
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            asked.append(body)
            if wrong := [name for name in body if not isinstance(body[name], TYPES[name])]:
                return self.answer(422, {"detail": wrong})
            try:
                found = (
                    hle_answer(documents, body)
                    if isinstance(documents, Mapping)
                    else wiki_answer(documents, body)
                )
            except (KeyError, AssertionError):
                return self.answer(500, "Internal Server Error")
            return self.answer(200, found)

        def answer(self, status: int, content: Any) -> None:
            data = json.dumps(content).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, format: str, *args: Any) -> None:
            """Suppress the log."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}", asked
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
