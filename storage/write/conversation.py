"""Stores growing prompts once: a conversation of n turns costs O(n) messages, not O(n²).

A gateway sees each call's whole prompt. `Conversation` recognises known messages: only new ones
become rows, and a call refers to its prompt by spans of positions. An agent that continues its
context has one span; one that edits its context (cut, summarised, branched) has several, and the
messages it kept are not stored again.

A client rarely sends an answer back byte for byte: it drops nulls, parses the arguments of tool
calls and serialises them again, strips text and wraps it in a list of parts, or writes tool calls
as text, as smolagents does: the answer stripped, a line ``Calling tools:``, and the calls in
Python's notation, in the order of their ids. An agent that writes code closes the code block and
adds a call that the model did not make. Messages with the same meaning are one row. A form of a
message is normalised once; later prompts look it up by the hash of its bytes.
"""

import ast
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import orjson

from tutti.storage.write.encode import storable

MARK = "Calling tools:\n"
CODE_END = "</code>"


def originals(text: str) -> Iterator[Mapping[str, Any]]:
    """Yield the answers that an assistant's text may restate, the likeliest first."""
    said, _, written = text.partition(MARK)
    if calls := _calls(written):
        said = said.removesuffix("\n")
        yield {"role": "assistant", "content": said, "tool_calls": calls}
        yield {"role": "assistant", "content": said}
        yield {"role": "assistant", "content": said.removesuffix(CODE_END)}


def _calls(written: str) -> list[Any]:
    """Return calls in Python's notation; none if the text is something else."""
    try:
        calls = ast.literal_eval(written)
    except (ValueError, SyntaxError, RecursionError, MemoryError):
        return []
    return calls if isinstance(calls, list) and set(map(type, calls)) == {dict} else []


Message = Mapping[str, Any]

PLAIN = {"role", "content"}
"""The keys of a message without tools and reasoning."""
TEXT_PARTS = frozenset(("text", "input_text", "output_text", "refusal"))
MAX_EXACT = 2**53  # whole numbers below it are the same as an integer and as a float
OWN_BYTES, MESSAGE_BYTES, LAST_BYTES, HASH_BYTES, KEPT_BYTES = 1000, 140, 16, 50, 1000
"""Memory of a conversation, of each of its messages, of a message of its last prompt, of a form or
an answered prompt, and of a context that a server keeps; measured."""
MAX_CONTEXTS = 1000
"""Contexts that a server keeps, remembered per attempt: clients continue one of the last."""


@dataclass(frozen=True, slots=True)
class KeptContext:
    """How a call refers to a context that the server keeps: in the Responses API, or as a thread of
    Anthropic's messages."""

    after: str | None = None
    """The context that the prompt continues."""
    names: tuple[str, ...] = ()
    """What later calls call this one's prompt and answer."""
    lead: int = 0
    """The first messages of the prompt that stand before the kept context and are not kept."""


