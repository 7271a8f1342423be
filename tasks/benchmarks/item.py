"""One item of a benchmark, as its loader makes it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from tutti.storage import artifact_id

IMAGE = "image"
"""The field with an image's URL (``data:`` or ``https:``), which prompts pass as an image part."""

EXPERTS = "experts"
"""The key of a target with the experts that the item offers: by alias their ``prompt`` and
``completion`` prices, USD per million tokens."""

PLACES = frozenset({"database", "game"})
"""Keys of a target that hold a local path, which is not part of the task's identity."""


@dataclass(frozen=True)
class Item:
    """One question or environment, with its scorer's target."""

    id: str
    """The benchmark's own id; if it has none, the item's position in its file."""
    fields: Mapping[str, str]
    """The fields that prompts are rendered from: ``question``, ``choices`` …"""
    target: Mapping[str, Any]
    """The scorer's input, JSON-able: ``{"answer": "42"}``."""
    attributes: Mapping[str, str] = field(default_factory=dict)
    """The attributes that ``--where`` can select by: subject, level …"""
    messages: Sequence[Mapping[str, Any]] = ()
    """A given conversation, instead of a rendered prompt."""
    tools: Sequence[Mapping[str, Any]] = ()
    """The available tools in OpenAI's format; empty if the harness has its own."""

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
