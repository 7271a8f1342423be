"""A task: a question or environment for a model, and the target of its scorer.

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
    """The world of a task's agent, as data."""

    @property
    def question(self) -> str:
        """The question, for people."""
        ...

    @property
    def answer(self) -> str:
        """The facts that the agent must have said, for people."""
        ...

    @property
    def content(self) -> list[Any]:
        """The part that belongs to the task's identity, JSON-able."""
        ...


if TYPE_CHECKING:
    Spec = TypeVar("Spec", bound=WorldSpec, default=Any)
else:  # the models environment needs no more than the standard library
    Spec = TypeVar("Spec")


@dataclass(frozen=True)
class Task(Generic[Spec]):
    """One question or environment, with its scorer's target."""

    __pydantic_config__: ClassVar[dict[str, Any]] = {"extra": "forbid"}
    """An unknown field in a file of tasks is an error."""

    key: str = ""
    """Its id in its source: the benchmark's own; without one, the row's position in its file; of a
    question about a passage the passage's id."""
    inputs: Mapping[str, str] = field(default_factory=dict)
    """Fields of prompts: ``question``, ``choices`` …"""
    target: Mapping[str, Any] = field(default_factory=dict)
    """The scorer's input, JSON-able: ``{"answer": "42"}``."""
    attributes: Mapping[str, str] = field(default_factory=dict)
    """Fields for ``--where``: subject, level, skill …; not part of the identity."""
    given: Sequence[Mapping[str, Any]] = ()
    """A conversation in the data, instead of a rendered prompt."""
    tools: Sequence[Mapping[str, Any]] = ()
    """The tools in OpenAI's format that the model is shown; empty if the harness has its own."""
    messages: tuple[Message, ...] = ()
    """The first messages of an attempt, from the suite's prompt; not part of the identity."""
    family: str = ""
    """The kind or the domain of a synthesized task."""
    template: str = ""
    """The template of a synthesized task within its family."""
    split: str = ""
    sources: tuple[str, ...] = ()
    """The documents that the answer of a synthesized task depends on, or the records that it is
    about, as ``table/key``: no record of a test task is in a training task."""
    slots: Slots = field(default_factory=dict)
    """The subject of a synthesized task, from which the oracle solves it; never the answer."""
    difficulty: Mapping[str, int] = field(default_factory=dict)
    """Difficulty by knob: hops, distractors, tools, steps."""
    world: Spec = None  # type: ignore[assignment]
    """The agent's world; None: it has only prompts and platform tools."""
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
        """The question, for people."""
        return self.inputs["question"] if self.world is None else self.world.question

    @property
    def answer(self) -> str:
        """The right answer, for people."""
        return str(self.target["answer"]) if self.world is None else self.world.answer


@dataclass(frozen=True)
class ExcludedRow:
    """A row that a benchmark excludes by its own rule; it is counted and reported."""

    id: str
    reason: str
