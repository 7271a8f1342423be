"""Stores the token ids of growing prompts once: a conversation of n tokens costs O(n), not O(n²).

A call's prompt is written as spans: references to positions of an earlier call's tokens (prompt,
then completion), or new ids. `read_prompts` turns them back into ids. `LastUsed` bounds the memory.
"""

import sys
from array import array
from collections import OrderedDict, deque
from collections.abc import Collection, Iterable, Mapping, Sequence
from threading import Lock
from typing import Any, Generic, Protocol, TypeVar


class Sized(Protocol):
    """An object with a known memory size."""

    @property
    def size(self) -> int:
        """Return the estimated size in bytes."""
        ...


Value = TypeVar("Value", bound=Sized)


class LastUsed(Generic[Value]):
    """The most recently used values, with at most `max_bytes` together; thread-safe."""

    def __init__(self, max_bytes: int) -> None:
        self._max_bytes, self._bytes = max_bytes, 0
        self._known: OrderedDict[str, tuple[Value, int]] = OrderedDict()
        self._lock = Lock()

    def get(self, name: str) -> Value | None:
        """The value of that name, if it is known."""
        found = self._known.get(name)
        return found[0] if found is not None else None

    def put(self, name: str, value: Value) -> None:
        """Enter a new or updated value as the most recent; the oldest ones beyond the limit are
        dropped, or `value` itself if it alone is larger."""
        size = value.size
        with self._lock:
            _, before = self._known.get(name, (None, 0))
            self._known[name] = value, size
            self._known.move_to_end(name)
            self._bytes += size - before
            while self._bytes > self._max_bytes:
                self._drop(next(iter(self._known)))

    def forget(self, name: str) -> None:
        """Drop a value that will not be used again, if it is known."""
        with self._lock:
            self._drop(name)

    def _drop(self, name: str) -> None:
        _, size = self._known.pop(name, (None, 0))
        self._bytes -= size


ID_BYTES = 4  # ids are 32 bits wide, as their column
BRANCHES = 8
"""Sequences remembered per program: agents whose sub-agents share one program alternate."""
PROBE_BYTES = 16 * ID_BYTES
"""A kept part of a cut context is looked for by its first 16 ids; shorter ones are stored again."""
MAX_BYTES = 256 * 2**20
"""Of all programs' remembered sequences; beyond it the program silent for longest is forgotten."""

Span = dict[str, Any]
"""`call_id`, `first`, `last` (inclusive) of a reference; `ids` of new ids; the others null."""


class TokenHistory:
    """The sequences of one program. Invariant: `read_prompts` of its calls gives their prompts."""

    def __init__(self) -> None:
        self._known: deque[tuple[str, bytes]] = deque(maxlen=BRANCHES)

    @property
    def size(self) -> int:
        return sum(len(known) for _, known in self._known)

    def observe(self, call_id: str, prompt: Sequence[int], completion: Sequence[int]) -> list[Span]:
        """Return the prompt's spans against earlier calls. Ids are from 0 to 2**31 - 1."""
        asked = array("i", prompt).tobytes()
        best, before, shared = "", b"", 0
        for name, known in reversed(self._known):
            if (same := _common(asked, known)) > shared:
                best, before, shared = name, known, same
        spans: list[Span] = []
        if shared:
            spans.append(_reference(best, 0, shared))
        if shared < len(before) and (kept := _continues(asked[shared:], before, shared)):
            spans.append(_reference(best, len(before) - kept, len(before)))
            shared += kept
        if shared < len(asked):
            spans.append(
                {"call_id": None, "first": None, "last": None, "ids": _ids(asked[shared:])}
            )
        said = asked + array("i", completion).tobytes()
        if best and said.startswith(before):  # what it continues is part of it
            self._known.remove((best, before))
        self._known.append((call_id, said))
        return spans


