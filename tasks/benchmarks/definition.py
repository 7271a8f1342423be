"""A benchmark's definition: a YAML file below ``sets/``, whose name is the benchmark's.

`inputs`, `target` and `attributes` name the columns of a row. A set that needs code names a
function of this package, such as ``games.sotopia.read``.
"""

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, fields, replace
from difflib import get_close_matches
from functools import cache, partial
from importlib import import_module
from pathlib import Path
from typing import Annotated, Any

from pydantic import BaseModel, BeforeValidator, ConfigDict, model_validator

from tutti.tasks.benchmarks.benchmark import Benchmark, Gold, Headline, gold_of, prompt_for
from tutti.tasks.benchmarks.errors import BenchmarkError, UnknownBenchmark
from tutti.tasks.benchmarks.rows import Row
from tutti.tasks.benchmarks.source import Files, Hub
from tutti.tasks.platform import Document, read_document
from tutti.tasks.task_sets import Task

SETS = Path(__file__).parent / "sets"
DATA = Path(__file__).parent / "data"
_COLUMN = re.compile(r"(?:(?P<kind>[\w.]+) )?(?P<names>\w+(?:\|\w+)*)(?P<optional>\|?)")
KINDS: dict[str, Callable[..., Any]] = {
    "text": Row.text,
    "texts": Row.texts,
    "name": Row.name,
    "number": lambda row, *names: f"{row.number(*names):g}",
}
"""How a column is read: as text; as a list of texts; as text or a whole number; as a number."""


def function_named(name: Any) -> Callable[..., Any]:
    """The function ``module.name`` of this package. Raises ValueError if there is none."""
    module, _, attribute = str(name).rpartition(".")
    try:
        found: Callable[..., Any] = getattr(import_module(f"{__package__}.{module}"), attribute)
    except (ImportError, AttributeError) as error:
        raise ValueError(f"no such function in tasks/benchmarks: {error}") from error
    return found


@dataclass(frozen=True)
class Column:
    """One value of a task: ``column``, ``one|or|another``, ``column|`` (optional). ``KIND column``:
    KIND is one of `KINDS`, or a function of row and column names, which returns None for a missing
    optional value."""

    names: tuple[str, ...]
    read: Callable[..., Any] = Row.text
    optional: bool = False

    @classmethod
    def parsed(cls, text: Any) -> "Column":
        """Parse a column as files write it. Raises ValueError."""
        match = _COLUMN.fullmatch(str(text))
        if match is None:
            raise ValueError("not a column: write `column`, `one|another`, `KIND column|`")
        kind = match["kind"] or "text"
        read = KINDS[kind] if kind in KINDS else function_named(kind)
        return cls(tuple(match["names"].split("|")), read, bool(match["optional"]))

    def value(self, row: Row) -> Any:
        """The value in `row`; empty text for an optional one that is missing. Optional text may be
        blank. Raises BadRow."""
        if self.optional and (self.read is Row.text or row.name_of(*self.names) is None):
            return row.text_or("", *self.names)
        return self.read(row, *self.names)


def _hub(text: Any) -> Hub | None:
    repository, _, revision = str(text).partition("@")
    if text is not None and not revision:
        raise ValueError("write owner/name@commit")
    return Hub(repository, revision) if text is not None else None


Function = Annotated[Callable[..., Any], BeforeValidator(function_named)]
Columns = dict[str, Annotated[Column, BeforeValidator(Column.parsed)]]


class Example(BaseModel):
    """A row in the publisher's form, with a reply that scores 1 and one that scores 0."""

    model_config = ConfigDict(extra="forbid", frozen=True)
    row: dict[str, Any]
    right: str
    wrong: str


