"""Messages as rows of the store."""

from collections.abc import Iterable
from typing import Any

from tutti.storage import Conversation


def rows_of(messages: Iterable[dict[str, Any] | None] | None) -> list[dict[str, Any]]:
    given = [message for message in messages or () if message is not None]
    rows, _ = Conversation("p").observe("c", given, None)
    return rows
