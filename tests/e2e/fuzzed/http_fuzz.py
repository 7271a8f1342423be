"""Thousands of fuzzed requests: bodies, paths, headers, bytes, and engines' responses.

In: a seed. Out: bytes for the port of a gateway (`Fuzz`), of the retrieval service (`SearchFuzz`)
or of the report server (`ReportFuzz`), and for an engine's responses. The output depends on the
seed alone, so a failing request can be sent again.
"""

import json
import random
from typing import Any

PATHS = (
    "/v1/chat/completions", "/v1/completions", "/v1/responses", "/v1/messages", "/v1/embeddings",
    "/v1/tokenize", "/v1/models", "/v1/models/m", "/v1/load_lora_adapter", "/p/x/v1/messages",
    "/p/%F0%9F%90%8D/v1/chat/completions", "/p//v1/models", "/programs/release", "/programs",
    "/profiles/x", "/engines", "/engines/engine:9", "/cell", "/flush", "/health", "/metrics",
    "/state", "/ui", "/pulse/reset", "/v1/files", "/", "*", "http://h/v1/models", "/v1",
)  # fmt: skip
METHODS = ("POST", "POST", "POST", "GET", "PUT", "DELETE", "HEAD", "OPTIONS", "PATCH", "CONNECT")
FIELDS = (
    "model", "messages", "prompt", "input", "stream", "stream_options", "max_tokens", "tools",
    "temperature", "stop", "n", "program_id", "job_id", "logprobs", "chat_template_kwargs",
    "cell_id", "policy", "options", "limit", "url", "id", "pool", "api_key_env", "models",
    "concurrency",
)  # fmt: skip
OWN = (
    "X-Program-Id", "X-Call-Id", "X-Tutti-Step", "X-Tutti-Cell", "X-Tutti-Role", "X-Tutti-Messages",
    "X-Tutti-Spans", "Content-Encoding", "Expect", "Origin", "Authorization", "x-api-key", "Cookie",
    "Connection", "Transfer-Encoding", "Upgrade", "Accept-Encoding", "TE", "Trailer",
)  # fmt: skip
WORDS = (
    "", "m", "user", "assistant", "tool", "kept", "close", "chunked", "gzip", "100-continue", "0-1",
    "passthrough", "cap", "adaptive", "null", "http://127.0.0.1:9", "OPENAI_API_KEY", "é\u2028🐍",
    "-1", "9" * 30, "../../etc", "%2e%2e", "a" * 300,
)  # fmt: skip
SEARCH_FIELDS = (
    "queries", "topk", "return_scores", "eid", "ids", "mode", "approximate", "neighbours",
    "min_score", "rerank", "web",
)  # fmt: skip
REPORT_PATHS = (
    "/", "/report-0a/", "/report-0a/index.html", "/report-0a/throughput.png", "/report-0a",
    "/report-0a/../../catalog.db", "/report-0a/..%2f..%2fcatalog.db", "//etc/passwd",
)  # fmt: skip
LARGE = 0.0005
"""Share of bodies that are as large as they can be cheaply made: `Fuzz.large`."""
LARGE_BYTES = 1_000_000
NUMBERS = (0, -1, 1, 2**31, 2**53 + 1, 2**63, 2**64 - 1, -(2**63), 1e308, 1e-320, 0.5, True, False)


