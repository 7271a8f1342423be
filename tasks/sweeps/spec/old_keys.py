"""Old keys of suites: fields that stood at the top before there were groups, and `cap`.

In: a suite as it was written or stored, of any age. Out: the same with every field in its group, so
that stored parameters and old files stay valid. A file with old keys is named once on stderr, with
the new place of each key.
"""

import sys
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from functools import cache
from typing import Annotated, Any

from pydantic import BaseModel, Field, TypeAdapter, ValidationError
from pydantic_core import InitErrorDetails, PydanticCustomError

from tutti.tasks.config import Document
from tutti.tasks.config import Place as FilePlace
from tutti.tasks.serving.scheduling import DEFAULT_CAP
from tutti.tasks.sweeps.spec.marks import Place, places_of
from tutti.tasks.sweeps.spec.policy import CAP

CAP_LIMIT: TypeAdapter[int] = TypeAdapter(Annotated[int, Field(ge=1)])
CAPS_PLACE = "policies: [{name: cap, limit: N}]"


def lifted(kind: type[BaseModel], given: Any) -> Any:
    """`given` with its old keys in the groups of `kind`.

    Raises ValidationError for a field that is also given in its group, and for a wrong `cap`.
    """
    if not isinstance(given, Mapping):
        return given
    groups = _grouped(kind)
    if given.keys().isdisjoint({*groups, CAP}):
        return given
    content = {key: value for key, value in given.items() if key not in groups and key != CAP}
    twice = []
    for name in (key for key in given if key in groups):
        group = groups[name][0]
        inside = _as_mapping(content.get(group, {}))
        if inside is not None and name in inside:
            twice.append(_twice(groups[name], given[name]))
        elif inside is not None:  # a group that is no mapping is refused as it is
            content[group] = {**inside, name: given[name]}
    if twice:
        raise ValidationError.from_exception_data(kind.__name__, twice)
    if CAP in given:
        limit = _limit(kind, given[CAP])
        policies = content.get("policies", kind.model_fields["policies"].default)
        content["policies"] = _with_limit(policies, limit)
    return content


def with_new_places(
    document: Document, kind: type[BaseModel], roots: Iterable[FilePlace] = ((),)
) -> Document:
    """The document with the lines of its old keys also under their new places.

    `roots` are the places of suites in it. Prints, once a process, which keys are now where.
    """
    lines, renamed = dict(document.lines), []
    for root in roots:
        for name, place in _old_keys(document, kind, root):
            old, new = (*root, name), (*root, *place)
            lines |= _moved(document.lines, old, new)
            renamed.append(f"`{_dotted(old)}` is now `{_dotted(new)}`")
    if renamed:
        _warn(f"tutti: deprecated: {document.path}: {'; '.join(renamed)}")
    return replace(document, lines=lines)


def _moved(lines: Mapping[FilePlace, int], old: FilePlace, new: FilePlace) -> dict[FilePlace, int]:
    """The lines of what stands at or below `old`, by their places below `new`."""
    size = len(old)
    return {(*new, *at[size:]): line for at, line in lines.items() if at[:size] == old}


def _old_keys(
    document: Document, kind: type[BaseModel], root: FilePlace
) -> Iterator[tuple[str, Place]]:
    content = document.content
    for part in root:
        content = content[part] if isinstance(content, Mapping) and part in content else None
    if not isinstance(content, Mapping):
        return
    places = _grouped(kind) | {CAP: (CAPS_PLACE,)}
    yield from ((name, places[name]) for name in content if name in places)


@cache
def _grouped(kind: type[BaseModel]) -> dict[str, Place]:
    """The fields that stand in a group."""
    return {name: place for name, place in places_of(kind).items() if len(place) > 1}


def _as_mapping(group: Any) -> Mapping[str, Any] | None:
    if isinstance(group, BaseModel):
        return {name: getattr(group, name) for name in group.model_fields_set}
    return group if isinstance(group, Mapping) else None


def _twice(place: Place, value: Any) -> InitErrorDetails:
    told = PydanticCustomError(
        "given_twice",
        "is also given as `{place}`; keep that one",
        {"place": _dotted(place)},
    )
    return InitErrorDetails(type=told, loc=(place[-1],), input=value)


def _limit(kind: type[BaseModel], given: Any) -> int:
    try:
        return CAP_LIMIT.validate_python(given)
    except ValidationError as error:
        told = PydanticCustomError("cap", "{why}", {"why": error.errors()[0]["msg"]})
        wrong = InitErrorDetails(type=told, loc=(CAP,), input=given)
        raise ValidationError.from_exception_data(kind.__name__, [wrong]) from None


def _with_limit(policies: Any, limit: int) -> Any:
    """The policies, with the limit for a `cap` that has none of its own."""
    if limit == DEFAULT_CAP or not isinstance(policies, list | tuple):
        return policies
    return [{"name": CAP, "limit": limit} if each == CAP else each for each in policies]


def _dotted(place: FilePlace) -> str:
    return ".".join(map(str, place))


@cache
def _warn(line: str) -> None:
    print(line, file=sys.stderr)
