"""Files that people write: YAML in, a checked model out; errors name the line.

A duplicate name is an error, because in YAML the later one would win. The size of a file's content
is limited before it is built: a few lines of anchors can represent a thousand million values, and
deep nesting overflows Python's stack.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from typing import Any, NoReturn, TypeVar, get_args

import yaml
from pydantic import BaseModel, ConfigDict, ValidationError

SECRET = re.compile(r"key|secret|password|authorization|(^|[._-])token$", re.IGNORECASE)
"""Fields whose value is not shown: somebody may have written a key there."""
PASSWORD = re.compile("://[^/]*@")
MERGE = "tag:yaml.org,2002:merge"
NUMBERS = ("tag:yaml.org,2002:int", "tag:yaml.org,2002:float")
MAX_BYTES = 256 * 2**10  # of a file: forty times the largest that ships
MAX_NODES = 10_000  # names and values, aliases written out: as many are read in half a second
MAX_DEPTH = 64  # lists and mappings around a value: each takes several of Python's frames
MAX_NUMBER_CHARS = 400  # a number of base 60 takes time by the square of its length

Place = tuple[str | int, ...]  # where a value is: the names and list positions that lead to it
Checked = TypeVar("Checked", bound=BaseModel)


class Strict(BaseModel):
    """Base class of settings: unknown fields and infinite numbers are refused, and values are
    frozen."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)


@dataclass(frozen=True)
class Document:
    """A file's content, and its lines."""

    path: Path
    content: Any
    lines: Mapping[Place, int]  # the first is 1; of a mapping's entry that of its name
    refusal: type[Exception]  # the error that names file, line, field and value

    def check(self, model: type[Checked], context: Any = None) -> Checked:
        """Return the content as a `model`. Raises `refusal`."""
        content = {} if self.content is None else self.content
        try:
            return model.model_validate(content, context=context)
        except ValidationError as error:
            raise self.refusal(f"{self.path}: {explain(error, self.lines, model)}") from error


def read_document(path: Path, refusal: type[Exception]) -> Document:
    """Read the file's content. Raises `refusal` if it is not YAML, and FileNotFoundError."""
    try:
        with path.open("rb") as file:
            data = file.read(MAX_BYTES + 1)  # no more, for it may be a device that has no end
        text = data.decode("utf-8")
    except FileNotFoundError:
        raise
    except OSError as error:
        raise refusal(f"{path}: {error.strerror}") from error
    except UnicodeDecodeError as error:
        if len(data) <= MAX_BYTES:
            raise refusal(f"{path}: not UTF-8: {error}") from error
        text = ""
    if len(data) > MAX_BYTES:
        line = data.count(b"\n", 0, MAX_BYTES) + 1
        raise refusal(f"{path}: line {line}: the file is longer than {MAX_BYTES // 2**10} KiB")
    try:
        content, lines = _parse(text)
    except yaml.YAMLError as error:
        raise refusal(f"{path}: {_flaw(error)}") from error
    return Document(path, content, lines, refusal)


def explain(
    error: ValidationError,
    lines: Mapping[Place, int] | None = None,
    model: type[BaseModel] | None = None,
) -> str:
    """Return a validation error in one line: for each field its place, the fault, and its value."""
    return "; ".join(_fault(each, lines or {}, model) for each in error.errors())


def _fault(
    error: Mapping[str, Any], lines: Mapping[Place, int], model: type[BaseModel] | None
) -> str:
    fault: str = error["msg"].removeprefix("Value error, ")
    if not error["loc"] and error["type"] == "value_error":
        return fault  # of several fields, which it names itself
    # A union's tags, which pydantic puts among the places, are in no file.
    named = [str(part) for part in error["loc"] if not str(part).startswith("<")]
    if error["type"] == "extra_forbidden" and model is not None:
        near = _near_field(model, str(error["loc"][-1]))
        fault += f"; did you mean `{near}`?" if near else ""
    place = ".".join(named) or "file"
    line = _line(error["loc"], lines)
    return f"{f'line {line}: ' if line else ''}{place}: {fault} (given: {_shown(error)})"


def _near_field(model: type[BaseModel], name: str) -> str | None:
    """Return the known field nearest to an unknown one, with its group."""
    known = {field: field for field in model.model_fields}
    for field, info in model.model_fields.items():
        for inner in _models_in(info.annotation):
            known = {each: f"{field}.{each}" for each in inner.model_fields} | known
    return next((known[near] for near in get_close_matches(name, known, 1, 0.7)), None)


def _models_in(annotation: Any) -> list[type[BaseModel]]:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return [annotation]
    return [each for inner in get_args(annotation) for each in _models_in(inner)]