class BenchmarkFile(BaseModel):
    """The fields of a benchmark's file; those of `Benchmark` have the same meaning here."""

    model_config = ConfigDict(extra="forbid", frozen=True)
    licence: str
    scorer: str
    splits: dict[str, tuple[str, ...]] | tuple[str, ...]
    """The names alone where `files` has their patterns, with ``{split}`` and ``{an option}``."""
    files: tuple[str, ...] = ("{split}.jsonl",)
    prompt: str | None = None
    """None for the prompt that suits the scorer (`prompt_for`)."""
    also: tuple[str, ...] = ()
    hub: Annotated[Hub | None, BeforeValidator(_hub)] = None
    """``owner/name@commit``."""
    rules: dict[str, str] = {}
    reports: Headline | None = None
    subsets: str | None = None
    gold: Annotated[Gold, BeforeValidator(function_named)] = gold_of
    interactive: bool = False
    """Implied by `world` and `command`."""
    world: Function | None = None
    has_strategies: bool = False
    needs_user: bool = False
    command: str | None = None
    command_needs: tuple[str, ...] = ()
    data: str | None = None
    platform_tools: frozenset[str] = frozenset()
    is_boxed: bool = False
    is_made: bool = False
    reply_tokens: int | None = None

    read: Function | None = None
    """Reads files as tasks: ``read(files, **options)``. None for a set of questions."""
    options: dict[str, Any] = {}
    key: Annotated[Column | None, BeforeValidator(Column.parsed)] = None
    """The task's id; the row's number without one, or if its optional column is missing."""
    inputs: Columns = {}
    target: Columns = {}
    attributes: Columns = {}
    example: Example | None = None

    @model_validator(mode="after")
    def _one_reader(self) -> "BenchmarkFile":
        if [bool(self.read), bool(self.inputs), self.is_made].count(True) != 1:
            raise ValueError("give one of `inputs`, a function as `read`, and `is_made`")
        return self

    def tasks(self, files: Files) -> Iterator[Task]:
        """Yield one task per row. Raises BadRow."""
        parts = (self.inputs, self.target, self.attributes)
        for number, row in enumerate(files.published()):
            key = self.key.value(row) if self.key else ""
            inputs, target, attributes = (_values(row, columns) for columns in parts)
            yield Task(key or str(number), inputs, target, attributes)

    def benchmark(self, name: str) -> Benchmark:
        """The benchmark that it defines."""
        known = {each.name for each in fields(Benchmark)} & set(BenchmarkFile.model_fields)
        splits = self.splits
        if not isinstance(splits, dict):
            splits = {
                split: tuple(each.format(split=split, **self.options) for each in self.files)
                for split in splits
            }
        made = {field: getattr(self, field) for field in known} | {
            "read": partial(self.read, **self.options) if self.read else self.tasks,
            "prompt": self.prompt or prompt_for(self.scorer),
            "interactive": bool(self.interactive or self.world or self.command),
            "splits": splits,
        }
        return Benchmark(name=name, own=DATA / self.data if self.data else None, **made)


def _values(row: Row, columns: Columns) -> dict[str, Any]:
    found = {name: column.value(row) for name, column in columns.items()}
    return {name: value for name, value in found.items() if value is not None}


class Definitions(Mapping[str, Benchmark]):
    """The benchmarks that are files below `folder`; each is read on first use."""

    def __init__(self, folder: Path = SETS) -> None:
        self._files = {path.stem: path for path in sorted(folder.rglob("*.yaml"))}
        self._benchmark = cache(lambda name: self.file(name).benchmark(name))

    def __getitem__(self, name: str) -> Benchmark:
        if name not in self._files:
            raise KeyError(name)
        return self._benchmark(name)

    def __iter__(self) -> Iterator[str]:
        return iter(sorted(self._files))

    def __len__(self) -> int:
        return len(self._files)

    def file(self, name: str) -> BenchmarkFile:
        """The file of benchmark `name`. Raises BenchmarkError with file, line and field."""
        return self._document(name).check(BenchmarkFile)

    def _document(self, name: str) -> Document:
        """Return the file; missing fields are those of the benchmark that ``like`` names."""
        document = read_document(self._files[name], BenchmarkError)
        content = document.content
        if not isinstance(content, dict) or "like" not in content:
            return document
        other = content.pop("like")
        if other not in self._files:
            raise BenchmarkError(f"{document.path}: like: there is no benchmark {other!r}")
        return replace(document, content=self._document(other).content | content)


BENCHMARKS = Definitions()


def benchmark_named(name: str) -> Benchmark:
    """The benchmark `name`. Raises UnknownBenchmark, which lists the known ones."""
    if name not in BENCHMARKS:
        near = "".join(f", did you mean {each}?" for each in get_close_matches(name, BENCHMARKS, 1))
        known = ", ".join(sorted(BENCHMARKS))
        raise UnknownBenchmark(f"no benchmark {name!r}{near or ';'} there are {known}")
    return BENCHMARKS[name]
