"""Reads a model call from a request: its program, model, sizes and headers.

A program is named by the path (``/p/<program>/v1/…``), by the header ``X-Program-Id``, or in the
body by ``program_id`` (removed: engines may refuse it) or ``job_id`` (kept: Continuum reads it).
JSON bodies are read within limits, so that none blocks the event loop: the parser cannot be
interrupted, so that the values of a large body are counted in slices before it.
"""

import asyncio
import itertools
import re
import uuid
from array import array
from dataclasses import dataclass, field
from typing import Any

import orjson

from tutti.tasks.serving.gateway.calls.access import Key
from tutti.tasks.serving.gateway.calls.routes import BadRequest, ModelRoute
from tutti.tasks.serving.wire.exchange import LARGE_BYTES, Exchange
from tutti.tasks.serving.wire.messages import HOP_BY_HOP, ByName, Headers
from tutti.tasks.serving.wire.screen import AccessDenied

SHALLOW = 200
"""A body with fewer brackets cannot be nested too deeply."""
MARGIN = 4  # levels that the gateway may add
MAX_PARTS = 1_000_000
"""Approximate number of values of a large body: a prompt of a million token ids, parsed in 20
ms."""
MAX_TEXTS = 100_000
"""Approximate number of keys and texts of a large body: other keys each time, parsed in 20 ms."""
SEPARATORS = (b",", b"{", b"{", b"[", b"[")
"""An object or a list takes the time of two other values: the garbage collector sees it."""


def read_object(exchange: Exchange) -> dict[str, Any]:
    """The JSON object in a request's body. Raises BadRequest."""
    if exchange.parsed is not None:
        return exchange.parsed  # type: ignore[no-any-return]
    data = exchange.body
    body = _parse(data)
    if data.count(b"{") + data.count(b"[") > SHALLOW:
        _check_depth(body)
    return body


async def read_large(data: bytes) -> dict[str, Any]:
    """`read_object` for a large body, in several turns of the event loop. Raises BadRequest."""
    parts = quotes = 0
    for start in range(0, len(data), LARGE_BYTES):
        piece = data[start : start + LARGE_BYTES]
        parts += sum(map(piece.count, SEPARATORS))
        quotes += piece.count(b'"') - piece.count(b'\\"')
        if parts > MAX_PARTS:
            raise BadRequest(f"the body has more than {MAX_PARTS} values")
        if quotes > 2 * MAX_TEXTS:
            raise BadRequest(f"the body has more than {MAX_TEXTS} keys and texts")
        await asyncio.sleep(0)
    body = _parse(data)
    await asyncio.sleep(0)
    _check_depth(body)
    await asyncio.sleep(0)
    return body


def _parse(data: bytes) -> dict[str, Any]:
    try:
        body = orjson.loads(data)
    except orjson.JSONDecodeError as error:
        raise BadRequest(f"the body is not JSON: {error}") from None
    if not isinstance(body, dict):
        raise BadRequest("the body must be a JSON object")
    return body


def _check_depth(body: Any) -> None:
    for _ in range(MARGIN):
        body = [body]
    try:
        orjson.dumps(body)
    except orjson.JSONEncodeError as error:
        raise BadRequest(f"the body is nested too deeply: {error}") from None


MAX_NAME = 256  # characters of an id
MAX_STEP_DIGITS = 9  # the width of the table's column
UNLIMITED = 1 << 16  # assumed output tokens of a call without a limit, until forecasts exist
MOST_OUTPUT = 1 << 31  # cap on a call's limit; sums of it fit the tables' columns
OUTPUT_FIELDS = ("max_completion_tokens", "max_tokens", "max_output_tokens")
ROLE = "orchestrator"
ENCODING, IDENTITY = b"content-encoding", b"identity"
OWN = frozenset(
    b"x-program-id x-call-id x-tutti-step x-tutti-cell x-tutti-role x-tutti-messages "
    b"x-tutti-spans".split()
)
SPANS = re.compile(rb"\d{1,6}-\d{1,6}(,\d{1,6}-\d{1,6})*")
NOT_PASSED = HOP_BY_HOP | {
    b"accept-encoding",
    b"cookie",
    # Some servers map a disallowed method to POST.
    b"x-http-method",
    b"x-http-method-override",
    b"x-method-override",
}