def _line(place: Place, lines: Mapping[Place, int]) -> int | None:
    """The line of the value, or of the nearest mapping around it; a union's tags are in no file."""
    found: Place = ()
    for part in place:
        found = (*found, part) if (*found, part) in lines else found
    return lines.get(found)


def _shown(error: Mapping[str, Any]) -> str:
    """Return the value of a wrong field, except one that may be or contain a key."""
    place, value = error["loc"], error["input"]
    if error["type"] == "missing":
        return "nothing"
    if SECRET.search(str(place[-1]) if place else "") or PASSWORD.search(str(value)):
        return "not shown"
    if isinstance(value, Mapping):
        value = {name: "…" if SECRET.search(str(name)) else each for name, each in value.items()}
    return f"{value!r:.80}"


class _OutOfBounds(yaml.MarkedYAMLError):
    """A valid YAML file with too much content."""


class _Loader(yaml.SafeLoader):
    """YAML loader with limits during parsing; it refuses duplicate names."""

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self._depth = self._nodes = 0
        self._sizes: dict[int, int] = {}
        """Nodes of each that is complete, by its `id`, aliases counted as what they stand for."""

    def fetch_flow_collection_start(self, token: Any) -> None:
        """Stop at a bracket nested too deeply; the scanner is far ahead of the parser."""
        if self.flow_level >= MAX_DEPTH:
            self._refuse(f"nested more than {MAX_DEPTH} levels deep", self.get_mark())
        super().fetch_flow_collection_start(token)

    def compose_node(self, parent: yaml.Node | None, index: Any) -> yaml.Node | None:
        """Return the next node, if the file stays within its limits with it."""
        event: yaml.Event = self.peek_event()  # type: ignore[no-untyped-call]
        if self._depth > MAX_DEPTH:
            self._refuse(f"nested more than {MAX_DEPTH} levels deep", event.start_mark)
        before, self._nodes, self._depth = self._nodes, self._nodes + 1, self._depth + 1
        node: yaml.Node | None = super().compose_node(parent, index)
        self._depth -= 1
        if isinstance(event, yaml.AliasEvent):
            if id(node) not in self._sizes:
                self._refuse(f"the alias {event.anchor} stands in what it names", event.start_mark)
            self._nodes = before + self._sizes[id(node)]
        self._sizes[id(node)] = self._nodes - before
        if self._nodes > MAX_NODES:
            what = f"more than {MAX_NODES} names and values, aliases written out"
            self._refuse(what, event.start_mark)
        number = isinstance(node, yaml.ScalarNode) and node.tag in NUMBERS and node.value
        if number and len(number) > MAX_NUMBER_CHARS:
            what = f"a number of more than {MAX_NUMBER_CHARS} characters"
            self._refuse(what, event.start_mark)
        return node

    def construct_object(self, node: yaml.Node, deep: bool = False) -> Any:
        """Return the node's value. PyYAML raises various errors for invalid dates and tags."""
        try:
            return super().construct_object(node, deep)
        except (ValueError, KeyError, AttributeError, OverflowError) as error:
            kind = node.tag.rpartition(":")[2]
            raise yaml.constructor.ConstructorError(
                None, None, f"a value that is no {kind}", node.start_mark
            ) from error

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

    def _refuse(self, what: str, mark: Any) -> NoReturn:
        raise _OutOfBounds(problem=what, problem_mark=mark)


def _parse(text: str) -> tuple[Any, dict[Place, int]]:
    loader = _Loader(text)
    try:
        node = loader.get_single_node()
        lines = dict(_lines(loader, node, ())) if node is not None else {}
        return None if node is None else loader.construct_document(node), lines
    finally:
        loader.dispose()


def _lines(loader: _Loader, node: yaml.Node, place: Place) -> Iterator[tuple[Place, int]]:
    if isinstance(node, yaml.MappingNode):
        for key, value in node.value:
            if isinstance(key, yaml.ScalarNode) and key.tag != MERGE:
                inner = (*place, loader.construct_object(key))
                yield inner, key.start_mark.line + 1
                yield from _lines(loader, value, inner)
    elif isinstance(node, yaml.SequenceNode):
        for number, value in enumerate(node.value):
            yield (*place, number), value.start_mark.line + 1
            yield from _lines(loader, value, (*place, number))


def _flaw(error: yaml.YAMLError) -> str:
    """Return the place and the fault, without the text around it, which may contain a key."""
    mark = getattr(error, "problem_mark", None)
    where = f"line {mark.line + 1}: " if mark else ""
    problem = getattr(error, "problem", None) or " ".join(str(error).split())
    if isinstance(error, _OutOfBounds) or "given twice" in problem:
        return f"{where}{problem}"
    return f"{where}not YAML: {problem}"
