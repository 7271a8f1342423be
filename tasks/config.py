"""Files that people write: YAML in, a checked model out; what is wrong is told with its line.

A name given twice is an error: YAML would quietly let the later one win.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import yaml
from pydantic import BaseModel, ValidationError

SECRET = re.compile(r"key|secret|password|authorization|(^|[._-])token$", re.IGNORECASE)
"""Fields whose value is not shown: somebody may have written a key there."""
PASSWORD = re.compile("://[^/]*@")
MERGE = "tag:yaml.org,2002:merge"

Place = tuple[str | int, ...]
"""Where a value is: the names and list positions that lead to it."""
Checked = TypeVar("Checked", bound=BaseModel)


@dataclass(frozen=True)
class Document:
    """What a file says, and on which lines."""

    path: Path
    content: Any
    lines: Mapping[Place, int]
    """The first is 1; of a mapping's entry that of its name."""
    refusal: type[Exception]
    """What is raised, with file, line, field and value."""

    def check(self, model: type[Checked], context: Any = None) -> Checked:
        """The content as a `model`. Raises `refusal`."""
        content = {} if self.content is None else self.content
        try:
            return model.model_validate(content, context=context)
        except ValidationError as error:
            raise self.refusal(f"{self.path}: {explain(error, self.lines)}") from error


def read_document(path: Path, refusal: type[Exception]) -> Document:
    """The file's content. Raises `refusal` where it is no YAML, and FileNotFoundError."""
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        raise
    except OSError as error:
        raise refusal(f"{path}: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise refusal(f"{path}: not UTF-8: {error}") from error
    try:
        content, lines = _parse(text)
    except yaml.YAMLError as error:
        raise refusal(f"{path}: {_flaw(error)}") from error
    return Document(path, content, lines, refusal)


def explain(error: ValidationError, lines: Mapping[Place, int] | None = None) -> str:
    """A validation error in one line: of each field where it is, what is wrong, and its value."""
    return "; ".join(_fault(each, lines or {}) for each in error.errors())


def _fault(error: Mapping[str, Any], lines: Mapping[Place, int]) -> str:
    said: str = error["msg"].removeprefix("Value error, ")
    if not error["loc"] and error["type"] == "value_error":
        return said  # of several fields, which it names itself
    place = ".".join(map(str, error["loc"])) or "file"
    line = _line(error["loc"], lines)
    return f"{f'line {line}: ' if line else ''}{place}: {said} (given: {_shown(error)})"


def _line(place: Place, lines: Mapping[Place, int]) -> int | None:
    """That of the value, or of the nearest mapping around it; the names of a union's members,
    which pydantic puts among the places, are in no file."""
    found: Place = ()
    for part in place:
        found = (*found, part) if (*found, part) in lines else found
    return lines.get(found)


def _shown(error: Mapping[str, Any]) -> str:
    """The value of a wrong field, but for one that may be a key, or hold one."""
    place, value = error["loc"], error["input"]
    if error["type"] == "missing":
        return "nothing"
    if SECRET.search(str(place[-1]) if place else "") or PASSWORD.search(str(value)):
        return "not shown"
    if isinstance(value, Mapping):
        value = {name: "…" if SECRET.search(str(name)) else each for name, each in value.items()}
    return f"{value!r:.80}"


class _Loader(yaml.SafeLoader):
    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        names = set[str]()
        for key, _ in node.value:
            if not isinstance(key, yaml.ScalarNode):
                continue  # a list as a name: no field has one, so the model refuses it
            if key.value in names:
                raise yaml.constructor.ConstructorError(
                    None, None, f"{key.value} is given twice", key.start_mark
                )
            names.add(key.value)
        return super().construct_mapping(node, deep)


def _parse(text: str) -> tuple[Any, dict[Place, int]]:
    loader = _Loader(text)
    try:
        node = loader.get_single_node()
        lines = dict(_lines(loader, node, (), frozenset())) if node is not None else {}
        return None if node is None else loader.construct_document(node), lines
    finally:
        loader.dispose()


def _lines(
    loader: _Loader, node: yaml.Node, place: Place, around: frozenset[int]
) -> Iterator[tuple[Place, int]]:
    if id(node) in around:
        return  # an alias of what it stands in
    around |= {id(node)}
    if isinstance(node, yaml.MappingNode):
        for key, value in node.value:
            if isinstance(key, yaml.ScalarNode) and key.tag != MERGE:
                inner = (*place, loader.construct_object(key))
                yield inner, key.start_mark.line + 1
                yield from _lines(loader, value, inner, around)
    elif isinstance(node, yaml.SequenceNode):
        for number, value in enumerate(node.value):
            yield (*place, number), value.start_mark.line + 1
            yield from _lines(loader, value, (*place, number), around)


def _flaw(error: yaml.YAMLError) -> str:
    """Where it is and what; not the text around it, which may hold a key."""
    mark = getattr(error, "problem_mark", None)
    where = f"line {mark.line + 1}: " if mark else ""
    problem = getattr(error, "problem", None) or " ".join(str(error).split())
    return f"{where}not YAML: {problem}" if "given twice" not in problem else f"{where}{problem}"