_IDS = (uuid.uuid4().hex[:20], itertools.count())


def new_id() -> str:
    """A globally unique id; takes a tenth of the time of a UUID."""
    return f"{_IDS[0]}{next(_IDS[1]):012x}"


HEADERS = ByName[tuple[bool, bytes | None]](
    lambda name: (name not in NOT_PASSED, name if name in OWN or name == ENCODING else None)
)
"""Whether a header is forwarded, and as what it is read here."""


@dataclass(slots=True)
class CallRequest:
    """A model call as its client sent it."""

    path: bytes
    kind: str
    headers: Headers
    body: dict[str, Any]
    raw: bytes
    program: str
    is_anonymous: bool
    call_id: str
    cell: str
    step: int | None
    """As the client numbers it; the gateway numbers the calls of clients that do not."""
    role: str
    keeps_messages: bool
    """Whether the client records the conversation itself, in the order of its prompts."""
    model: str
    stream: bool
    spans: list[dict[str, int]] | None = None
    """Which of the client's recorded messages form the prompt; None if all of them do."""
    has_call_id: bool = False
    is_auxiliary: bool = False
    """Whether its messages are recorded beside those of its program: an expert's, a judge's."""
    added: dict[str, Any] = field(default_factory=dict)
    """The fields of `raw` that the gateway added, or set otherwise than `body`."""
    usage_added: bool = False

    def body_for(self, served_name: str) -> bytes:
        """Return the body for an endpoint that has this name for the model."""
        if served_name == self.model:
            return self.raw
        fields = {**self.body, **self.added}
        return with_model(self.raw, self.model, served_name, fields)

    def add(self, fields: dict[str, Any]) -> None:
        """Add fields to the body for the engine, overriding the client's own."""
        self.added |= fields
        if self.added.keys() & self.body.keys():
            self.raw = orjson.dumps({**self.body, **self.added})
        else:
            self.raw = with_fields(self.raw, fields)

    @property
    def output_tokens(self) -> int:
        """Return the most tokens that the call may produce."""
        if self.kind == "embeddings":
            return 0
        for name in OUTPUT_FIELDS:
            value = self.body.get(name)
            if isinstance(value, int) and value >= 0:
                return min(value, MOST_OUTPUT)
        return UNLIMITED


def read_request(exchange: Exchange, route: ModelRoute, key: Key, cell: str) -> CallRequest:
    """Parse the call in a POST, for the running cell. Raises BadRequest, AccessDenied."""
    headers: Headers = []
    own: dict[bytes, bytes] = {}
    for header in exchange.headers:
        passes, read_as = HEADERS[header[0]]
        if read_as is not None:
            if read_as == ENCODING and header[1].lower() != IDENTITY:
                raise BadRequest("compressed bodies are not supported; send the body uncompressed")
            own[read_as] = header[1]
        if passes:
            headers.append(header)
    raw = exchange.body
    body = read_object(exchange)
    in_body = body.pop("program_id", None)
    if in_body is not None:
        raw = orjson.dumps(body)
    named = route.program
    if named is None:
        own_name = own.get(b"x-program-id")
        named = own_name.decode("latin-1") if own_name else name_of(in_body or body.get("job_id"))
    call_id = own[b"x-call-id"].decode("latin-1") if b"x-call-id" in own else new_id()
    program = named or f"anonymous-{call_id}"
    role = own[b"x-tutti-role"].decode("latin-1") if b"x-tutti-role" in own else ROLE
    model = name_of(body.get("model"))
    its_cell = own[b"x-tutti-cell"].decode("latin-1") if b"x-tutti-cell" in own else cell
    check_ids(program, call_id, role, model, its_cell)
    if its_cell != cell and key.has_token and not key.is_admin:
        raise AccessDenied(403, f"X-Tutti-Cell: {its_cell!r} is not the running cell")
    step, messages = own.get(b"x-tutti-step"), own.get(b"x-tutti-messages")
    if step is not None and (not step.isdigit() or len(step) > MAX_STEP_DIGITS):
        raise BadRequest(f"X-Tutti-Step must be a whole number, not {step.decode('latin-1')!r}")
    return CallRequest(
        path=route.path,
        kind=route.kind,
        headers=headers,
        body=body,
        raw=raw,
        program=program,
        is_anonymous=not named,
        call_id=call_id,
        cell=its_cell,
        step=None if step is None else int(step),
        role=role,
        keeps_messages=messages == b"kept",
        is_auxiliary=messages == b"auxiliary",
        model=model,
        has_call_id=b"x-call-id" in own,
        stream=body.get("stream") is True,
        spans=_spans(own[b"x-tutti-spans"]) if b"x-tutti-spans" in own else None,
    )


