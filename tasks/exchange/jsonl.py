"""Reads other programs' JSON Lines and JSON documents; broken lines are reported and skipped.

In: a file, plain or gzip (recognised by its first bytes). Out: `Fields`, one per line, or an
`ImportIssue` with the line's number. Only one line is in memory at a time. Blank lines are skipped.

A line is refused when it is not JSON, not an object, not UTF-8, nested too deeply or longer than
`MAX_LINE_BYTES`. Python's writers put NaN and Infinity into JSON and lone surrogates into text.
Such a line is accepted with null or U+FFFD in their place, and each place is reported.
"""

import gzip
import json
import math
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any, cast

import orjson

from tutti.tasks.exchange.fields import Fields
from tutti.tasks.exchange.imported import ImportIssue
from tutti.tasks.exchange.rows import repaired, shown

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
    """Parse with NaN, Infinity and lone surrogates accepted. Raises ValueError if it is still
    invalid."""
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
        inner = [child for member in level for child in _children(member)]
        level = [child for child in inner if isinstance(child, dict | list)]
        if not level:
            return False
    return True


def _children(value: Any) -> list[Any]:
    return list(value.values()) if isinstance(value, dict) else list(value)


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
