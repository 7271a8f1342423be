"""OpenAI-compatible endpoint that lists models and gives every request the same answer."""

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


@contextmanager
def endpoint(
    *models: dict[str, Any], reply: Callable[[dict[str, Any]], dict[str, Any]] | None = None
) -> Iterator[str]:
    """Run an endpoint that lists `models` and yield its URL. `reply` returns the message for a
    request's body; its key `finish_reason` is the choice's."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            """Send the list of models."""
            self.answer({"data": list(models)})

        def do_POST(self) -> None:
            """Send a chat completion."""
            asked = self.rfile.read(int(self.headers["Content-Length"]))
            message = {"content": "The answer is 42."}
            message = {"role": "assistant", **(reply(json.loads(asked)) if reply else message)}
            ended = message.pop("finish_reason", "stop")
            usage = {"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15}
            choice = {"index": 0, "message": message, "finish_reason": ended}
            self.answer({"choices": [choice], "usage": usage})

        def answer(self, content: dict[str, Any]) -> None:
            """Send `content` as the response."""
            body = json.dumps(content).encode()
            self.send_response(200)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: Any) -> None:
            """Suppress the log."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