class Fuzz:
    """Source of requests and responses, by default those of a gateway."""

    paths: tuple[str, ...] = PATHS
    call_paths: tuple[str, ...] = PATHS[:5]
    fields: tuple[str, ...] = FIELDS
    released = 0.01
    """Share of calls in whose place the program is released: programs end, as those of users do."""

    def __init__(self, seed: int, token: str) -> None:
        self.random = random.Random(seed)
        self.token = token

    def value(self, depth: int = 0) -> Any:
        """Return any JSON value, mostly flat, sometimes nested hundreds of levels deep."""
        draw = self.random.random()
        if depth > 4 or draw < 0.35:
            return self.random.choice(WORDS)
        if draw < 0.55:
            return self.random.choice(NUMBERS)
        if draw < 0.62:
            return None
        if draw < 0.63 and depth == 0:
            return self.deep(self.random.choice((50, 240, 260, 900)))
        size = self.random.randrange(4)
        if draw < 0.8:
            return [self.value(depth + 1) for _ in range(size)]
        names = self.fields + WORDS
        return {self.random.choice(names): self.value(depth + 1) for _ in range(size)}

    def deep(self, levels: int) -> Any:
        """Return a value nested `levels` deep."""
        value: Any = 0
        for _ in range(levels):
            value = [value] if self.random.random() < 0.5 else {"a": value}
        return value

    def message(self) -> Any:
        """Return a chat message or a value in place of one."""
        if self.random.random() < 0.2:
            return self.value()
        told: dict[str, Any] = {"role": self.random.choice(("user", "assistant", "tool", "system"))}
        told["content"] = self.random.choice(("hello", None, [{"type": "text", "text": "x"}]))
        for name in ("role", "content", "tool_calls", "tool_call_id", "name", "reasoning_content"):
            if self.random.random() < 0.2:
                told[name] = self.value(1)
        if self.random.random() < 0.2:
            function = {"name": "f", "arguments": self.value(2)}
            told["tool_calls"] = [{"id": "c", "type": "function", "function": function}]
        return told

    def body(self) -> bytes:
        """Return a body: a call, any JSON, or bytes."""
        draw = self.random.random()
        if draw < LARGE:
            return self.large()
        if draw < 0.6:
            told = self.sound()
            for _ in range(self.random.randrange(3)):
                told[self.random.choice(self.fields)] = self.value()
            return json.dumps(told).encode("utf-8", "surrogatepass")
        if draw < 0.85:
            return json.dumps(self.value()).encode("utf-8", "surrogatepass")
        return self.random.randbytes(self.random.randrange(200))

    def sound(self) -> dict[str, Any]:
        """Return the body of a call that succeeds if its messages are valid."""
        many = range(self.random.randrange(4))
        told: dict[str, Any] = {"model": "m", "messages": [self.message() for _ in many]}
        return told | {"stream": self.random.random() < 0.4}

    def large(self) -> bytes:
        """Return a megabyte in one of the forms that are most expensive to parse."""
        units = (b"{},", b"0,", b"[", b'"a",', b'{"a":', "🐍".encode())
        one = self.random.choice(units)
        many = one * (LARGE_BYTES // len(one))
        start = b'{"%b": ' % self.random.choice(self.fields).encode()
        return start + self.random.choice((b"[%b0]}", b'"%b"}', b"%b")) % many

    def target(self) -> bytes:
        """Return a path with some characters encoded differently."""
        path = self.random.choice(self.call_paths if self.random.random() < 0.5 else self.paths)
        if self.random.random() < 0.2:
            path += "?" + self.random.choice(WORDS[:8])
        letters = [
            f"%{ord(c):02x}" if c.isalpha() and self.random.random() < 0.05 else c for c in path
        ]
        if self.random.random() < 0.05:
            letters.insert(self.random.randrange(len(letters)), self.random.choice("/.% \\;\x7f"))
        return "".join(letters).encode()

    def request(self) -> bytes:
        """Return a request: a call that reaches the engine, or a malformed one."""
        if self.random.random() < 0.4:
            return self.call()
        method, body = self.random.choice(METHODS).encode(), self.body()
        lines = [b"%b %b HTTP/1.1" % (method, self.target())]
        if self.random.random() < 0.97:
            lines.append(
                b"Host: " + self.random.choice((b"127.0.0.1", b"localhost:1", b"evil.org"))
            )
        if self.random.random() < 0.3:
            lines.append(b"Authorization: Bearer " + self.token.encode())
        for _ in range(self.random.randrange(3)):
            value = self.random.choice(WORDS).encode("latin-1", "replace")
            lines.append(self.random.choice(OWN).encode() + b": " + value)
        lines.append(b"Content-Type: application/json")
        if self.random.random() < 0.1:
            lines.append(b"Transfer-Encoding: chunked")
            body = b"%x\r\n%b\r\n0\r\n\r\n" % (len(body), body)
        else:
            lines.append(b"Content-Length: %d" % len(body))
        whole = b"\r\n".join(lines) + b"\r\n\r\n" + body
        return self.broken(whole) if self.random.random() < 0.2 else whole

    def call(self) -> bytes:
        """Return a valid request with any body."""
        body, number = self.body(), self.random.randrange(200)
        path = self.random.choice(self.call_paths).encode()
        if self.random.random() < self.released:
            path, body = b"/programs/release", b'{"program_id": "p%d"}' % number
        program = b"X-Program-Id: p%d\r\n" % number
        return (
            b"POST %b HTTP/1.1\r\nHost: 127.0.0.1\r\n%bContent-Type: application/json\r\n"
            b"Content-Length: %d\r\n\r\n%b" % (path, program, len(body), body)
        )

    def broken(self, data: bytes) -> bytes:
        """Return the data truncated, or with some bytes changed, inserted or removed."""
        if self.random.random() < 0.4:
            return data[: self.random.randrange(len(data))]
        changed = bytearray(data)
        for _ in range(self.random.randrange(1, 6)):
            place = self.random.randrange(len(changed))
            changed[place : place + self.random.randrange(2)] = self.random.randbytes(
                self.random.randrange(3)
            )
        return bytes(changed)

    def answer(self) -> bytes:
        """Return an engine's response, mostly valid."""
        draw = self.random.random()
        if draw < 0.3:
            return self._stream()
        said: Any = {"choices": [{"message": self.message(), "finish_reason": "stop"}]}
        said["usage"] = {"prompt_tokens": 3, "completion_tokens": 2}
        if self.random.random() < 0.3:
            said["usage"] = self.value()
        if self.random.random() < 0.2:
            said = self.value()
        data = json.dumps(said).encode("utf-8", "surrogatepass")
        if draw > 0.95:
            data = self.random.randbytes(100)
        # Failures are rare: an engine that fails three times in a row gets no calls for a while.
        status = self.random.choice((200,) * 60 + (400, 404) * 8 + (429, 500, 503))
        head = b"HTTP/1.1 %d X\r\nContent-Type: application/json\r\n" % status
        if status == 429:
            head += b"Retry-After: 0\r\n"
        whole = head + b"Content-Length: %d\r\n\r\n%b" % (len(data), data)
        return self.broken(whole) if self.random.random() < 0.02 else whole

    def _stream(self) -> bytes:
        events = [
            b"data: " + json.dumps({"choices": [self.value(1)], "usage": self.value(3)}).encode()
            for _ in range(self.random.randrange(5))
        ]
        end = self.random.choice((b"\n\n", b"\r\n\r\n", b"\n", b""))
        data = end.join([*events, b"data: [DONE]\n\n"])
        chunks = b"".join(
            b"%x\r\n%b\r\n" % (len(part), part) for part in (data[:7], data[7:]) if part
        )
        head = (
            b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n"
        )
        return head + b"\r\n" + chunks + (b"0\r\n\r\n" if self.random.random() < 0.9 else b"")


class SearchFuzz(Fuzz):
    """Source of requests to the retrieval service."""

    paths = ("/retrieve", "/health", "/retrieve/", "/", "*", "//retrieve", "http://h/retrieve")
    call_paths = ("/retrieve",)
    fields = SEARCH_FIELDS
    released = 0.0

    def sound(self) -> dict[str, Any]:
        """Return a search; one in five hundred has many long queries."""
        words = ("amber", "birch", "title6", "number7", "é\u2028🐍", "", "a " * 200)
        large = self.random.random() < 0.002
        many = range(64 if large else 1 + self.random.randrange(3))
        told: dict[str, Any] = {
            "queries": [self.random.choice(words) * (1 + large * 4) for _ in many],
            "topk": self.random.choice((1, 5, 20)),
        }
        if self.random.random() < 0.3:
            told["ids"] = [f"p{self.random.randrange(3000)}" for _ in range(4)]
        return told


class ReportFuzz(Fuzz):
    """Source of requests to the report server."""

    paths = REPORT_PATHS
    call_paths = REPORT_PATHS

    def call(self) -> bytes:
        """Return a valid request for a page."""
        method = self.random.choice((b"GET", b"HEAD"))
        path = self.random.choice(self.paths).encode()
        return b"%b %b HTTP/1.1\r\nHost: localhost\r\nContent-Length: 0\r\n\r\n" % (method, path)