class Conversation:
    """The messages of one attempt, in the order they were first seen. Invariant: for every call
    observed, the rows at its spans' positions are its prompt."""

    def __init__(self, attempt_id: str, first: int = 0) -> None:
        """`first` is the position of the first message: after those stored before."""
        self.attempt_id = attempt_id
        self._count = first
        self.restart()

    def restart(self) -> None:
        """Drop all messages, so that they are new when they come again."""
        self._first_places: dict[int, int] = {}
        self._later_places: dict[int, list[int]] = {}
        """The positions of each key. Most have one: no list for it, which would take more memory
        than all else and be looked at by every collection of garbage."""
        self._keys: list[int] = []
        """The key of each position, from the first."""
        self._forms: dict[int, int] = {}
        """The key of each form in which a message came, by the hash of its bytes."""
        self._contexts: dict[str, tuple[list[dict[str, int]], int]] = {}
        self._answered: set[int] = set()
        """The hashes of the keys of prompts that had an answer and continued no other one."""
        self._asked = 0  # the length of the last prompt, if it had an answer
        # The last prompt with its answer: keys, positions, and the positions' spans.
        self._last: list[int] = []
        self._last_positions: list[int] = []
        self._last_spans: list[dict[str, int]] = []
        self._first = self._count

    @property
    def size(self) -> int:
        """Bytes of memory, as an estimate."""
        hashes = len(self._forms) + len(self._answered)
        messages = MESSAGE_BYTES * len(self._keys) + LAST_BYTES * len(self._last)
        return OWN_BYTES + messages + HASH_BYTES * hashes + KEPT_BYTES * len(self._contexts)

    def observe(
        self,
        call_id: str,
        prompt: Sequence[Message],
        answer: Message | None,
        kept: KeptContext | None = None,
        repeats: bool = False,
    ) -> tuple[list[dict[str, Any]], list[dict[str, int]]]:
        """Record a call with its prompt and answer, as OpenAI messages.

        Returns new rows of `messages` and the call's `prompt_spans`, positions inclusive. The
        answer is a row of its call; None if the call had none. `prompt` lacks the context that the
        server kept; the spans include it, if it is known. With `repeats`, an answered prompt that
        comes again counts as a new request: its messages after its last answer and its instructions
        are new rows.
        """
        seen = self._first_places
        keys = [
            key if (key := _plain_key(message)) in seen else self._key(message, key)
            for message in prompt
        ]
        known: list[int] = []
        lead = 0
        if kept is not None:
            known, lead = self._kept(kept), kept.lead
            keys[lead:lead] = [self._keys[position - self._first] for position in known]
            prompt = [*prompt[:lead], *[{}] * len(known), *prompt[lead:]]
        positions, fresh, same = self._place(keys, known, lead)
        rows = [self._row(prompt[place], positions[place], None) for place in fresh]
        grew = same == len(self._last_positions)
        begun = self._last_spans if grew else spans_of(positions[:same])
        spans = spans_of(positions[same:], begun)
        if repeats and not rows and kept is None and self._was_answered(keys):
            first = _first_said_again(prompt)
            positions[first:] = map(self._take, keys[first:])
            rows = [self._row(prompt[n], positions[n], None) for n in range(first, len(prompt))]
            spans = spans_of(positions)
        if answer is not None and not (grew and self._last):
            self._answered.add(hash(tuple(keys)))
        self._last, self._last_positions, self._last_spans = keys, positions, spans
        self._asked = 0 if answer is None else len(keys)
        if answer is not None:
            key = _plain_key(answer) or self._form_key(answer)
            position = self._take(key)
            rows.append(self._row(answer, position, call_id))
            keys.append(key)
            positions.append(position)
            self._last_spans = spans_of([position], spans)
        if kept is not None:
            self._keep(kept)
        return rows, spans

    def _was_answered(self, keys: list[int]) -> bool:
        """Whether a prompt of known messages had an answer: the last prompt or a restarted one."""
        return self._last[: self._asked] == keys or hash(tuple(keys)) in self._answered

    def _kept(self, kept: KeptContext) -> list[int]:
        """The positions of the context that a call continues; none if it is not known."""
        if kept.after is None or kept.after not in self._contexts:
            return []
        spans, lead = self._contexts[kept.after]
        return [p for span in spans for p in range(span["first"], span["last"] + 1)][lead:]

    def _keep(self, kept: KeptContext) -> None:
        for name in kept.names:
            self._contexts.pop(name, None)
            self._contexts[name] = self._last_spans, kept.lead
            if len(self._contexts) > MAX_CONTEXTS:
                del self._contexts[next(iter(self._contexts))]

    def _place(
        self, keys: list[int], known: Sequence[int], lead: int
    ) -> tuple[list[int], Sequence[int], int]:
        """The position of each message, the indices in the prompt of new ones, and the length of
        the common prefix with the last prompt. From index `lead` on the positions are `known`."""
        last, end = self._last, lead + len(known)
        if keys[: len(last)] == last and (not known or len(last) >= end):
            # The prompt only grew: the following messages are new, even if they repeat earlier
            # ones.
            same = len(last)
            positions = [*self._last_positions, *map(self._take, keys[same:])]
            return positions, range(same, len(keys)), same
        differ = (i for i, key in enumerate(last) if i == len(keys) or keys[i] != key)
        same = next(differ, len(last))
        same = min(same, lead) if known else same
        positions = self._last_positions[:same]
        used, fresh = {*positions, *known}, []
        seen: dict[int, Iterator[int]] = {}
        for place in range(same, len(keys)):
            if known and lead <= place < end:
                positions.append(known[place - lead])
                continue
            key = keys[place]
            if key not in seen:
                seen[key] = self._positions(key)
            position = next((p for p in seen[key] if p not in used), None)
            if position is None:
                fresh.append(place)
                position = self._take(key)
            used.add(position)
            positions.append(position)
        return positions, fresh, same

    def _positions(self, key: int) -> Iterator[int]:
        if (first := self._first_places.get(key)) is not None:
            yield first
            yield from self._later_places.get(key, ())

    def _take(self, key: int) -> int:
        position = self._count
        self._count += 1
        if self._first_places.setdefault(key, position) != position:
            self._later_places.setdefault(key, []).append(position)
        self._keys.append(key)
        return position

    def _key(self, message: Message, plain: int) -> int:
        """The key of a message of a prompt; `plain` is its plain key, not known yet, or 0."""
        return plain if plain and message["role"] != "assistant" else self._form_key(message)

    def _form_key(self, message: Message) -> int:
        try:
            form = hash(orjson.dumps(message))
        except TypeError:  # text that JSON cannot hold
            return _meaning(message)
        key = self._forms.get(form)
        if key is None:
            key = self._forms[form] = self._restated(message) or _meaning(message)
        return key

    def _restated(self, message: Message) -> int:
        """The key of the answer that a message restates as text; 0 if there is none."""
        content = _content(message)
        if message.get("role") != "assistant" or not isinstance(content, str):
            return 0
        keys = map(_meaning, originals(content) if MARK in content else ())
        return next((key for key in keys if key in self._first_places), 0)

    def _row(self, message: Message, position: int, call_id: str | None) -> dict[str, Any]:
        columns = storable(message_columns(message))
        columns["attempt_id"], columns["position"] = self.attempt_id, position
        columns["call_id"] = call_id
        return columns


