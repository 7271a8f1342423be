"""Reading rows of a benchmark's files, each with its place in the file.

Accessors of a `Row` return a value of the wanted type or raise `BadRow` with file, line and field.
No row is skipped: a blank line is an error too.
"""

import ast
import csv
import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

import pyarrow as pa
import pyarrow.parquet as pq

from tutti.tasks.benchmarks.errors import BadRow

SHOWN_CHARS = 80  # characters of a value in an error: enough to find it
BATCH_ROWS = 64  # of Parquet: rows with images take megabytes each
CSV_FIELD_CHARS = 2**24  # Python's default limit of 128 KiB is less than some test suites
FORMATS = (".jsonl", ".json", ".csv", ".tsv", ".parquet", ".arrow")


@dataclass(frozen=True)
class Row:
    """One object of a file. Accessors take a field's name and its alternative names."""

    file: Path
    line: int
    data: Mapping[str, Any]
    path: str = ""
    """The dotted path of this object in the line's object; empty at the top."""

    def bad(self, field: str, reason: str) -> NoReturn:
        """Raise `BadRow` for `field`."""
        raise BadRow(self.file, self.line, ".".join(p for p in (self.path, field) if p), reason)

    def name_of(self, *names: str) -> str | None:
        """The first of `names` that has a value here; None if none has."""
        return next((name for name in names if self.data.get(name) is not None), None)

    def value(self, *names: str) -> Any:
        """The value of the first of `names` that has one."""
        name = self.name_of(*names)
        if name is None:
            also = f" (or {', '.join(names[1:])})" if names[1:] else ""
            self.bad(names[0], f"is missing{also}; the row has {', '.join(self.data) or 'nothing'}")
        return self.data[name]

    def text(self, *names: str, empty: bool = False) -> str:
        """Text, unchanged; `empty` accepts text that is only white space."""
        found = self.value(*names)
        if not isinstance(found, str):
            self.wrong(names, found, "text")
        if not empty and not found.strip():
            self.bad(self.name_of(*names) or names[0], "is empty")
        return found

    def text_or(self, default: str, *names: str) -> str:
        """Text, or `default` if none of `names` has a value."""
        return self.text(*names, empty=True) if self.name_of(*names) else default

    def name(self, *names: str) -> str:
        """Non-empty text, or a whole number, which is converted to text: an id, a short answer."""
        found = self.value(*names)
        if isinstance(found, int) and not isinstance(found, bool):
            return str(found)
        return self.text(*names)

    def whole(self, *names: str) -> int:
        """A whole number."""
        found: int = self._typed(names, self.value(*names), int, "a whole number")
        return found

    def number(self, *names: str) -> int | float:
        """A number."""
        found: int | float = self._typed(names, self.value(*names), int | float, "a number")
        return found

    def array(self, *names: str) -> list[Any]:
        """A list, or JSON text that is one."""
        found: list[Any] = self._typed(names, self.json(*names), list, "a list")
        return found

    def texts(self, *names: str) -> list[str]:
        """A list of texts."""
        found = self.array(*names)
        for place, member in enumerate(found):
            if not isinstance(member, str):
                self.bad(f"{self.name_of(*names)}.{place}", f"{shown(member)} is not text")
        return found

    def object(self, *names: str) -> "Row":
        """An object, or JSON text that is one."""
        found = self._typed(names, self.json(*names), dict, "an object")
        return self.inner(self.name_of(*names) or names[0], found)

    def objects(self, *names: str) -> list["Row"]:
        """A list of objects."""
        field = self.name_of(*names) or names[0]
        rows = []
        for place, member in enumerate(self.array(*names)):
            if not isinstance(member, dict):
                self.bad(f"{field}.{place}", f"{shown(member)} is not an object")
            rows.append(self.inner(f"{field}.{place}", member))
        return rows

    def texts_or(self, name: str) -> list[str]:
        """A list of texts; empty if it is missing."""
        return self.texts(name) if self.name_of(name) else []

    def objects_or(self, name: str) -> list["Row"]:
        """A list of objects; empty if it is missing."""
        return self.objects(name) if self.name_of(name) else []

    def object_or(self, name: str) -> "Row":
        """An object; empty if it is missing."""
        return self.object(name) if self.name_of(name) else self.inner(name, {})

    def inner(self, name: str, data: Mapping[str, Any]) -> "Row":
        """The object at `name` inside this one."""
        return Row(self.file, self.line, data, ".".join(p for p in (self.path, name) if p))

    def json(self, *names: str) -> Any:
        """Any value; text is read as JSON."""
        found = self.value(*names)
        if not isinstance(found, str):
            return found
        try:
            return json.loads(found)
        except (ValueError, RecursionError) as error:
            self.bad(self.name_of(*names) or names[0], f"{shown(found)} is not JSON: {error}")

    def literal(self, *names: str) -> Any:
        """Any value; text is parsed as a Python literal, as tables use for lists and objects."""
        found = self.value(*names)
        if not isinstance(found, str):
            return found
        try:
            return ast.literal_eval(found)
        except (ValueError, SyntaxError, RecursionError, MemoryError) as error:
            self.bad(self.name_of(*names) or names[0], f"{shown(found)} is no literal: {error}")

    def _typed(self, names: tuple[str, ...], found: Any, kind: Any, wanted: str) -> Any:
        if isinstance(found, bool) or not isinstance(found, kind):
            self.wrong(names, found, wanted)
        return found

    def wrong(self, names: tuple[str, ...], found: Any, wanted: str) -> NoReturn:
        """Raise `BadRow` because the value of `names` is not what is `wanted`."""
        self.bad(self.name_of(*names) or names[0], f"{shown(found)} is not {wanted}")


