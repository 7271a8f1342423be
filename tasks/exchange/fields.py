"""Reads other programs' JSON, and typed values from it; reports exactly what could not be read.

In: a JSON document, or JSON Lines, plain or gzip (recognised by its first bytes). Out: `Fields`, an
object with its place in the file, one at a time, or an `ImportIssue` with the file, the line, the
dotted field and the value. Blank lines are skipped. A line is refused when it is not JSON, not an
object, not UTF-8, nested too deeply or longer than `MAX_LINE_BYTES`. Python's writers put NaN and
Infinity into JSON and lone surrogates into text: such a line is accepted with null or U+FFFD in
their place, and each place is reported.

A wrong value in a minor field costs only that field. `refuse` and `needed` give up the whole record
by raising `RecordRefused`, which `take` turns into the record's issues. Pydantic checks the values,
strictly: text is not a number, a number is not text, and true is not 1. Only whole floats are
accepted as integers, because some writers average and sum counts as floats.
"""

import gzip
import json
import math
import zlib
from collections.abc import Callable, Iterable, Iterator
from datetime import UTC, datetime
from functools import partialmethod
from pathlib import Path
from typing import IO, Annotated, Any, Generic, NoReturn, TypeVar, cast

import orjson
from pydantic import (
    AfterValidator,
    BeforeValidator,
    FailFast,
    Field,
    FiniteFloat,
    Strict,
    StrictBool,
    StrictInt,
    StrictStr,
    TypeAdapter,
    ValidationError,
)

from tutti.tasks.exchange.imported import ImportedItem, ImportIssue, json_text, repaired, shown

T = TypeVar("T")

INT64, INT32 = 2**63, 2**31
FLOAT32 = 3.4e38  # the largest float of 32 bits, rounded down
HAS_NAME = r"\A[^\x00]*[^\x00\s][^\x00]*\z"  # no NUL, and not only blanks
LATEST_S = 253_402_300_799.0  # the end of the year 9999, after which Python has no dates


def _named(value: Any) -> Any:
    return str(value) if isinstance(value, int) and not isinstance(value, bool) else value


def _whole(value: Any) -> Any:
    return int(value) if isinstance(value, float) and value.is_integer() else value


def _in_utc(text: str) -> datetime:
    found = datetime.fromisoformat(text)
    return found.astimezone(UTC) if found.tzinfo else found.replace(tzinfo=UTC)


class Kind(Generic[T]):
    """What a field may hold: a type as pydantic knows it, and the words for it in issues."""

    def __init__(self, wanted: str, type: Any) -> None:
        self.wanted = wanted
        self.validate: Callable[[Any], T] = TypeAdapter(type).validate_python


