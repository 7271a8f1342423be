"""A task: what a model is asked, and what its answer is compared with.

In: a row of a benchmark's file, or a source of made tasks. Out: a `Task`, which a sweep's runner,
a training and a report read alike.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from tutti.storage import artifact_id

Message = dict[str, Any]
"""A chat message in OpenAI's format."""
Slots = dict[str, str]

IMAGE = "image"
"""The input with an image's URL (``data:`` or ``https:``), which prompts pass as an image part."""

EXPERTS = "experts"
"""The key of a target with the experts that the task offers: by alias their ``prompt`` and
``completion`` prices, USD per million tokens."""

PLACES = frozenset({"database", "game"})
"""Keys of a target that hold a local path, which is not part of the task's identity."""


@dataclass(frozen=True)
class Task:
    """One question or environment, with its scorer's target."""

    key: str
    """Its id in its source: the benchmark's own; without one, the row's position in its file."""
    inputs: Mapping[str, str]
    """What prompts are rendered from: ``question``, ``choices`` …"""
    target: Mapping[str, Any]
    """The scorer's input, JSON-able: ``{"answer": "42"}``."""
    attributes: Mapping[str, str] = field(default_factory=dict)
    """What ``--where`` can select by: subject, level …"""
    given: Sequence[Mapping[str, Any]] = ()
    """A conversation in the data, instead of a rendered prompt."""
    tools: Sequence[Mapping[str, Any]] = ()
    """The tools in OpenAI's format that the model is shown; empty if the harness has its own."""
    messages: tuple[Message, ...] = ()
    """What an attempt begins with, rendered by the suite's prompt; not part of the identity."""
    family: str = ""
    """Of a made task: its kind."""
    split: str = ""
    sources: tuple[str, ...] = ()
    """Of a made task: the documents that the answer depends on."""
    slots: Slots = field(default_factory=dict)
    """Of a made task: its subject, from which the oracle solves it; never from the answer."""

    @cached_property
    def task_id(self) -> str:
        """Content hash: the same question with the same target is the same task."""
        if self.family:
            content: list[Any] = [self.family, self.inputs["question"], self.target["answer"]]
            return artifact_id("task", content)
        target = {name: value for name, value in self.target.items() if name not in PLACES}
        content = [self.key, dict(self.inputs), target]
        if self.given or self.tools:
            content += [list(self.given), list(self.tools)]
        return artifact_id("task", content)


@dataclass(frozen=True)
class ExcludedRow:
    """A row that a benchmark excludes by its own rule; it is counted and reported."""

    id: str
    reason: str
