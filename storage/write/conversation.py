"""Stores growing prompts once: a conversation of n turns costs O(n) messages, not O(n²).

A gateway sees each call's whole prompt. `Conversation` recognises messages that it has seen: only
new ones become rows, and a call refers to its prompt by spans of positions. An agent that continues
its context has one span; one that edits its context (cut, summarised, branched) has several, and
the messages it kept are not stored again.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import orjson

from tutti.storage.write.encode import storable

Message = Mapping[str, Any]

PLAIN = {"role", "content"}
"""The keys of a message without tools and reasoning."""


class Conversation:
    """The messages of one attempt, in the order they were first seen.

    Invariant: for every call observed, the rows at its spans' positions are its prompt.
    """

    def __init__(self, attempt_id: str, first: int = 0) -> None:
        """`first` is the position of the first message: after those stored before."""
        self.attempt_id = attempt_id
        self._positions: dict[int, list[int]] = {}
        # The last prompt with its answer: keys, positions, and the positions' spans.
        self._last: list[int] = []
        self._last_positions: list[int] = []
        self._last_spans: list[dict[str, int]] = []
        self._count = first

    def observe(
        self, call_id: str, prompt: Sequence[Message], answer: Message | None
    ) -> tuple[list[dict[str, Any]], list[dict[str, int]]]:
        """Record a call with its prompt and answer, as OpenAI messages.

        Returns new rows of `messages` and the call's `prompt_spans`, positions inclusive. The
        answer is a row of the call that made it; None if the call had none.
        """
        keys = [_key(message) for message in prompt]
        positions, fresh, same = self._place(keys)
        rows = [self._row(prompt[place], positions[place], None) for place in fresh]
        grew = same == len(self._last_positions)
        begun = self._last_spans if grew else spans_of(positions[:same])
        spans = spans_of(positions[same:], begun)
        self._last, self._last_positions, self._last_spans = keys, positions, spans
        if answer is not None:
            key = _key(answer)
            position = self._take(key)
            rows.append(self._row(answer, position, call_id))
            keys.append(key)
            positions.append(position)
            self._last_spans = spans_of([position], spans)
        return rows, spans

    def _place(self, keys: list[int]) -> tuple[list[int], Sequence[int], int]:
        """The position of each message, the indices in the prompt of new ones, and the length of
        the common prefix with the last prompt."""
        last = self._last
        if keys[: len(last)] == last:
            # The prompt only grew: the following messages are new, even if they repeat earlier
            # ones.
            same = len(last)
            positions = [*self._last_positions, *map(self._take, keys[same:])]
            return positions, range(same, len(keys)), same
        same = next(i for i, key in enumerate(last) if i == len(keys) or keys[i] != key)
        positions = self._last_positions[:same]
        used, fresh = set(positions), []
        for place in range(same, len(keys)):
            known = self._positions.get(keys[place], [])
            free = [position for position in known if position not in used]
            if not free:
                fresh.append(place)
            position = free[0] if free else self._take(keys[place])
            used.add(position)
            positions.append(position)
        return positions, fresh, same

    def _take(self, key: int) -> int:
        position = self._count
        self._count += 1
        self._positions.setdefault(key, []).append(position)
        return position

    def _row(self, message: Message, position: int, call_id: str | None) -> dict[str, Any]:
        columns = storable(message_columns(message))
        columns["attempt_id"], columns["position"] = self.attempt_id, position
        columns["call_id"] = call_id
        return columns


def message_columns(message: Message) -> dict[str, Any]:
    """An OpenAI chat message in the columns of `messages`; parts of content as JSON text.

    An invalid message (an engine may have accepted it) is stored as JSON text, so that its row is
    not lost.
    """
    calls = message.get("tool_calls")
    given = calls if isinstance(calls, list | tuple) else [calls] if calls else []
    return {
        "role": _text(message.get("role")),
        "content": _text(message.get("content")),
        "reasoning": _text(message.get("reasoning_content") or message.get("reasoning")),
        "tool_calls": [_tool_call(call) for call in given],
        "tool_call_id": _text(message.get("tool_call_id")),
        "name": _text(message.get("name")),
    }


def _tool_call(call: Any) -> dict[str, Any]:
    function = call.get("function") or {} if isinstance(call, Mapping) else None
    if not isinstance(call, Mapping) or not isinstance(function, Mapping):
        return {"id": None, "name": None, "arguments": _text(call)}
    arguments = _text(function.get("arguments"))
    name = _text(function.get("name"))
    return {"id": _text(call.get("id")), "name": name, "arguments": arguments}


def spans_of(
    positions: Iterable[int], begun: Sequence[Mapping[str, int]] = ()
) -> list[dict[str, int]]:
    """Runs of consecutive positions, ends inclusive; `begun` are the spans of the earlier
    positions."""
    spans = [dict(span) for span in begun]
    for position in positions:
        if spans and spans[-1]["last"] + 1 == position:
            spans[-1]["last"] = position
        else:
            spans.append({"first": position, "last": position})
    return spans


def _text(value: Any) -> str | None:
    return value if value is None or isinstance(value, str) else orjson.dumps(value).decode()


def _key(message: Message) -> int:
    """A key that is equal for messages with equal columns: an answer comes back as the client
    stored it.

    64 bits of the interpreter's keyed hash: in a conversation of a thousand messages two collide
    with a probability of 10^-13. The whole prompt is hashed at every call, so a cryptographic
    digest would dominate the cost of recording a call.
    """
    if len(message) == len(PLAIN):
        role, content = message.get("role"), message.get("content")
        if role and content and isinstance(role, str) and isinstance(content, str):
            return hash((role, content))
    # No API distinguishes missing and empty content; servers and clients mix them.
    said = {name: value for name, value in message_columns(message).items() if value}
    if said.keys() == PLAIN and isinstance(said["role"], str):
        return hash((said["role"], said["content"]))
    return hash(orjson.dumps(storable(said), option=orjson.OPT_SORT_KEYS))