Int = Annotated[StrictInt, BeforeValidator(_whole), Field(ge=-INT64, lt=INT64)]
Float = Annotated[FiniteFloat, Strict()]
TEXT = Kind[str]("text", StrictStr)  # empty or not
# a whole number is converted to text
NAME = Kind[str]("a name", Annotated[StrictStr, BeforeValidator(_named), Field(pattern=HAS_NAME)])
FLAG = Kind[bool]("true or false", StrictBool)
INTEGER = Kind[int]("a whole number", Int)
COUNT = Kind[int]("a whole number from 0 on", Annotated[Int, Field(ge=0)])
POSITIVE = Kind[int]("a whole number from 1 on", Annotated[Int, Field(ge=1)])
NUMBER = Kind[float]("a finite number", Float)
# seconds or money
AMOUNT = Kind[float]("a finite number from 0 on", Annotated[Float, Field(ge=0)])
EPOCH = Kind[float]("a time in seconds since 1970", Annotated[Float, Field(ge=0, le=LATEST_S)])
TokenId = Annotated[StrictInt, Field(ge=0, lt=INT32)]
Logprob = Annotated[Float, Field(ge=-FLOAT32, le=FLOAT32)]
TOKENS = Kind[list[int]]("a token id", Annotated[list[TokenId], FailFast()])
LOGPROBS = Kind[list[float]]("a finite number", Annotated[list[Logprob], FailFast()])
# one without a zone is taken as UTC
TIME = Kind[datetime]("a time in ISO 8601", Annotated[StrictStr, AfterValidator(_in_utc)])


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

    def read(self, name: str, kind: Kind[T]) -> T | None:
        """The value of `name`; None, and an issue, where it is not of this kind."""
        value = self.data.get(name)
        try:
            return None if value is None else kind.validate(value)
        except OverflowError:  # a time before the first or after the last
            self.wrong(name, kind.wanted)
        except ValidationError as error:
            (first, *_) = error.errors(include_url=False, include_context=False)
            place = ".".join(map(str, (name, *first["loc"])))
            found = value if place == name else first["input"]
            self.problem(place, f"{shown(found)} is not {kind.wanted}")
        return None

    text = partialmethod[str | None](read, kind=TEXT)
    identity = partialmethod[str | None](read, kind=NAME)
    flag = partialmethod[bool | None](read, kind=FLAG)
    count = partialmethod[int | None](read, kind=COUNT)
    number = partialmethod[float | None](read, kind=NUMBER)
    amount = partialmethod[float | None](read, kind=AMOUNT)
    time = partialmethod[datetime | None](read, kind=TIME)

    def place(self, name: str, default: int, kind: Kind[int] = COUNT) -> int:
        """A whole number that is part of an id: `default` if the record has no such field. Any
        other value, null too, refuses the record."""
        return self.needed(name, self.read(name, kind)) if name in self.data else default

    def epoch(self, name: str) -> datetime | None:
        """A time as Unix seconds; 0 means that no time was recorded."""
        unix = self.read(name, EPOCH)
        return datetime.fromtimestamp(unix, UTC) if unix else None

    def sampled(self, ids: str, logprobs: str) -> dict[str, Any]:
        """Columns of an answer: tokens and, if there are as many, their log-probabilities."""
        tokens, values = self.read(ids, TOKENS), self.read(logprobs, LOGPROBS)
        if tokens and values and len(tokens) != len(values):
            self.problem(logprobs, f"{len(values)} values for {len(tokens)} tokens")
            values = None
        return compact(token_ids=tokens or None, logprobs=values or None)

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

    def each(self, name: str, needed: str = "") -> Iterator["Fields"]:
        """The objects of the list `name`; other members are reported and skipped. Of `needed` ones,
        such as "a message", another member refuses the record."""
        for place, member in enumerate(self.array(name)):
            if isinstance(member, dict):
                yield self.member(name, place, member)
            elif needed:
                self.refuse(f"{name}.{place}", f"{shown(member)} is not {needed}")
            else:
                self.problem(f"{name}.{place}", f"{shown(member)} is not an object")

    def score_rows(self, prefix: str = "") -> list[dict[str, Any]]:
        """A row of `scores` for each field that is a number, in their order."""
        values = {name: self.number(name) for name in self.data}
        return [
            {"scorer": f"{prefix}{name}", "value": value}
            for name, value in values.items()
            if value is not None
        ]

    def member(self, name: str, place: int, data: dict[str, Any]) -> "Fields":
        """An object of the list `name`, as fields of their own."""
        path = self.where(f"{name}.{place}")
        return Fields(self.file, self.line, data, self.problems, path)

    def json(self, name: str) -> str | None:
        """The value as JSON text."""
        value = self.data.get(name)
        try:
            return None if value is None else json_text(value)
        except RecursionError:
            self.problem(name, "is nested too deeply")
            return None


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
    """Apply `read` to each record; yields its issues and results, of a refused one only issues."""
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


# a rollout with its tokens takes a few; a file without line breaks is unbounded
MAX_LINE_BYTES = 256 * 2**20
SKIPPED_BYTES = 2**20  # read at once while looking for the end of a line that is too long
MAX_DEPTH = 200  # levels of nesting: far beyond any record, and still serialisable
LISTED_PLACES = 20  # NaNs of one record that are reported one by one; the rest are counted
GZIP = b"\x1f\x8b"
BOM = b"\xef\xbb\xbf"


def records(path: Path) -> Iterator[Fields | ImportIssue]:
    """Every line's object in order, or the issue of an invalid line."""
    number = 0
    try:
        with _opened(path) as stream:
            while raw := stream.readline(MAX_LINE_BYTES + 1):
                number += 1
                yield from _record(path, number, raw, stream)
    except (OSError, EOFError, zlib.error) as error:
        yield _unreadable(path, number + 1, error)


def _record(
    path: Path, number: int, raw: bytes, stream: IO[bytes]
) -> Iterator[Fields | ImportIssue]:
    """The object of a line that begins with `raw`; none for a blank line."""
    if len(raw) > MAX_LINE_BYTES:
        _skip_line(stream, raw)
        limit = MAX_LINE_BYTES // 2**20
        yield ImportIssue(path, number, "", f"the line is longer than {limit} MiB")
    elif raw.strip():
        raw = raw.removeprefix(BOM) if number == 1 else raw
        yield _object(path, number, raw)


