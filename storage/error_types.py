"""Kinds of errors: `error_type` of `attempts`, short and stable, to group by in SQL.

The text is in `error_message`. An import keeps the foreign harness's own kind, such as the name of
its exception's class. Parts from before version 4 of the schema have the text in `error_type`;
there readers, and `tutti compact`, show OTHER with the text as the message.
"""

import re
from enum import StrEnum
from typing import Any

MOST_MESSAGE = 200
"""Characters of an error's message that are kept."""


class ErrorType(StrEnum):
    """What kinds tutti itself writes, besides `http_<status>` (`http_error`)."""

    CONNECTION = "connection"
    """The gateway or the endpoint gave no answer."""
    INVALID_REPLY = "invalid_reply"
    """The endpoint's answer holds no message."""
    CONTEXT_EXCEEDED = "context_exceeded"
    """The model's context is full."""
    PARTNER_CONTEXT_EXCEEDED = "partner_context_exceeded"
    """The context of the model that plays the user is full."""
    TOOL_CONTEXT_EXCEEDED = "tool_context_exceeded"
    """The context of a model that a tool asked is full."""
    TOOL_UNAVAILABLE = "tool_unavailable"
    """A tool's service does not answer."""
    COMMAND_FAILED = "command_failed"
    """The command of somebody's harness ended with another code than 0."""
    INVALID_SCORE = "invalid_score"
    """The harness's own score is no score."""
    SCORER_FAILED = "scorer_failed"
    """The scorer came to no score."""
    WORKER_LOST = "worker_lost"
    """The process that ran the attempt ended before it did."""
    OTHER = "other"
    """None that is known; the message says more."""


KIND_PATTERN = r"^[A-Za-z0-9_.]{1,64}$"
"""What is a kind and no message. Python, DuckDB and Arrow read it alike."""
_CLASS = re.compile(r"([A-Za-z_][\w.]{0,63})(?:[(:]|$)")


MESSAGES_UNTIL = 3
"""The last version of the schema whose `error_type` of `attempts` may hold a message."""
READ_BEFORE = f"""
* replace (if(error_type is null or regexp_matches(error_type, '{KIND_PATTERN}'),
              error_type, '{ErrorType.OTHER}') as error_type),
if(regexp_matches(error_type, '{KIND_PATTERN}'), null, error_type) as error_message
"""
"""What to select of attempts of those versions."""


def http_error(status: int) -> str:
    """The kind of a call that was refused with this HTTP status."""
    return f"http_{status}"


def foreign_error(text: str | None) -> dict[str, Any]:
    """Columns for the text of a foreign harness's error; none for no text.

    The kind is the exception's class, where the text begins with one (`Name: …`, `Name(…)`).
    """
    if not text:
        return {}
    found = _CLASS.match(text)
    kind = found[1] if found is not None else ErrorType.OTHER
    return {"error_type": str(kind), "error_message": text}
