"""Reads other programs' JSON, and typed values from it; reports what could not be read.

In: a JSON document or JSON Lines, plain or gzip. Out: `Fields`, an object with its place in the
file, or an `ImportIssue` with file, line, dotted field and value. NaN, Infinity and lone
surrogates, which Python's writers put into JSON, are read as null and U+FFFD, and reported. A wrong
value in a minor field costs only that field; `refuse` and `needed` reject the record by
RecordRefused, which `take` converts to issues. Values are checked strictly, except that whole
floats are valid integers, because some writers average counts.
"""

import gzip
import json
import zlib
from collections.abc import Callable, Iterable, Iterator
from datetime import UTC, datetime
from functools import partial, partialmethod
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

from tutti.tasks.exchange.base.imported import ImportedItem, ImportIssue, json_text, repaired, shown

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
    time = datetime.fromisoformat(text)
    return time.astimezone(UTC) if time.tzinfo else time.replace(tzinfo=UTC)


def seconds(start: datetime | None, end: datetime | None) -> float | None:
    """The seconds from `start` to `end`; None if one is unknown or the end is earlier."""
    return (end - start).total_seconds() if start and end and end >= start else None


class Kind(Generic[T]):
    """The kind of a field: its type for pydantic, and its description in issues."""

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
    """A JSON object, its position, and the issues in it so far.

    The name of a field may be a dotted path, as ``usage.prompt_tokens``: if an object on the path
    is missing, so is the field.
    """

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
        return self.get(name) is not None

    def get(self, name: str) -> Any:
        """Return the raw value of `name`; None if it is missing."""
        first, dot, rest = name.partition(".")
        if dot and name not in self.data:
            return self.inner(first).get(rest)
        return self.data.get(name)

    def problem(self, name: str, reason: str) -> None:
        """Record that `name` could not be read; only once per field."""
        issue = ImportIssue(self.file, self.line, self._path_of(name), reason)
        if issue not in self.problems:
            self.problems.append(issue)

    def refuse(self, name: str, reason: str) -> NoReturn:
        """Refuse the record because of `name`."""
        self.problem(name, f"{reason}; the record is not taken")
        raise RecordRefused

    def needed(self, name: str, value: T | None) -> T:
        """Return `value`, which was read from `name`; if it is missing, the record is refused."""
        if value is None:
            self.refuse(name, "is missing" if name not in self else "is needed")
        return value

    def wrong(self, name: str, wanted: str) -> None:
        """Record that the value of `name` is not `wanted`."""
        self.problem(name, f"{shown(self.get(name))} is not {wanted}")

    def read(self, name: str, kind: Kind[T]) -> T | None:
        """Return the value of `name`; None, and an issue, if it is not of this kind."""
        value = self.get(name)
        try:
            return None if value is None else kind.validate(value)
        except OverflowError:  # a time before the first or after the last
            self.wrong(name, kind.wanted)
        except ValidationError as error:
            (first, *_) = error.errors(include_url=False, include_context=False)
            culprit = first["input"] if first["loc"] else value
            place = ".".join(map(str, (name, *first["loc"])))
            self.problem(place, f"{shown(culprit)} is not {kind.wanted}")
        return None

    text = partialmethod[str | None](read, kind=TEXT)
    identity = partialmethod[str | None](read, kind=NAME)
    flag = partialmethod[bool | None](read, kind=FLAG)
    count = partialmethod[int | None](read, kind=COUNT)
    number = partialmethod[float | None](read, kind=NUMBER)
    amount = partialmethod[float | None](read, kind=AMOUNT)
    time = partialmethod[datetime | None](read, kind=TIME)

    def place(self, name: str, default: int, kind: Kind[int] = COUNT) -> int:
        """Return an integer that is part of an id: `default` if the record has no such field. Any
        other value, including null, refuses the record."""
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
        value = self.get(name)
        if value is not None and not isinstance(value, dict):
            self.wrong(name, "an object")
        return self.part(name, value if isinstance(value, dict) else {})

    def part(self, name: str, data: dict[str, Any]) -> "Fields":
        """An object inside this one, as fields of their own."""
        return Fields(self.file, self.line, data, self.problems, self._path_of(name))

    def _path_of(self, name: str) -> str:
        return ".".join(part for part in (self.path, name) if part)

    def array(self, name: str) -> list[Any]:
        """The list `name`; an empty one if it is missing."""
        value = self.get(name)
        if value is None or isinstance(value, list):
            return value or []
        self.wrong(name, "a list")
        return []

    def each(self, name: str, needed: str = "") -> Iterator["Fields"]:
        """The objects of the list `name`; other members are reported and skipped. If `needed` is
        given, such as "a message", another member refuses the record."""
        for place, member in enumerate(self.array(name)):
            if isinstance(member, dict):
                yield self.part(f"{name}.{place}", member)
                continue
            self.problem(f"{name}.{place}", f"{shown(member)} is not {needed or 'an object'}")
            if needed:
                raise RecordRefused

    def score_rows(self, prefix: str = "") -> list[dict[str, Any]]:
        """A row of `scores` for each field that is a number, in their order."""
        values = {name: self.number(name) for name in self.data}
        return [
            {"scorer": f"{prefix}{name}", "value": value}
            for name, value in values.items()
            if value is not None
        ]

    def picked(self, names: Iterable[str]) -> dict[str, Any]:
        """Return the raw values of the existing ones of `names`."""
        return {name: self.data[name] for name in names if name in self}

    def json(self, name: str) -> str | None:
        """The value as JSON text."""
        value = self.get(name)
        return None if value is None else json_text(value)

    def text_or_json(self, name: str) -> str | None:
        """The value if it is text, else the value as JSON text."""
        value = self.get(name)
        return value if isinstance(value, str) else self.json(name)