def document(path: Path) -> Fields | ImportIssue:
    """Read a file that is one JSON object."""
    try:
        with _opened(path) as stream:
            raw = stream.read()
    except (OSError, EOFError, zlib.error) as error:
        return _unreadable(path, None, error)
    return _object(path, None, raw.removeprefix(BOM))


def readable(path: Path) -> Fields:
    """Read a file that is one JSON object; an unreadable one has no fields and one issue, which the
    caller reports with its `problems`."""
    found = document(path)
    return Fields(path, None, {}, [found]) if isinstance(found, ImportIssue) else found


def _opened(path: Path) -> IO[bytes]:
    stream = path.open("rb")
    try:
        packed = stream.read(len(GZIP)) == GZIP
        stream.seek(0)
    except OSError:
        stream.close()
        raise
    if not packed:
        return stream
    stream.close()
    return cast(IO[bytes], gzip.open(path, "rb"))


def _skip_line(stream: IO[bytes], raw: bytes) -> None:
    while raw and not raw.endswith(b"\n"):
        raw = stream.readline(SKIPPED_BYTES)


def _unreadable(path: Path, line: int | None, error: Exception) -> ImportIssue:
    what = "cannot be read" if line in (None, 1) else "cannot be read from here on"
    return ImportIssue(path, line, "", f"{what}: {error}")


def _object(path: Path, line: int | None, raw: bytes) -> Fields | ImportIssue:
    try:
        value, clean = orjson.loads(raw), True
    except orjson.JSONDecodeError as error:
        try:
            value, clean = _lenient(raw, str(error)), False
        except ValueError as reason:
            return ImportIssue(path, line, "", _broken(raw, line, str(reason)))
    if not isinstance(value, dict):
        return ImportIssue(path, line, "", f"{shown(value)} is not a JSON object")
    if _deeper(value, MAX_DEPTH):
        return ImportIssue(path, line, "", f"is nested more than {MAX_DEPTH} levels deep")
    if clean:
        return Fields(path, line, value)
    found = Fields(path, line, {})
    found.data = _repaired(found, value)
    return found


def _lenient(raw: bytes, reason: str) -> Any:
    """Parse with NaN, Infinity and lone surrogates accepted. Raises ValueError if still invalid."""
    try:
        return json.loads(raw.decode())
    except UnicodeDecodeError as error:
        raise ValueError(f"is not UTF-8 at byte {error.start}") from error
    except ValueError as error:
        raise ValueError(f"is not JSON: {error}") from error
    except RecursionError as error:
        raise ValueError(f"is not JSON that can be read: {reason}") from error


def _broken(raw: bytes, line: int | None, reason: str) -> str:
    if line is None or raw.endswith(b"\n"):
        return reason
    return f"{reason} (the last line, without an end: it may still be written)"


def _deeper(value: Any, levels: int) -> bool:
    """Whether `value` is nested more than `levels` deep; iterative, to avoid recursion limits."""
    level = [value]
    for _ in range(levels):
        members = (each.values() if isinstance(each, dict) else each for each in level)
        level = [each for inner in members for each in inner if isinstance(each, dict | list)]
        if not level:
            return False
    return True


def _repaired(found: Fields, value: dict[str, Any]) -> dict[str, Any]:
    """`value` with what the store cannot hold replaced; the changes are added to `found`."""
    places = list(_odd_places(value, ""))
    for place, what in places[:LISTED_PLACES]:
        found.problem(place, what)
    if len(places) > LISTED_PLACES:
        found.problem("", f"and {len(places) - LISTED_PLACES} more such places")
    whole: dict[str, Any] = repaired(value)
    return whole


def _odd_places(value: Any, path: str) -> Iterator[tuple[str, str]]:
    if isinstance(value, dict):
        for name, inner in value.items():
            if repaired(name) != name:
                yield path, "a name holds half a surrogate pair, taken as U+FFFD"
            yield from _odd_places(inner, f"{path}.{repaired(name)}" if path else repaired(name))
    elif isinstance(value, list):
        for place, inner in enumerate(value):
            yield from _odd_places(inner, f"{path}.{place}")
    elif isinstance(value, float) and not math.isfinite(value):
        yield path, f"{value} is no number, taken as null"
    elif isinstance(value, str) and repaired(value) != value:
        yield path, "holds half a surrogate pair, taken as U+FFFD"
