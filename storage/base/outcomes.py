"""Outcomes of attempts: which statuses count, kinds of errors, and costs that may be unknown.

`infra_error` and `cancelled` never count; `scorer_error` counts once the attempt has a score: the
view `counted`. `error_type` is a short kind to group by; an import has the foreign harness's own.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

COUNTED = ("ok", "limit", "model_error")
SCORABLE = (*COUNTED, "scorer_error")
"""Statuses of attempts that a scorer may score again."""


MOST_MESSAGE = 200
"""Characters of an error message that are stored."""


class ErrorType(StrEnum):
    """The kinds of errors that tutti itself writes, besides `http_<status>` (`http_error`)."""

    CONNECTION = "connection"
    """The gateway or the endpoint gave no answer."""
    INVALID_REPLY = "invalid_reply"
    """The endpoint's answer has no message."""
    CONTEXT_EXCEEDED = "context_exceeded"
    """The model's context is full."""
    PARTNER_CONTEXT_EXCEEDED = "partner_context_exceeded"
    """The context of the model that plays the user is full."""
    TOOL_CONTEXT_EXCEEDED = "tool_context_exceeded"
    """The context of a model that a tool called is full."""
    TOOL_UNAVAILABLE = "tool_unavailable"
    """A tool's service does not answer."""
    COMMAND_FAILED = "command_failed"
    """The command of an external harness exited with a code other than 0."""
    INVALID_SCORE = "invalid_score"
    """The harness's own score is invalid."""
    SCORER_FAILED = "scorer_failed"
    """The scorer failed to produce a score."""
    WORKER_LOST = "worker_lost"
    """The process that ran the attempt ended before it did."""
    OTHER = "other"
    """Another kind; the message has the details."""


_CLASS = re.compile(r"([A-Za-z_][\w.]{0,63})(?:[(:]|$)")


def http_error(status: int) -> str:
    """Return the kind of error of a call that failed with this HTTP status."""
    return f"http_{status}"


def foreign_error(text: str | None) -> dict[str, Any]:
    """Columns for the text of an external harness's error; empty for no text. The kind is the
    exception's class, if the text begins with one (`Name: …`, `Name(…)`)."""
    if not text:
        return {}
    found = _CLASS.match(text)
    kind = found[1] if found is not None else ErrorType.OTHER
    return {"error_type": str(kind), "error_message": text}


@dataclass
class Cost:
    """A sum in USD of which parts may be unknown."""

    known_usd: float = 0.0
    """The sum of the parts that are known; a lower bound."""
    unknown: int = 0
    """Number of parts whose cost is unknown."""

    @classmethod
    def of(cls, parts: Iterable[float | None]) -> "Cost":
        total = cls()
        for usd in parts:
            total.add(usd)
        return total

    def add(self, usd: float | None) -> None:
        """Add a part; None if its cost is unknown."""
        if usd is None:
            self.unknown += 1
        else:
            self.known_usd += usd

    def include(self, other: "Cost") -> None:
        self.known_usd += other.known_usd
        self.unknown += other.unknown

    @property
    def usd(self) -> float | None:
        """The sum; None if a part is unknown."""
        return None if self.unknown else self.known_usd

    def __format__(self, spec: str) -> str:
        """Format the sum as a float: ``at least 0.25`` if a part is unknown."""
        return f"{'at least ' if self.unknown else ''}{self.known_usd:{spec}}"
