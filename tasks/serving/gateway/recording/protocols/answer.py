"""What every protocol's answer has in common."""

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
        """Add a complete answer or one event."""
        raise NotImplementedError

    def message(self) -> dict[str, Any] | None:
        """The answer so far as a chat message; None if nothing came."""
        raise NotImplementedError


class Pieces:
    """Texts that come in pieces, by their places in an answer."""

    def __init__(self) -> None:
        self._pieces: dict[tuple[Any, ...], list[str]] = {}

    def add(self, piece: Any, *place: Any) -> None:
        """Add a piece; anything but text is left out."""
        if isinstance(piece, str):
            self._pieces.setdefault(place, []).append(piece)

    def text(self, *place: Any) -> str:
        """The text at a place; empty if none came."""
        return "".join(self._pieces.get(place, ()))

    def places(self) -> list[tuple[Any, ...]]:
        """Where text came, in order of arrival."""
        return list(self._pieces)


def index_of(event: Mapping[str, Any], name: str) -> int:
    """A place in an answer; 0 if the event has none."""
    index = event.get(name)
    return index if isinstance(index, int) else 0