def name_of(value: Any) -> str:
    """Return a name in a body; empty if there is none. Raises BadRequest."""
    if isinstance(value, list | dict):  # may be long in text
        raise BadRequest("a model, program_id or job_id must be text")
    return str(value) if value else ""


def check_ids(*ids: str) -> None:
    """Check names that become ids in the store. Raises BadRequest."""
    for each in ids:
        if len(each) > MAX_NAME:
            raise BadRequest(f"ids, roles and model names may have at most {MAX_NAME} characters")
        if "\0" in each:  # no text of PostgreSQL has it
            raise BadRequest(f"{each!r}: ids, roles and model names cannot have a NUL character")


def _spans(header: bytes) -> list[dict[str, int]]:
    """Parse ``0-1,6-9``: positions of messages, ends inclusive."""
    if not SPANS.fullmatch(header):
        raise BadRequest("X-Tutti-Spans must be like 0-1,6-9")
    pairs = [span.split(b"-") for span in header.split(b",")]
    return [{"first": int(first), "last": int(last)} for first, last in pairs]


def with_fields(raw: bytes, fields: dict[str, Any]) -> bytes:
    """The body with added fields, without serialising all of it again."""
    trimmed = raw.rstrip()
    assert trimmed.endswith(b"}"), "a JSON object"
    more = orjson.dumps(fields)[1:]
    inside = trimmed[:-1].rstrip()
    return inside + (more if inside.endswith(b"{") else b"," + more)


def with_model(raw: bytes, model: str, name: str, fields: dict[str, Any] | None = None) -> bytes:
    """Return the body with `name` in place of its `model`; most bodies are not serialised again for
    it. `fields`: the body, if it was parsed before."""
    if raw.count(b'"model"') == 1:  # else one may be in a tool's schema
        for mark in (b'"model":', b'"model": '):
            if (old := mark + orjson.dumps(model)) in raw:
                return raw.replace(old, mark + orjson.dumps(name), 1)
    return orjson.dumps({**(orjson.loads(raw) if fields is None else fields), "model": name})


def ask_for_usage(request: CallRequest) -> None:
    """Make the engine send usage at the end of a stream, if the client did not ask for it."""
    if not request.stream or request.kind not in ("chat/completions", "completions"):
        return
    options = request.body.get("stream_options")
    given = options if isinstance(options, dict) else {}
    if not given.get("include_usage"):
        request.add({"stream_options": {**given, "include_usage": True}})
        request.usage_added = True


IDS_KEPT = 200_000
"""Half a minute of calls at the gateway's highest rate."""
ID_SLOTS = 2**18
"""Of each half's table, which is then at most two fifths full: 2 MB."""


class RecentIds:
    """Recently used call ids: a repeated id is refused, so that no two rows share it. Beyond
    `IDS_KEPT` ids the oldest half is dropped.

    The last ids are stored as hashes: two different ids collide with a probability of 10^-13.

    Hashes are in arrays and not in sets: small long-lived objects, created between those of calls,
    prevent the interpreter from returning memory.
    """

    def __init__(self) -> None:
        self._newer, self._older = _empty(), _empty()
        self._count = 0

    def take(self, identity: str) -> bool:
        """Add an id; return whether it is new."""
        key = hash(identity) or 1  # 0 is an empty slot
        slot = _slot(self._newer, key)
        if self._newer[slot] or self._older[_slot(self._older, key)]:
            return False
        if self._count >= IDS_KEPT // 2:
            self._older, self._newer = self._newer, _empty()
            self._count, slot = 0, key % ID_SLOTS
        self._newer[slot] = key
        self._count += 1
        return True


def _empty() -> "array[int]":
    return array("q", bytes(8 * ID_SLOTS))


def _slot(table: "array[int]", key: int) -> int:
    """Return the index of the key, or of the empty slot for it."""
    slot = key % ID_SLOTS
    while table[slot] not in (0, key):
        slot = (slot + 1) % ID_SLOTS
    return slot