def message_columns(message: Message) -> dict[str, Any]:
    """An OpenAI chat message in the columns of `messages`.

    Content is text; parts of content are JSON text, except where they are one text: a single part,
    or the parts of an answer.

    An invalid message (an engine may have accepted it) is stored as JSON text, so that its row is
    not lost.
    """
    if _plain_key(message):
        return {**message, "reasoning": None, "tool_calls": [], "tool_call_id": None, "name": None}
    calls, content = message.get("tool_calls"), message.get("content")
    if not content or not isinstance(content, str):
        content = _text(_content(message))
    given = calls if isinstance(calls, list | tuple) else [calls] if calls else []
    return {
        "role": _text(message.get("role")),
        "content": content,
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
    """Runs of consecutive positions, ends inclusive, after the spans `begun` of earlier ones."""
    spans = [dict(span) for span in begun]
    for position in positions:
        if spans and spans[-1]["last"] + 1 == position:
            spans[-1]["last"] = position
        else:
            spans.append({"first": position, "last": position})
    return spans


def _first_said_again(prompt: Sequence[Message]) -> int:
    """The index of the first message after the last answer and the instructions of a prompt."""
    before = ("assistant", "system", "developer")
    places = (place for place, said in enumerate(prompt, 1) if said.get("role") in before)
    return max(places, default=0)


def _text(value: Any) -> str | None:
    return value if value is None or isinstance(value, str) else orjson.dumps(value).decode()


def _content(message: Message) -> Any:
    """Return its text, or its parts if they are more than text."""
    said = message.get("content")
    if isinstance(said, list):
        texts = [_text_of_part(part) for part in said]
        if None not in texts and (len(texts) <= 1 or message.get("role") == "assistant"):
            said = "".join(text or "" for text in texts)
        else:
            said = [_without_marks(part) for part in said]
    return said or message.get("refusal") or said


def _text_of_part(part: Any) -> str | None:
    kind = part.get("type") if isinstance(part, Mapping) else None
    if not isinstance(kind, str) or kind not in TEXT_PARTS:
        return None
    text = part.get("text", part.get("refusal"))
    return text if isinstance(text, str) else None


def _without_marks(part: Any) -> Any:
    """Return a part without its mark for Anthropic's cache, which clients move at every call."""
    if isinstance(part, Mapping) and "cache_control" in part:
        return {name: value for name, value in part.items() if name != "cache_control"}
    return part


def _plain_key(message: Message) -> int:
    """The key of a message of role and text; 0 for any other."""
    role, content = message.get("role"), message.get("content")
    if len(message) != 2 or role.__class__ is not str or content.__class__ is not str or not role:
        return 0
    if role == "assistant":
        content = content.strip()
    return hash((role, content)) if content else 0


def _meaning(message: Message) -> int:
    """Return a key that is equal for messages with the same meaning, because an answer comes back
    in the client's form.

    No API distinguishes missing and empty content; servers and clients mix them. Space around an
    answer and the order of its tool calls, which have ids, are not compared, nor is reasoning,
    which most clients do not send back.

    64 bits of the interpreter's keyed hash: in a conversation of a thousand messages two collide
    with a probability of 10^-13. The whole prompt is hashed at every call, so a cryptographic
    digest would dominate the cost of recording a call.
    """
    columns = message_columns(message)
    if isinstance(parts := _content(message), list):
        columns["content"] = orjson.dumps(parts, option=orjson.OPT_SORT_KEYS).decode()
    for call in columns["tool_calls"]:
        call["arguments"] = _same_arguments(call["arguments"])
    columns["tool_calls"].sort(key=lambda call: call["id"] or "")
    if columns["role"] == "assistant" and columns["content"]:
        columns["content"] = columns["content"].strip()
    said = {name: value for name, value in columns.items() if value and name != "reasoning"}
    if said.keys() == PLAIN and isinstance(said["role"], str):
        return hash((said["role"], said["content"]))
    return hash(orjson.dumps(storable(said), option=orjson.OPT_SORT_KEYS))


def _same_arguments(text: str | None) -> str:
    """Arguments of a tool call in one serialisation for all clients; no arguments are ``{}``."""
    try:
        value = orjson.loads(text or "{}")
        orjson.dumps(value)  # refuses what is nested too deeply to walk
        return orjson.dumps(_whole_numbers(value), option=orjson.OPT_SORT_KEYS).decode()
    except (orjson.JSONDecodeError, orjson.JSONEncodeError):
        return text or ""


def _whole_numbers(value: Any) -> Any:
    """`value` with 1 for 1.0, as JavaScript writes it."""
    if isinstance(value, dict):
        return {name: _whole_numbers(each) for name, each in value.items()}
    if isinstance(value, list):
        return [_whole_numbers(each) for each in value]
    whole = isinstance(value, float) and value.is_integer() and abs(value) < MAX_EXACT
    return int(value) if whole else value
