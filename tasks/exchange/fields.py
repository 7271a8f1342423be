"""Reads typed values from a foreign record and reports exactly which could not be read.

In: one JSON object and its place in a file. Out: values of the wanted type, or None and an
`ImportIssue` that names the file, the line, the dotted field and the value. A wrong value in a
minor field costs only that field. `refuse` and `needed` give up the whole record by raising
`RecordRefused`, which `take` turns into the record's issues.

Values are never converted by guess: text is not a number, a number is not text, and true is not 1.
Only whole floats are accepted as integers, because some writers average and sum counts as floats.
"""

import json
import math
from collections.abc import Callable, Iterable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NoReturn, TypeVar

from tutti.tasks.exchange.imported import ImportedItem, ImportIssue
from tutti.tasks.exchange.rows import json_text, repaired, shown

T = TypeVar("T")

INT64 = 2**63
INT32 = 2**31
FLOAT32 = 3.4e38  # the largest float of 32 bits, rounded down
LATEST_S = 253_402_300_799.0  # the end of the year 9999, after which Python has no dates


class RecordRefused(Exception):
    """The record cannot be read; its issues say why."""


class Fields:
    """A JSON object, its position, and the issues found in it so far."""

    def __init__(
        self,
        file: Path,
        line: int | None,
        data: dict[str, Any],
        problems: list[ImportIssue] | None = None,
        path: str = "",
    ) -> None:
        self.file = file
        self.line = line
        self.data = data
        self.problems: list[ImportIssue] = [] if problems is None else problems
        self.path = path

    def __contains__(self, name: str) -> bool:
        return self.data.get(name) is not None

    def where(self, name: str) -> str:
        """The dotted path of `name` from the top of the record."""
        return ".".join(part for part in (self.path, name) if part)

    def problem(self, name: str, reason: str) -> None:
        """Record that `name` could not be read; only once per field."""
        found = ImportIssue(self.file, self.line, self.where(name), reason)
        if found not in self.problems:
            self.problems.append(found)

    def refuse(self, name: str, reason: str) -> NoReturn:
        """Refuse the record because of `name`."""
        self.problem(name, f"{reason}; the record is not taken")
        raise RecordRefused

    def needed(self, name: str, value: T | None) -> T:
        """`value`, which was read from `name`; if it is missing, the record is refused."""
        if value is None:
            self.refuse(name, "is missing" if name not in self else "is needed")
        return value

    def wrong(self, name: str, wanted: str) -> None:
        """Record that the value of `name` is not `wanted`."""
        self.problem(name, f"{shown(self.data[name])} is not {wanted}")

    def text(self, name: str) -> str | None:
        """Text, empty or not."""
        value = self.data.get(name)
        if value is None or isinstance(value, str):
            return value
        self.wrong(name, "text")
        return None

    def identity(self, name: str) -> str | None:
        """A name: non-empty text, or a whole number, which is converted to text."""
        value = self.data.get(name)
        if isinstance(value, int) and not isinstance(value, bool):
            return str(value)
        if value is None or (isinstance(value, str) and value.strip() and "\0" not in value):
            return value
        self.wrong(name, "a name")
        return None

    def flag(self, name: str) -> bool | None:
        """True or false."""
        value = self.data.get(name)
        if value is None or isinstance(value, bool):
            return value
        self.wrong(name, "true or false")
        return None

    def integer(self, name: str, least: int = -INT64) -> int | None:
        """A 64-bit whole number, at least `least`."""
        value = self.data.get(name)
        if value is None:
            return None
        whole = _whole(value)
        if whole is None or not max(least, -INT64) <= whole < INT64:
            self.wrong(name, _wanted("a whole number", least, -INT64))
            return None
        return whole

    def count(self, name: str) -> int | None:
        """A non-negative whole number."""
        return self.integer(name, least=0)

    def place(self, name: str, default: int, least: int) -> int:
        """A whole number that is part of an id: `default` if the record has no such field. Any
        other value, null too, refuses the record."""
        if name not in self.data:
            return default
        return self.needed(name, self.integer(name, least))

    def number(self, name: str, least: float = -math.inf) -> float | None:
        """A finite number, at least `least`."""
        value = self.data.get(name)
        if value is None:
            return None
        found = finite(value)
        if found is None or found < least:
            self.wrong(name, _wanted("a finite number", least, -math.inf))
            return None
        return found

    def amount(self, name: str) -> float | None:
        """Seconds or money: a finite non-negative number."""
        return self.number(name, least=0.0)

    def epoch(self, name: str) -> datetime | None:
        """A time as Unix seconds; 0 means that no time was recorded."""
        value = self.amount(name)
        if value is None or value == 0.0:
            return None
        if value > LATEST_S:
            self.wrong(name, "a time in seconds since 1970")
            return None
        return datetime.fromtimestamp(value, UTC)

    def time(self, name: str) -> datetime | None:
        """A time in ISO 8601. One without a zone is taken as UTC."""
        text = self.text(name)
        if text is None:
            return None
        try:
            found = datetime.fromisoformat(text)
            return found.astimezone(UTC) if found.tzinfo else found.replace(tzinfo=UTC)
        except (ValueError, OverflowError):
            self.wrong(name, "a time in ISO 8601")
            return None

    def inner(self, name: str) -> "Fields":
        """The object `name`; an empty one if it is missing."""
        value = self.data.get(name)
        if value is not None and not isinstance(value, dict):
            self.wrong(name, "an object")
        data = value if isinstance(value, dict) else {}
        return Fields(self.file, self.line, data, self.problems, self.where(name))

    def array(self, name: str) -> list[Any]:
        """The list `name`; an empty one if it is missing."""
        value = self.data.get(name)
        if value is None or isinstance(value, list):
            return value or []
        self.wrong(name, "a list")
        return []

    def each(self, name: str) -> Iterator["Fields"]:
        """The objects of the list `name`; other members are reported and skipped."""
        for place, member in enumerate(self.array(name)):
            if isinstance(member, dict):
                yield self.member(name, place, member)
            else:
                self.problem(f"{name}.{place}", f"{shown(member)} is not an object")

    def member(self, name: str, place: int, data: dict[str, Any]) -> "Fields":
        """An object of the list `name`, as fields of their own."""
        path = self.where(f"{name}.{place}")
        return Fields(self.file, self.line, data, self.problems, path)

    def integers(self, name: str) -> list[int] | None:
        """A list of non-negative 32-bit whole numbers (token ids)."""
        found = self.array(name)
        for place, value in enumerate(found):
            if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value < INT32:
                self.problem(f"{name}.{place}", f"{shown(value)} is not a token id")
                return None
        return found or None

    def numbers(self, name: str) -> list[float] | None:
        """A list of finite 32-bit floats (log-probabilities)."""
        found = self.array(name)
        numbers = [finite(value, FLOAT32) for value in found]
        if None in numbers:
            place = numbers.index(None)
            self.problem(f"{name}.{place}", f"{shown(found[place])} is not a finite number")
            return None
        return [value for value in numbers if value is not None] or None

    def json(self, name: str) -> str | None:
        """The value as JSON text."""
        value = self.data.get(name)
        try:
            return None if value is None else json_text(value)
        except RecursionError:
            self.problem(name, "is nested too deeply")
            return None


