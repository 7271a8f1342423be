"""Prompts that grow, stored once: a conversation of n turns costs O(n) messages, not O(n²).

A gateway sees each call's whole prompt. `Conversation` knows what of it was seen before: only new
messages become rows, and a call names its prompt by spans of positions. An agent that goes on where
it was gives one span; one that edits its context (cut, summarised, branched) gives several, and
what it kept is still not stored again.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import orjson

from tutti.storage.write.encode import storable

Message = Mapping[str, Any]

PLAIN = {"role", "content"}
"""What a message without tools and reasoning says."""


class Conversation:
    """The messages of one attempt, in the order they were first seen.

    Invariant: for every call observed, the rows at its spans' positions are its prompt.
    """

    def __init__(self, attempt_id: str, first: int = 0) -> None:
        """`first` is the position of the first message: later than those stored before."""
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
        """A call with its prompt and answer, as OpenAI messages.

        Returns new rows of `messages` and the call's `prompt_spans`, positions inclusive. The
        answer is a row of the call that gave it; None where the call gave none.
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
        """Each message's position, the places in the prompt of those that are new, and how many
        the prompt has in common with the last one's beginning."""
        last = self._last
        if keys[: len(last)] == last:
            # It only grew: what follows was said now, even where it repeats earlier words.
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

    What is no message by the rules (an engine may have taken it all the same) is kept as the JSON
    text of what it says: its row is not lost.
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
    """Runs of consecutive positions, ends inclusive; `begun` are those of the positions before."""
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
    """Equal for messages whose columns are equal: an answer comes back as the client stored it.

    64 bits of the interpreter's keyed hash: of a conversation with a thousand messages two have
    the same by chance once in 10^13. The whole prompt is keyed at every call, so a cryptographic
    digest would be most of what recording a call costs.
    """
    if len(message) == len(PLAIN):
        role, content = message.get("role"), message.get("content")
        if role and content and isinstance(role, str) and isinstance(content, str):
            return hash((role, content))
    # No content and empty content are told apart by no API; servers and clients mix them.
    said = {name: value for name, value in message_columns(message).items() if value}
    if said.keys() == PLAIN and isinstance(said["role"], str):
        return hash((said["role"], said["content"]))
    return hash(orjson.dumps(storable(said), option=orjson.OPT_SORT_KEYS))
