"""The messages of the gateway's bench: fixed bytes, and a minimum of HTTP/1.1.

In: nothing. Out: the mock engine's answers (0.5 kB, or events), the calls of programs whose prompts
grow with each step (1.1 kB on average), and when a message has come whole. The assistant's turns
in a prompt are the mock's answers, so that a gateway that records conversations finds its own.
"""

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field

import orjson

ADMIN = "bench"
"""Our gateway's admin token."""
STEPS = 10  # calls of a program; then it is released and a new one takes its place
PROGRAMS = 48  # as many as the reference measurement had
ANSWER_BYTES = 500
MEAN_BODY_BYTES = 1100
HEAD_END = b"\r\n\r\n"
LAST_CHUNK = b"0\r\n\r\n"
COMPLETION_TOKENS = 24
USAGE = {
    "prompt_tokens": 280,
    "total_tokens": 280 + COMPLETION_TOKENS,
    "completion_tokens": COMPLETION_TOKENS,
    "prompt_tokens_details": {"cached_tokens": 240},
}
WORDS = "the tool found seven rows and the orchestrator reads them once more before it says so "


def text(characters: int) -> str:
    """That many characters of plain words."""
    return (WORDS * (characters // len(WORDS) + 1))[:characters]


# The mock's answers


def _answer(content: str) -> bytes:
    message: dict[str, object] = {"role": "assistant", "content": content}
    message |= {"tool_calls": [], "reasoning": None}
    choice = {"index": 0, "message": message, "logprobs": None, "finish_reason": "stop"}
    return orjson.dumps(
        {
            "id": "chatcmpl-0123456789abcdef",
            "object": "chat.completion",
            "created": 1767225600,
            "model": "mock",
            "choices": [choice | {"stop_reason": None}],
            "usage": USAGE,
            "prompt_logprobs": None,
            "kv_transfer_params": None,
        }
    )


CONTENT = text(ANSWER_BYTES - len(_answer("")))
ANSWER = _answer(CONTENT)


def response(body: bytes, kind: bytes = b"application/json", status: bytes = b"200 OK") -> bytes:
    """A whole HTTP answer."""
    head = b"HTTP/1.1 %b\r\nContent-Type: %b\r\nContent-Length: %d\r\n\r\n"
    return head % (status, kind, len(body)) + body


def _event(**fields: object) -> bytes:
    data = orjson.dumps(
        {
            "id": "chatcmpl-0123456789abcdef",
            "object": "chat.completion.chunk",
            "created": 1767225600,
            "model": "mock",
            **fields,
        }
    )
    return framed(b"data: " + data + b"\n\n")


def framed(data: bytes) -> bytes:
    """One chunk of a chunked body."""
    return b"%x\r\n%b\r\n" % (len(data), data)


def _choice(delta: dict[str, str], finish: str | None) -> list[dict[str, object]]:
    return [{"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish}]


STREAM_HEAD = (
    b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream; charset=utf-8\r\n"
    b"Transfer-Encoding: chunked\r\n\r\n"
)
FIRST_EVENT = _event(choices=_choice({"role": "assistant", "content": ""}, None))
TOKEN_EVENT = _event(choices=_choice({"content": " token"}, None))
LAST_EVENTS = (
    _event(choices=_choice({"content": ""}, "stop"))
    + _event(choices=[], usage=USAGE)
    + framed(b"data: [DONE]\n\n")
    + LAST_CHUNK
)
OTHER_EVENTS = 4
"""Events of a stream without a token: the role, the finish, the usage, the end."""


# Reading messages


def length_of(data: bytes) -> int | None:
    """Length in bytes of the message that `data` begins: None while its head is incomplete, -1 if
    it is chunked, because then only its end shows the length."""
    end = data.find(HEAD_END)
    if end < 0:
        return None
    head = data[:end].lower()
    if b"transfer-encoding: chunked" in head:
        return -1
    at = head.find(b"content-length:")
    if at < 0:
        return end + len(HEAD_END)
    return end + len(HEAD_END) + int(head[at + 15 :].split(b"\r\n", 1)[0])


def body_of(message: bytes) -> bytes:
    """What follows the head."""
    return message[message.index(HEAD_END) + len(HEAD_END) :]


def get(path: str) -> bytes:
    """A request for `path`."""
    return f"GET {path} HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n".encode()


def post(path: str, body: bytes, headers: str = "") -> bytes:
    """A request with a JSON body; `headers` are whole lines."""
    head = f"POST {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n{headers}"
    return head.encode() + b"Content-Length: %d\r\n\r\n" % len(body) + body


def release(program: str) -> bytes:
    """The request that ends a program."""
    return post("/programs/release", orjson.dumps({"program_id": program}))


# The calls


@dataclass(frozen=True)
class RouterProtocol:
    """The way a router is told a call's program."""

    header: str = "X-Program-Id"
    """The header that names the program; empty: `program_id` in the body."""
    releases: bool = True
    """Whether it has `/programs/release`. If not, the same programs call forever."""
    more: str = ""
    """Further header lines, each with its end."""


PLACEHOLDER = "p00000000"


@dataclass
class Program:
    """One that calls: its name and the step that comes next."""

    number: int
    name: str = PLACEHOLDER
    step: int = 0
    over: bool = False
    """Whether its last call was sent, so that it is to be released."""


@dataclass
class Programs:
    """Programs in rotation; one that waits for an answer is left out until it is put back."""

    speech: RouterProtocol
    tokens: int = 0
    """Token events to request; 0: no stream."""
    count: int = PROGRAMS
    idle: deque[Program] = field(default_factory=deque)
    made: int = 0

    def __post_init__(self) -> None:
        self._parts = [self._around(body) for body in bodies(self.tokens)]
        self.idle.extend(self._renewed(Program(number)) for number in range(self.count))

    def take(self) -> tuple[Program, bytes]:
        """The next program in the rotation, and its call."""
        program = self.idle.popleft()
        before, after = self._parts[program.step]
        program.step = (program.step + 1) % STEPS
        program.over = self.speech.releases and program.step == 0
        return program, before + program.name.encode() + after

    def put_back(self, program: Program) -> bytes | None:
        """Put back a program after its answer. Returns the release request if this was its last
        call: then a new program takes its place."""
        self.idle.append(program)
        if not program.over:
            return None
        request = release(program.name)
        self._renewed(program)
        return request

    def _renewed(self, program: Program) -> Program:
        program.name, program.over = f"p{self.made:08d}", False
        self.made += 1
        return program

    def _around(self, body: bytes) -> tuple[bytes, bytes]:
        """The request's bytes before and after the program's name, which has a fixed length."""
        if self.speech.header:
            line = f"{self.speech.header}: {PLACEHOLDER}\r\n{self.speech.more}"
        else:
            line = self.speech.more
            body = b'{"program_id":"' + PLACEHOLDER.encode() + b'",' + body[1:]
        whole = post("/v1/chat/completions", body, line)
        before, _, after = whole.partition(PLACEHOLDER.encode())
        return before, after


def bodies(tokens: int = 0) -> Iterator[bytes]:
    """A program's calls, step by step: each prompt extends the previous one by two messages."""
    turn = 20
    grown = len(orjson.dumps(_request(1, 0, turn, tokens)))
    grown -= len(orjson.dumps(_request(0, 0, turn, tokens)))
    bare = len(orjson.dumps(_request(0, 0, turn, tokens)))
    task = max(0, round(MEAN_BODY_BYTES - bare - grown * (STEPS - 1) / 2))
    for step in range(STEPS):
        yield orjson.dumps(_request(step, task, turn, tokens))


def _request(step: int, task: int, turn: int, tokens: int) -> dict[str, object]:
    messages = [{"role": "user", "content": text(task)}]
    for number in range(step):
        messages.append({"role": "assistant", "content": CONTENT})
        messages.append({"role": "user", "content": f"{number} {text(turn)}"})
    made: dict[str, object] = {"model": "mock", "messages": messages, "temperature": 0.7}
    if tokens:
        usage = {"include_usage": True}
        made |= {"stream": True, "stream_options": usage, "max_tokens": tokens}
    return made | {"seed": 1}
