"""The endpoint of the harness bench: ``python -m bench.harness.engine PORT``.

OpenAI's chat completions after a fixed delay, on raw asyncio and uvloop, so that it costs far less
than who asks. A conversation that names the tool `search` gets four calls of it before its answer;
any other is answered at once. ``/retrieve`` answers a search without delay; ``/metrics`` and
``/v1/models`` are what a gateway asks.
"""

import asyncio
import re
import sys
from typing import Any, cast

import orjson
import uvloop

from bench.harness.wire import DELAY_S, TOOL_STEPS

HEAD_END = b"\r\n\r\n"
LENGTH = re.compile(rb"(?i)content-length: *(\d+)")
METRICS = b'vllm:cache_config_info{block_size="16",num_gpu_blocks="1048576"} 1.0\n'
MODELS = orjson.dumps({"data": [{"id": "mock", "max_model_len": 32768}]})
FOUND = orjson.dumps(
    {"index_id": "index:bench", "result": [[{"document": {"id": "d", "contents": "d\ntext"},
                                             "score": 0.5}]]}
)  # fmt: skip
USAGE = {"prompt_tokens": 120, "completion_tokens": 20, "total_tokens": 140}


def answer(body: bytes) -> bytes:
    """The model's answer: a call while the conversation has tools and too few results."""
    message: dict[str, Any] = {"role": "assistant", "content": "It is\n#### 7 \\boxed{7}"}
    reason = "stop"
    results = body.count(b'"role":"tool"')
    if b'"name":"search"' in body and results < TOOL_STEPS:
        function = {"name": "search", "arguments": '{"query": "seven"}'}
        call = {"id": f"call-{results}", "type": "function", "function": function}
        message, reason = {"role": "assistant", "content": None, "tool_calls": [call]}, "tool_calls"
    choice = {"index": 0, "message": message, "finish_reason": reason}
    return orjson.dumps(
        {
            "id": "x",
            "object": "chat.completion",
            "created": 0,
            "model": "mock",
            "choices": [choice],
            "usage": USAGE,
        }
    )


class Wire(asyncio.Protocol):
    """One connection with one request at a time."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Begin."""
        self.transport = cast(asyncio.Transport, transport)
        self.buffer = b""

    def data_received(self, data: bytes) -> None:
        """A piece of a request."""
        self.buffer += data
        head, end, rest = self.buffer.partition(HEAD_END)
        if not end:
            return
        found = LENGTH.search(head)
        length = int(found[1]) if found else 0
        if len(rest) < length:
            return
        self.buffer = rest[length:]
        path = head.split(b" ", 2)[1]
        if path.endswith(b"/chat/completions"):
            loop = asyncio.get_running_loop()
            loop.call_later(DELAY_S, self._send, answer(rest[:length]))
        elif path == b"/retrieve":
            self._send(FOUND)
        else:
            self._send(METRICS if path == b"/metrics" else MODELS)

    def _send(self, body: bytes) -> None:
        head = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n"
        if not self.transport.is_closing():
            self.transport.write(head % len(body) + body)


async def main(port: int) -> None:
    """Serve forever."""
    server = await asyncio.get_running_loop().create_server(Wire, "127.0.0.1", port, backlog=4096)
    await server.serve_forever()


if __name__ == "__main__":
    uvloop.run(main(int(sys.argv[1])))
