"""Reads a target's keys, and the text of an attempt that holds its answer."""

from collections.abc import Mapping, Sequence
from typing import Any, TypeVar

from tutti.tasks.scoring.score import ScorerFailed, Submission

T = TypeVar("T")


def needed(target: Mapping[str, Any], key: str, kind: type[T]) -> T:
    """The target's `key`. Raises ScorerFailed if it is missing or not a `kind`."""
    value = target.get(key)
    if not isinstance(value, kind):
        found = "nothing" if value is None else type(value).__name__
        raise ScorerFailed(f"the target needs {key!r} as {kind.__name__}; it has {found}")
    return value


def texts(target: Mapping[str, Any], key: str) -> list[str]:
    """The target's `key`: a text, or a non-empty list. Raises ScorerFailed."""
    value = target.get(key)
    found = [value] if isinstance(value, str) else value
    if not isinstance(found, list) or not found or not all(isinstance(x, str) for x in found):
        raise ScorerFailed(f"the target needs {key!r} as a text or a list of texts")
    return found


def conversation(submission: Submission) -> Sequence[Mapping[str, Any]]:
    """The attempt's messages. Raises ScorerFailed if they are unknown; an empty list is valid."""
    if submission.messages is None:
        raise ScorerFailed(
            "a harness made the attempt, and what it called is known once that is stored: "
            "`tutti score` reads it there"
        )
    return submission.messages


def said(submission: Submission) -> str:
    """The attempt's final text: its last message, or its answer if it has no message."""
    return submission.text or submission.answer or ""