def finite(value: Any, most: float = math.inf) -> float | None:
    """`value` as a float if it is a finite number with an absolute value of at most `most`; else
    None."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    try:
        found = float(value)
    except OverflowError:  # a whole number too large for a float
        return None
    return found if math.isfinite(found) and abs(found) <= most else None


def _whole(value: Any) -> int | None:
    if isinstance(value, float) and value.is_integer():
        return int(value)
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def _wanted(kind: str, least: float, none: float) -> str:
    return kind if least == none else f"{kind} from {least:g} on"


def compact(**values: Any) -> dict[str, Any]:
    """The non-empty values: a row leaves out unknown ones."""
    return {name: value for name, value in values.items() if value is not None}


def detail_text(**values: Any) -> str | None:
    """The non-empty values as JSON text; None if there are none."""
    found = compact(**values)
    return json_text(found) if found else None


def parsed(text: str) -> Any:
    """JSON inside a text field; None if it is invalid."""
    try:
        return repaired(json.loads(text))
    except (ValueError, RecursionError):
        return None


def take(
    found: Iterable[Fields | ImportIssue], read: Callable[[Fields], Iterable[ImportedItem]]
) -> Iterator[ImportedItem]:
    """Apply `read` to each record and yield the record's issues and its results. A refused record
    yields only its issues."""
    for record in found:
        if isinstance(record, ImportIssue):
            yield record
            continue
        try:
            taken = list(read(record))
        except RecordRefused:
            taken = []
        yield from record.problems
        yield from taken