def shown(value: Any) -> str:
    """A value for an error message: its start."""
    text = repr(value)
    return text if len(text) <= SHOWN_CHARS else f"{text[:SHOWN_CHARS]}…"


def read_rows(file: Path, infinity: bool = False) -> Iterator[Row]:
    """Every row of `file`, in its order. Raises BadRow, also for an unknown file extension.
    `infinity`: accept Python's ``Infinity`` and ``NaN`` in JSONL, which are not JSON."""
    kind = file.suffix.lower()
    if kind == ".jsonl":
        return _of_lines(file, float if infinity else _no_constant)
    if kind == ".json":
        return _of_json(file)
    if kind in (".csv", ".tsv"):
        return _of_table(file, "\t" if kind == ".tsv" else ",")
    if kind in (".parquet", ".arrow"):
        return _of_columns(file, _batches(file, kind))
    raise BadRow(file, None, "", f"the ending is none of {', '.join(FORMATS)}")


def read_json(file: Path) -> Any:
    """A file that is one JSON value. Raises BadRow."""
    try:
        return json.loads(file.read_bytes().decode("utf-8-sig"), parse_constant=_no_constant)
    except json.JSONDecodeError as error:
        raise BadRow(file, error.lineno, "", f"not JSON: {error}") from error
    except (ValueError, RecursionError) as error:
        raise BadRow(file, None, "", f"not JSON: {error}") from error


def as_row(file: Path, line: int, value: Any) -> Row:
    """`value` as a row. Raises BadRow if it is not an object."""
    if not isinstance(value, dict):
        raise BadRow(file, line, "", f"{shown(value)} is not an object")
    return Row(file, line, value)


def _no_constant(text: str) -> NoReturn:
    raise ValueError(f"{text} is not JSON")


def _of_lines(file: Path, constant: Callable[[str], float] = _no_constant) -> Iterator[Row]:
    with file.open("rb") as lines:
        for number, line in enumerate(lines, 1):
            try:
                value = json.loads(line.decode("utf-8-sig"), parse_constant=constant)
            except (ValueError, RecursionError) as error:
                reason = f"not JSON: {error}" if line.strip() else "a blank line"
                raise BadRow(file, number, "", reason) from error
            yield as_row(file, number, value)


def _of_json(file: Path) -> Iterator[Row]:
    """A list of objects; BFCL and others store JSON lines with the extension ``.json``."""
    with file.open("rb") as opened:
        lines = opened.read(1) == b"{"
    if lines:
        yield from _of_lines(file)
        return
    values = read_json(file)
    if not isinstance(values, list):
        raise BadRow(file, None, "", "not a list of objects")
    for number, value in enumerate(values, 1):
        yield as_row(file, number, value)


def _of_table(file: Path, separator: str) -> Iterator[Row]:
    csv.field_size_limit(CSV_FIELD_CHARS)
    with file.open(encoding="utf-8-sig", newline="") as lines:
        reader = csv.DictReader(lines, delimiter=separator, strict=True)
        try:
            for values in reader:
                yield _table_row(file, reader.line_num, values)
        except (csv.Error, UnicodeDecodeError) as error:
            raise BadRow(file, reader.line_num, "", f"not a table: {error}") from error


def _table_row(file: Path, line: int, values: Mapping[str, Any]) -> Row:
    row = Row(file, line, values)
    if None in values:
        row.bad("", "has more fields than the heading")
    missing = [name for name, value in values.items() if value is None]
    if missing:
        row.bad(missing[0], "the row ends before this field")
    return row


def _of_columns(file: Path, batches: Iterator[pa.RecordBatch]) -> Iterator[Row]:
    rows = (values for batch in batches for values in batch.to_pylist())
    try:
        for number, values in enumerate(rows, 1):
            yield Row(file, number, values)
    except pa.ArrowInvalid as error:
        raise BadRow(file, None, "", f"not {file.suffix[1:].capitalize()}: {error}") from error


def _batches(file: Path, kind: str) -> Iterator[pa.RecordBatch]:
    """Small batches of Parquet, or of a stream of Arrow, as the library `datasets` saves it."""
    if kind == ".parquet":
        with pq.ParquetFile(file) as table:
            yield from table.iter_batches(batch_size=BATCH_ROWS)
        return
    with pa.memory_map(str(file)) as mapped, pa.ipc.open_stream(mapped) as stream:
        for batch in stream:
            for start in range(0, batch.num_rows, BATCH_ROWS):
                yield batch.slice(start, BATCH_ROWS)
