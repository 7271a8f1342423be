"""An endpoint of replies that are known: `playing` plays given calls, of each turn first all its
calls in one message, then a text.

In: by the name that a request gives as its model, the calls of each turn. Which turn it is is told
by the messages of the user, so that nothing is kept between requests.
"""

import json
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

Script = Mapping[str, Sequence[Sequence[Mapping[str, Any]]]]
CLOSING = "Done."


def playing(script: Script) -> AbstractContextManager[str]:
    """The endpoint's URL, as long as it is open."""
    return replying(lambda body: message(script[body["model"]], body["messages"]))


@contextmanager
def replying(reply: Callable[[dict[str, Any]], dict[str, Any]]) -> Iterator[str]:
    """The URL of an endpoint whose messages `reply` makes to a request's body. Its list has one
    model, ``played``."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            self.answer({"data": [{"id": "played"}]})

        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            self.answer(completion(reply(body)))

        def answer(self, content: Mapping[str, Any]) -> None:
            said = json.dumps(content).encode()
            self.send_response(200)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(said)))
            self.end_headers()
            self.wfile.write(said)

        def log_message(self, format: str, *args: Any) -> None:
            """Say nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/v1"
    finally:
        server.shutdown()
        server.server_close()
        thread.join(5)


def message(
    turns: Sequence[Sequence[Mapping[str, Any]]], messages: Sequence[Mapping[str, Any]]
) -> dict[str, Any]:
    """The reply to a conversation."""
    users = sum(each["role"] == "user" for each in messages)
    has_acted = messages[-1]["role"] == "tool"
    turn = turns[users - 1] if 0 < users <= len(turns) else []
    if has_acted or not turn:
        return {"role": "assistant", "content": CLOSING}
    calls = [
        {
            "id": f"call-{users}-{place}",
            "type": "function",
            "function": {"name": call["name"], "arguments": json.dumps(call["arguments"])},
        }
        for place, call in enumerate(turn)
    ]
    return {"role": "assistant", "content": None, "tool_calls": calls}


def completion(reply: Mapping[str, Any]) -> dict[str, Any]:
    """A chat completion with the reply."""
    return {
        "id": "chatcmpl-1",
        "object": "chat.completion",
        "created": 0,
        "model": "played",
        "choices": [{"index": 0, "finish_reason": "stop", "message": dict(reply)}],
        "usage": {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2},
    }
