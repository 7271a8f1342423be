"""A task: what a model is asked, and what its answer is compared with.

In: a row of a benchmark's file, or a source of made tasks. Out: a `Task`, which a sweep's runner,
a training and a report read alike.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar, Generic, Protocol

from tutti.storage import artifact_id

if TYPE_CHECKING:
    from typing_extensions import TypeVar  # its default lets most of the code say `Task` alone
else:
    from typing import TypeVar

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


class WorldSpec(Protocol):
    """What a task's agent acts in, as data."""

    @property
    def question(self) -> str:
        """What is asked, for people."""
        ...

    @property
    def answer(self) -> str:
        """What the agent must have said, for people."""
        ...

    @property
    def content(self) -> list[Any]:
        """What of it belongs to the task's identity, JSON-able."""
        ...


if TYPE_CHECKING:
    Spec = TypeVar("Spec", bound=WorldSpec, default=Any)
else:  # the models environment needs no more than the standard library
    Spec = TypeVar("Spec")


@dataclass(frozen=True)
class Task(Generic[Spec]):
    """One question or environment, with its scorer's target."""

    __pydantic_config__: ClassVar[dict[str, Any]] = {"extra": "forbid"}
    """Of files of tasks (`TaskFile`): a field that is not known is an error."""

    key: str = ""
    """Its id in its source: the benchmark's own; without one, the row's position in its file; of a
    question about a passage the passage's id."""
    inputs: Mapping[str, str] = field(default_factory=dict)
    """What prompts are rendered from: ``question``, ``choices`` …"""
    target: Mapping[str, Any] = field(default_factory=dict)
    """The scorer's input, JSON-able: ``{"answer": "42"}``."""
    attributes: Mapping[str, str] = field(default_factory=dict)
    """What ``--where`` can select by: subject, level, skill …; not part of the identity."""
    given: Sequence[Mapping[str, Any]] = ()
    """A conversation in the data, instead of a rendered prompt."""
    tools: Sequence[Mapping[str, Any]] = ()
    """The tools in OpenAI's format that the model is shown; empty if the harness has its own."""
    messages: tuple[Message, ...] = ()
    """What an attempt begins with, rendered by the suite's prompt; not part of the identity."""
    family: str = ""
    """Of a made task: its kind, or its domain."""
    template: str = ""
    """Of a made task: what it was made by within its family."""
    split: str = ""
    sources: tuple[str, ...] = ()
    """Of a made task: the documents that the answer depends on, or the records that it is about, as
    ``table/key``: no record of a test task is in a training task."""
    slots: Slots = field(default_factory=dict)
    """Of a made task: its subject, from which the oracle solves it; never from the answer."""
    difficulty: Mapping[str, int] = field(default_factory=dict)
    """By knob: hops, distractors, tools, steps."""
    world: Spec = None  # type: ignore[assignment]
    """What the agent acts in; None: nothing but what prompts say and platform tools give."""
    stored_id: str = ""
    """The id in the set that it was read from: a sweep adds to `inputs`, `target` and `tools` what
    the set's other files say, and the task stays the same."""

    @cached_property
    def task_id(self) -> str:
        """Content hash: the same question with the same target is the same task."""
        if self.stored_id:
            return self.stored_id
        target = {name: value for name, value in self.target.items() if name not in PLACES}
        content: list[Any] = [self.family, self.template, self.key, dict(self.inputs), target]
        if self.given or self.tools:
            content += [list(self.given), list(self.tools)]
        if self.world is not None:
            content += self.world.content
        return artifact_id("task", content)

    @property
    def question(self) -> str:
        """What is asked, for people."""
        return self.inputs["question"] if self.world is None else self.world.question

    @property
    def answer(self) -> str:
        """What is right, for people."""
        return str(self.target["answer"]) if self.world is None else self.world.answer


@dataclass(frozen=True)
class ExcludedRow:
    """A row that a benchmark excludes by its own rule; it is counted and reported."""

    id: str
    reason: str
