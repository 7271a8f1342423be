"""Marks of a suite's fields, from which ids, grids and plans are derived.

A field is declared with its mark: ``repeats: Annotated[int, AXIS] = Field(...)``. A `Group` is a
model under one key of the suite; ids and flags use a field's own name, which must therefore be
unique among the groups. Tests change every field and check that its mark states the effect.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from functools import cache
from typing import Any

from pydantic import BaseModel
from pydantic.fields import FieldInfo

from tutti.tasks.platform import Strict

Place = tuple[str, ...]
"""The place of a field: its name, or its group and its name."""


class FieldScope(StrEnum):
    """The scope of a field: what depends on it."""

    AXIS = "axis"
    """Which cells there are; the ids of those that stay do not change."""
    CELL = "cell"
    """The ids of cells, in the same sweep."""
    SWEEP = "sweep"
    """The sweep's id, and with it the ids of its cells."""
    RUN = "run"
    """Nothing that is stored: how a run goes, or what is reported of it."""


@dataclass(frozen=True)
class Mark:
    """The scope of a field, and how it enters an id."""

    belongs: FieldScope
    through: str | None = None
    """The part of an id that it reaches, such as the task set. None: its own name."""


AXIS, CELL, SWEEP, RUN = (Mark(each) for each in FieldScope)
TASKS = Mark(FieldScope.SWEEP, "task set")
MODELS = Mark(FieldScope.SWEEP, "models")
INDEX = Mark(FieldScope.SWEEP, "index")
DERIVED = Mark(FieldScope.SWEEP, "a value that is made of it")
POINT = Mark(FieldScope.CELL, "the number of trials")


class Group(Strict):
    """Fields under one common key, each with its own mark."""


@cache
def places_of(kind: type[BaseModel]) -> Mapping[str, Place]:
    """Return the place of each field. Raises TypeError for a duplicate name."""
    found: dict[str, Place] = {}
    for place, _ in _fields(kind):
        if place[-1] in found:
            raise TypeError(f"{kind.__name__} has two fields called {place[-1]}")
        found[place[-1]] = place
    return found


def without_groups(kind: type[BaseModel], dumped: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields of a dumped `kind`, by their own names. Other keys are left out."""
    found = {}
    for name, (first, *rest) in places_of(kind).items():
        inside = dumped.get(first, {}) if rest else dumped
        if name in inside:
            found[name] = inside[name]
    return found


def marks_of(kind: type[BaseModel]) -> dict[str, Mark]:
    """Return the mark of each field. Raises TypeError for a field without exactly one."""
    found = {}
    for place, field in _fields(kind):
        marks = [each for each in field.metadata if isinstance(each, Mark)]
        if len(marks) != 1:
            name = ".".join(place)
            raise TypeError(f"{kind.__name__}.{name} has {len(marks)} marks; it needs one")
        found[place[-1]] = marks[0]
    return found


def set_fields(spec: BaseModel, mark: Mark) -> Iterator[tuple[str, Any]]:
    """Yield names and values of the fields with `mark` that differ from their defaults."""
    marks = marks_of(type(spec))
    for place, field in _fields(type(spec)):
        value = value_at(spec, place)
        default = field.get_default(call_default_factory=True)
        if marks[place[-1]] == mark and value != default:
            yield place[-1], value


def _fields(kind: type[BaseModel]) -> Iterator[tuple[Place, FieldInfo]]:
    for name, field in kind.model_fields.items():
        group = field.annotation
        if isinstance(group, type) and issubclass(group, Group):
            yield from (((name, each), inner) for each, inner in group.model_fields.items())
        else:
            yield (name,), field


def value_at(spec: BaseModel, place: Place) -> Any:
    value: Any = spec
    for name in place:
        value = getattr(value, name)
    return value
