"""One item of a benchmark, as its loader makes it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from tutti.storage import artifact_id

IMAGE = "image"
"""The field that holds an image's URL (``data:`` or ``https:``), which prompts carry as a part."""

PLACES = frozenset({"database", "game"})
"""Keys of a target that hold a path on this machine, which is no part of what the task is."""


@dataclass(frozen=True)
class Item:
    """One question or environment, and what its scorer needs to know."""

    id: str
    """The benchmark's own id; where it has none, the item's place in its file."""
    fields: Mapping[str, str]
    """What prompts are rendered from: ``question``, ``choices`` …"""
    target: Mapping[str, Any]
    """What the scorer gets, JSON-able: ``{"answer": "42"}``."""
    attributes: Mapping[str, str] = field(default_factory=dict)
    """What ``--where`` selects by: subject, level …"""
    messages: Sequence[Mapping[str, Any]] = ()
    """A conversation that is given, instead of a rendered prompt."""
    tools: Sequence[Mapping[str, Any]] = ()
    """The tools on offer, as OpenAI describes functions; empty where the harness has its own."""

    @property
    def task_id(self) -> str:
        """Content hash: the same item with the same target is the same task."""
        target = {name: value for name, value in self.target.items() if name not in PLACES}
        content: list[Any] = [self.id, dict(self.fields), target]
        if self.messages or self.tools:
            content += [list(self.messages), list(self.tools)]
        return artifact_id("task", content)


@dataclass(frozen=True)
class ExcludedRow:
    """A row that a benchmark excludes by its own rule; it is counted and reported."""

    id: str
    reason: str
