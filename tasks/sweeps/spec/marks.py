"""What each field of a suite belongs to. Ids, grids and plans are derived from these marks.

A field is declared with its mark: ``cap: Annotated[int, CELL] = Field(...)``.
`tasks.sweeps.plan.identity` makes ids from them; tests walk every field and check that changing it
changes what its mark says.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from pydantic import BaseModel


class Belongs(StrEnum):
    """What changes when a field changes."""

    AXIS = "axis"
    """Which cells there are; the ids of those that stay do not change."""
    CELL = "cell"
    """The ids of cells, in the same sweep."""
    SWEEP = "sweep"
    """The sweep's id, and with it the ids of its cells."""
    RUN = "run"
    """Nothing that is kept: how a run goes, or what is said of it."""


@dataclass(frozen=True)
class Mark:
    """What a field belongs to, and how it reaches an id."""

    belongs: Belongs
    through: str | None = None
    """What it reaches ids through: the task set, or other models. None: it stands in them."""


AXIS, CELL, SWEEP, RUN = (Mark(each) for each in Belongs)
TASKS = Mark(Belongs.SWEEP, "task set")
MODELS = Mark(Belongs.SWEEP, "models")


def marks_of(kind: type[BaseModel]) -> dict[str, Mark]:
    """The mark of each field. Raises TypeError for a field without exactly one."""
    found = {}
    for name, field in kind.model_fields.items():
        marks = [each for each in field.metadata if isinstance(each, Mark)]
        if len(marks) != 1:
            raise TypeError(f"{kind.__name__}.{name} has {len(marks)} marks; it needs one")
        found[name] = marks[0]
    return found


def set_fields(spec: BaseModel, mark: Mark) -> Iterator[tuple[str, Any]]:
    """Names and values of the fields with `mark` that differ from their defaults."""
    fields = type(spec).model_fields
    for name, own in marks_of(type(spec)).items():
        value = getattr(spec, name)
        if own == mark and value != fields[name].get_default(call_default_factory=True):
            yield name, value