class TokenHistories:
    """The histories of the programs of one gateway; thread-safe. A program that was dropped is
    stored again in full from its next call on."""

    def __init__(self, max_bytes: int = MAX_BYTES) -> None:
        self._known = LastUsed[TokenHistory](max_bytes)

    def observe(
        self, program: str, call_id: str, prompt: Sequence[int], completion: Sequence[int]
    ) -> list[Span]:
        """The spans of a prompt of `program`, whose calls come in order."""
        history = self._known.get(program) or TokenHistory()
        spans = history.observe(call_id, prompt, completion)
        self._known.put(program, history)
        return spans

    def forget(self, program: str) -> None:
        """Drop a program that will make no more calls."""
        self._known.forget(program)


class BrokenSpans(ValueError):
    """A prompt refers to a call that is not among the calls given, or to positions it lacks."""


def read_prompts(
    calls: Iterable[Mapping[str, Any]], wanted: Collection[str] | None = None
) -> dict[str, list[int]]:
    """Return the prompt ids of each call, or of the `wanted` ones, by call id.

    `calls` are rows of one attempt's `calls` with `call_id`, `prompt_token_ids` and `token_ids`, in
    any order; those without recorded prompts are left out. Pass all of an attempt's calls, because
    a prompt may refer to a call of another role, or to a failed one. Raises BrokenSpans.
    """
    rows = {str(row["call_id"]): row for row in calls if row["prompt_token_ids"] is not None}
    prompts: dict[str, list[int]] = {}
    for call_id in rows if wanted is None else rows.keys() & wanted:
        path = [call_id]  # each refers to the one behind it; long dialogues are long chains
        while path:
            spans = rows[path[-1]]["prompt_token_ids"]
            needed = {span["call_id"] for span in spans} - {None} - prompts.keys()
            if lost := (needed - rows.keys()) | (needed.intersection(path)):
                raise BrokenSpans(f"calls.{path[-1]}.prompt_token_ids: leads to {min(lost)!r}")
            if needed:
                path.append(needed.pop())
            else:
                prompts[path[-1]] = _read(path[-1], rows, prompts)
                path.pop()
    return prompts


def _read(
    call_id: str, rows: Mapping[str, Mapping[str, Any]], prompts: Mapping[str, list[int]]
) -> list[int]:
    ids: list[int] = []
    for span in rows[call_id]["prompt_token_ids"]:
        if span["call_id"] is None:
            ids += span["ids"]
            continue
        earlier = prompts[span["call_id"]] + list(rows[span["call_id"]]["token_ids"] or ())
        if not 0 <= span["first"] <= span["last"] < len(earlier):
            where = f"{span['first']} to {span['last']} of {span['call_id']!r}"
            raise BrokenSpans(
                f"calls.{call_id}.prompt_token_ids: {where}, which has {len(earlier)}"
            )
        ids += earlier[span["first"] : span["last"] + 1]
    return ids


def _common(one: bytes, other: bytes) -> int:
    """Bytes of the longest common start, in whole ids."""
    most = min(len(one), len(other))
    if one[:most] == other[:most]:
        return most
    low, high = 0, most // ID_BYTES  # equal up to `low` ids, different within `high`
    while high - low > 1:
        middle = (low + high) // 2
        start, end = low * ID_BYTES, middle * ID_BYTES
        low, high = (middle, high) if one[start:end] == other[start:end] else (low, middle)
    return low * ID_BYTES


def _continues(rest: bytes, before: bytes, cut: int) -> int:
    """Bytes at the end of `before`, after `cut`, with which `rest` begins; 0 for none."""
    probe = rest[:PROBE_BYTES]
    if len(probe) < PROBE_BYTES:
        return 0
    at = before.find(probe, cut)
    while at >= 0:
        if at % ID_BYTES == 0 and rest.startswith(before[at:]):
            return len(before) - at
        at = before.find(probe, at + 1)
    return 0


def _reference(call_id: str, start: int, end: int) -> Span:
    """Return a span; `start` and `end` are in bytes."""
    first, last = start // ID_BYTES, end // ID_BYTES - 1
    return {"call_id": call_id, "first": first, "last": last, "ids": None}


def _ids(data: bytes) -> list[int]:
    made = array("i")
    assert made.itemsize == ID_BYTES, f"ids of {made.itemsize} bytes on {sys.platform}"
    made.frombytes(data)
    return made.tolist()
