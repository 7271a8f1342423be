"""Forwarding a stream of events to the client without the fields that only the gateway requested.

In: pieces of any size. Out: pieces to forward. The work for a piece does not depend on how much of
an event came before it. Token ids and log probabilities that the gateway requested are removed: a
client gets the answer that it would get without the gateway; fields that it requested itself stay.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import orjson

from tutti.tasks.serving.gateway.calls.record import ReportedUsage, usage_only
from tutti.tasks.serving.gateway.calls.request import CallRequest

TOKEN_FIELDS = {"return_token_ids": True, "logprobs": True}  # vLLM's words
TOKEN_MARKS = (b"token_ids", b'"logprobs"')
EMPTY: tuple[Any, ...] = (None, "", [])


def ask_for_tokens(request: CallRequest) -> dict[str, Any]:
    """Make the engine send token ids and log probabilities; return the fields added for it."""
    body = request.body
    added = {name: value for name, value in TOKEN_FIELDS.items() if not body.get(name)}
    if added:
        request.add(added)
    return added


def without_tokens(answer: Mapping[str, Any], added: Iterable[str]) -> dict[str, Any]:
    """Return an answer, or an event, without the fields that only the gateway requested."""
    shown, added = dict(answer), frozenset(added)
    given = answer.get("choices")
    if not isinstance(given, list):
        return shown
    choices = [dict(c) if isinstance(c, dict) else c for c in given]
    for choice in choices:
        if isinstance(choice, dict) and "logprobs" in added and "logprobs" in choice:
            choice["logprobs"] = None  # as engines that are not asked write it
        if isinstance(choice, dict) and "return_token_ids" in added:
            choice.pop("token_ids", None)
    if "return_token_ids" in added:
        shown.pop("prompt_token_ids", None)
    return shown | {"choices": choices}


def _without_token_lines(event: bytes, added: frozenset[str]) -> bytes:
    """Return an event of a stream for the client; b"" if it has nothing else."""
    if not any(mark in event for mark in TOKEN_MARKS):
        return event
    lines = [_line(line, added) for line in event.split(b"\n")]
    return b"" if None in lines else b"\n".join(line for line in lines if line is not None)


def _line(line: bytes, added: frozenset[str]) -> bytes | None:
    if not line.startswith(b"data:"):
        return line
    try:
        said = orjson.loads(line[5:])
    except orjson.JSONDecodeError:
        return line
    if not isinstance(said, dict) or not isinstance(said.get("choices"), list):
        return line
    shown = without_tokens(said, added)
    return None if _is_hollow(shown) else b"data: " + orjson.dumps(shown)


def _is_hollow(event: Mapping[str, Any]) -> bool:
    """Whether it has choices, and all are empty: engines send such events only for their token
    ids."""
    if event.get("usage") or not event["choices"]:
        return False
    for choice in event["choices"]:
        if not isinstance(choice, dict) or choice.get("finish_reason") is not None:
            return False
        delta = choice.get("delta")
        if not isinstance(delta, dict) or choice.get("logprobs") is not None:
            return False
        if any(value not in EMPTY for value in delta.values()):
            return False
    return True


EVENT_ENDS = (b"\n\n", b"\r\n\r\n")
BETWEEN = re.compile(rb"((?:\r?\n){2,})")
EDGE_BYTES = 3  # a piece may end within an event's end mark
MAX_EVENT_BYTES = 4 * 2**20
"""No engine sends as much in one event; without a bound, an endless event would be stored whole."""
MAX_STREAM_BYTES = 64 * 2**20
PIECE_BYTES = 64  # memory overhead of a piece, beside its bytes
USAGE_MARK = (b'"usage"',)
USAGE_MARKS = (b'"usage"', b"_reason", b'"error"')  # text in an event that the record needs
LAST_PIECES, END_BYTES, START_BYTES = 4, 2**20, 2**14
LAST_LINES = 8192  # of the end of a stream; read in 12 ms at the most


class StreamTooLong(Exception):
    """An event or the stream exceeds its size limit."""


class StreamedAnswer:
    """A streamed answer: its forwarded part, and the usage that it reports."""

    def __init__(self, pieces: list[bytes], strip: bool, added: Iterable[str] = ()) -> None:
        """`pieces` stores the stream as received; `strip`: leave the usage event out; `added`: the
        token fields that the gateway requested."""
        self._pieces, self._bytes = pieces, 0
        self._filter = _filter(strip, frozenset(added))

    def take(self, data: bytes) -> bytes:
        """Take a piece; return what can be forwarded now. Raises StreamTooLong."""
        self._pieces.append(data)
        self._bytes += len(data) + PIECE_BYTES
        if self._bytes > MAX_STREAM_BYTES:
            raise StreamTooLong(f"the stream is larger than {MAX_STREAM_BYTES} bytes")
        return data if self._filter is None else self._filter.take(data)

    def rest(self) -> bytes:
        return b"" if self._filter is None else self._filter.rest()

    def read_usage(self, reported: ReportedUsage) -> None:
        """Read usage and finish reason. Most engines send both last; Anthropic's send the prompt's
        tokens in the first event."""
        pieces = self._pieces
        if len(pieces) > LAST_PIECES:
            _read_lines(b"".join(pieces[-LAST_PIECES:]), reported)
            if reported.prompt is not None and reported.finish_reason is not None:
                return
        if self._bytes > END_BYTES:
            _read_lines(b"".join(_of_size(pieces, START_BYTES)), reported)
        last = list(_of_size(reversed(pieces), END_BYTES))
        _read_lines(b"".join(reversed(last)), reported)


class EventFilter:
    """Changes events, or leaves them out; holds back an incomplete event."""

    def __init__(self, marks: Sequence[bytes], change: Callable[[bytes], bytes]) -> None:
        """Events with one of `marks` are changed; b"" leaves one out."""
        self._marks, self._change = marks, change
        self._held: list[bytes] = []
        self._held_bytes = 0
        self._edge = b""

    def take(self, data: bytes) -> bytes:
        """Take a piece; return what can be forwarded now. Raises StreamTooLong."""
        if not self._held and data.endswith(EVENT_ENDS) and not self._has_mark(data):
            return data
        seen = self._edge + data
        end = max(seen.rfind(mark) + len(mark) if mark in seen else 0 for mark in EVENT_ENDS)
        cut = end - len(self._edge)
        if cut <= 0:
            self._hold(data, seen)
            return b""
        whole, rest = b"".join((*self._held, data[:cut])), data[cut:]
        self._held, self._held_bytes, self._edge = [], 0, b""
        if rest:
            self._hold(rest, rest)
        return self._changed(whole)

    def rest(self) -> bytes:
        rest, self._held = b"".join(self._held), []
        return self._change(rest)

    def _has_mark(self, data: bytes) -> bool:
        return any(mark in data for mark in self._marks)

    def _changed(self, events: bytes) -> bytes:
        if not self._has_mark(events):
            return events
        pieces = BETWEEN.split(events)
        pairs = zip(pieces[::2], pieces[1::2], strict=False)
        kept = ((self._change(event), mark) for event, mark in pairs)
        return b"".join(event + mark for event, mark in kept if event)

    def _hold(self, data: bytes, seen: bytes) -> None:
        self._held.append(data)
        self._held_bytes += len(data)
        self._edge = seen[-EDGE_BYTES:]
        if self._held_bytes > MAX_EVENT_BYTES:
            raise StreamTooLong(f"an event is larger than {MAX_EVENT_BYTES} bytes")


def _of_size(pieces: Iterable[bytes], most_bytes: int) -> Iterator[bytes]:
    """Pieces from the first on, of about so many bytes."""
    size = 0
    for piece in pieces:
        yield piece
        if (size := size + len(piece)) >= most_bytes:
            return


def _read_lines(events: bytes, reported: ReportedUsage) -> None:
    for line in events.rsplit(b"\n", LAST_LINES)[-LAST_LINES:]:
        if line.startswith(b"data:") and any(word in line for word in USAGE_MARKS):
            reported.read(line[5:])


def _filter(strip: bool, added: frozenset[str]) -> EventFilter | None:
    marks = (*USAGE_MARK * strip, *(TOKEN_MARKS if added else ()))

    def change(event: bytes) -> bytes:
        if strip and usage_only(event):
            return b""
        return _without_token_lines(event, added) if added else event

    return EventFilter(marks, change) if marks else None
