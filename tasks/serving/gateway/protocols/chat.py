"""OpenAI's chat: messages unchanged, answers assembled from choices; the base of all answers."""

from collections.abc import Mapping
from typing import Any


class Answer:
    """The message of an answer, assembled from its JSON or its events."""

    token_ids: list[int] | None = None
    logprobs: list[float | None] | None = None
    prompt_token_ids: list[int] | None = None
    response_id: str | None = None
    """The name under which the server keeps it, if it does."""

    def read(self, said: Mapping[str, Any]) -> None:
        raise NotImplementedError

    def message(self) -> dict[str, Any] | None:
        """The answer so far as a chat message; None if it is empty."""
        raise NotImplementedError


class Pieces:
    """Texts that arrive in pieces, by their positions in an answer."""

    def __init__(self) -> None:
        self._pieces: dict[tuple[Any, ...], list[str]] = {}

    def add(self, piece: Any, *place: Any) -> None:
        """Add a piece; anything but text is ignored."""
        if isinstance(piece, str):
            self._pieces.setdefault(place, []).append(piece)

    def text(self, *place: Any) -> str:
        """Return the text at a position; empty if there is none."""
        return "".join(self._pieces.get(place, ()))

    def places(self) -> list[tuple[Any, ...]]:
        """Return the positions that have text, in order of arrival."""
        return list(self._pieces)


def index_of(event: Mapping[str, Any], name: str) -> int:
    """Return a position in an answer; 0 if the event has none."""
    index = event.get(name)
    return index if isinstance(index, int) else 0


MAX_TOKEN_ID = 2**31  # the width of the column
TEXTS = ("content", "refusal", "reasoning_content", "reasoning")


def read_messages(body: Mapping[str, Any]) -> list[dict[str, Any]] | None:
    messages = body.get("messages")
    if not isinstance(messages, list):
        return None
    return messages if set(map(type, messages)) <= {dict} else None


class AnswerMessage(Answer):
    """The first choice of an answer, assembled from its message or its streamed deltas."""

    def __init__(self) -> None:
        self._texts: dict[str, list[str]] = {}
        self._calls: dict[int, dict[str, Any]] = {}

    def read(self, said: Mapping[str, Any]) -> None:
        if (ids := _token_ids(said.get("prompt_token_ids"))) is not None:
            self.prompt_token_ids = ids  # of a stream the first event has them
        choices = said.get("choices")
        for choice in choices if isinstance(choices, list) else []:
            if isinstance(choice, dict):
                self.take(choice)

    def take(self, choice: Mapping[str, Any]) -> None:
        """Add a choice of a complete answer or of one event."""
        if choice.get("index", 0) != 0:
            return
        self._take_tokens(choice)
        part = choice.get("message") or choice.get("delta")
        if not isinstance(part, dict):
            return
        for name in TEXTS:
            if isinstance(text := part.get(name), str):
                self._texts.setdefault(name, []).append(text)
        calls = part.get("tool_calls")
        for place, call in enumerate(calls if isinstance(calls, list) else []):
            if isinstance(call, dict):
                index = call.get("index")
                self._take_call(call, index if isinstance(index, int) else place)

    def message(self) -> dict[str, Any] | None:
        """The answer so far as a chat message; None if it is empty."""
        if not self._texts and not self._calls:
            return None
        texts = {name: "".join(pieces) for name, pieces in self._texts.items()}
        calls = [self._calls[index] for index in sorted(self._calls)]
        return {"role": "assistant", **texts} | ({"tool_calls": calls} if calls else {})

    def _take_tokens(self, choice: Mapping[str, Any]) -> None:
        if (ids := _token_ids(choice.get("token_ids"))) is not None:
            self.token_ids = [*(self.token_ids or []), *ids]
        logprobs = choice.get("logprobs")
        content = logprobs.get("content") if isinstance(logprobs, dict) else None
        if isinstance(content, list):
            said = [each.get("logprob") if isinstance(each, dict) else None for each in content]
            self.logprobs = [*(self.logprobs or []), *map(_probability, said)]

    def _take_call(self, call: Mapping[str, Any], index: int) -> None:
        known = self._calls.setdefault(
            index, {"id": None, "type": "function", "function": {"name": "", "arguments": ""}}
        )
        known["id"] = call["id"] if isinstance(call.get("id"), str) else known["id"]
        function = call.get("function")
        for name in ("name", "arguments"):
            piece = function.get(name) if isinstance(function, dict) else None
            known["function"][name] += piece if isinstance(piece, str) else ""


def _token_ids(value: Any) -> list[int] | None:
    if not isinstance(value, list):
        return None
    return value if all(type(x) is int and 0 <= x < MAX_TOKEN_ID for x in value) else None


def _probability(value: Any) -> float | None:
    return float(value) if isinstance(value, int | float) else None