def compact(**values: Any) -> dict[str, Any]:
    """The non-empty values: a row leaves out unknown ones."""
    return {name: value for name, value in values.items() if value is not None}


def detail_text(**values: Any) -> str | None:
    """The non-empty values as JSON text; None if there are none."""
    known = compact(**values)
    return json_text(known) if known else None


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
GZIP = b"\x1f\x8b"
BOM = b"\xef\xbb\xbf"


def records(path: Path) -> Iterator[Fields | ImportIssue]:
    """Every line's object in order, or the issue of an invalid line."""
    number = 0
    try:
        with _opened(path) as stream:
            raws = iter(partial(stream.readline, MAX_LINE_BYTES + 1), b"")
            for number, raw in enumerate(raws, 1):
                yield from _line(path, number, raw, stream)
    except (OSError, EOFError, zlib.error) as error:
        yield ImportIssue(path, number + 1, "", f"cannot be read from here on: {error}")


def _line(path: Path, number: int, raw: bytes, stream: IO[bytes]) -> Iterator[Fields | ImportIssue]:
    if len(raw) > MAX_LINE_BYTES:
        while raw and not raw.endswith(b"\n"):
            raw = stream.readline(SKIPPED_BYTES)
        limit = MAX_LINE_BYTES // 2**20
        yield ImportIssue(path, number, "", f"the line is longer than {limit} MiB")
    elif raw.strip():
        yield _object(path, number, raw)


def document(path: Path) -> Fields | ImportIssue:
    """Read a file that is one JSON object."""
    try:
        with _opened(path) as stream:
            return _object(path, None, stream.read())
    except (OSError, EOFError, zlib.error) as error:
        return ImportIssue(path, None, "", f"cannot be read: {error}")


def readable(path: Path) -> Fields:
    """Read a file that is one JSON object; an unreadable one has no fields and one issue, which the
    caller reports with its `problems`."""
    found = document(path)
    return Fields(path, None, {}, [found]) if isinstance(found, ImportIssue) else found


def _opened(path: Path) -> IO[bytes]:
    with path.open("rb") as stream:
        is_packed = stream.read(len(GZIP)) == GZIP
    return cast(IO[bytes], gzip.open(path, "rb")) if is_packed else path.open("rb")


def _object(path: Path, line: int | None, raw: bytes) -> Fields | ImportIssue:
    raw, problems = raw.removeprefix(BOM), list[ImportIssue]()
    try:
        value = orjson.loads(raw)
    except orjson.JSONDecodeError:
        try:  # again, with NaN, Infinity and lone surrogates accepted
            given = json.loads(raw.decode())
            value = repaired(given)
        except (ValueError, RecursionError) as error:
            return ImportIssue(path, line, "", f"is not JSON that can be read: {error}")
        members = given.items() if isinstance(given, dict) else ()
        changed = [name for name, inner in members if repaired(inner) != inner]
        reason = "holds NaN, Infinity or half a surrogate pair, taken as null and U+FFFD"
        problems += [ImportIssue(path, line, repaired(name), reason) for name in changed]
    if not isinstance(value, dict):
        return ImportIssue(path, line, "", f"{shown(value)} is not a JSON object")
    try:
        orjson.dumps(value)  # it refuses what is nested too deeply for other code as well
    except orjson.JSONEncodeError as error:
        return ImportIssue(path, line, "", f"is not JSON that can be stored: {error}")
    return Fields(path, line, value, problems)
