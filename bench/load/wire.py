"""The messages of the load bench: the request, and the mock's answer.

The mock writes the first token 200.0 ms after it has read a request, together with all other
chunks: so this is both the true time to first token and the duration of a call.
"""

import orjson

DELAY_S = 0.2
CHUNKS = 16
PROMPT = "Say what the tool found, and then say once more what it means for the question. " * 8
REQUEST = {
    "model": "mock",
    "messages": [{"role": "user", "content": PROMPT}],
    "max_tokens": CHUNKS,
    "temperature": 0.0,
    "stream": True,
    "stream_options": {"include_usage": True},
}
USAGE = {"prompt_tokens": 140, "completion_tokens": CHUNKS, "total_tokens": 140 + CHUNKS}
STREAM_HEAD = (
    b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream; charset=utf-8\r\n"
    b"Transfer-Encoding: chunked\r\n\r\n"
)


def _chunk(data: bytes) -> bytes:
    return b"%x\r\n%b\r\n" % (len(data), data)


def _event(fields: dict[str, object]) -> bytes:
    about = {"id": "chatcmpl-0", "object": "chat.completion.chunk", "created": 0, "model": "mock"}
    return _chunk(b"data: " + orjson.dumps(about | fields) + b"\n\n")


def _delta(delta: dict[str, str], finish: str | None = None) -> bytes:
    return _event({"choices": [{"index": 0, "delta": delta, "finish_reason": finish}]})


FIRST_TOKEN = _delta({"role": "assistant", "content": "word"})
OTHER_TOKENS = _delta({"content": " word"}) * (CHUNKS - 2) + _delta({"content": "."}, "stop")
END = _event({"choices": [], "usage": USAGE}) + _chunk(b"data: [DONE]\n\n") + b"0\r\n\r\n"
STREAM = STREAM_HEAD + FIRST_TOKEN + OTHER_TOKENS + END
