"""Databases that share their unchanged records. The module is sent to the sandbox, as `source` is.

In: a domain's own records. Out: the database of a call, and its result, with the identical objects
where nothing changed.
"""

import json
import marshal
from collections.abc import Iterator, Mapping, MutableMapping
from typing import Any

SURE = frozenset({str, int, bool, type(None)})
"""Types whose equal values are one value: the floats 0.0 and -0.0 are equal."""


canonical = json.JSONEncoder(sort_keys=True, default=str).encode
"""JSON with sorted keys."""
strict_json = json.JSONEncoder(allow_nan=False).encode
"""JSON of plain data. Raises TypeError, ValueError."""


def piece(key: str, text: str) -> str:
    """Return a key with the canonical JSON of its value."""
    return f"{json.dumps(key)}: {text}"


def joined(pieces: dict[str, str]) -> str:
    """The canonical JSON of an object from its pieces, which are in the order of their keys."""
    return "{" + ", ".join(pieces.values()) + "}"


def plain(value: Any) -> Any:
    """Return `value` in types that JSON has. Raises TypeError, ValueError."""
    return json.loads(strict_json(value))


def copied(value: Any) -> Any:
    """Return a deep copy of plain data; ten times as fast as `copy.deepcopy`."""
    return marshal.loads(marshal.dumps(value))


class Closed:
    """Placeholder in a `Lazy` for a value that was not read yet. It is not JSON: if it gets into a
    result, the call fails."""


CLOSED = Closed()


class Originals:
    """A domain's own records, which most databases share, with cached values: bytes for copies and
    comparisons, and texts for the hash."""

    def __init__(self, records: dict[str, Any]) -> None:
        self.records = records
        every = (record for keyed in records.values() for record in keyed.values())
        # By id, which no other object is given while they are held.
        self._packed: dict[int, bytes] = dict.fromkeys(map(id, (*records.values(), *every)), b"")
        self._pieces: dict[str, dict[str, str]] = {}
        self._texts: dict[str, str] = {}

    def copy_of(self, value: Any) -> Any:
        """Return a deep copy of a table or a record."""
        return marshal.loads(self._bytes_of(value))

    def is_kept(self, value: Any, kept: Any) -> bool:
        """Whether a value equals the original from which it was copied."""
        return flat_bytes(value) == self._bytes_of(kept) or same(value, kept)

    def pieces(self, table: str) -> dict[str, str]:
        """Return by key the pieces ``"key": record`` of a table's canonical JSON."""
        if table not in self._pieces:
            keyed = self.records.get(table, {})
            self._pieces[table] = {k: piece(k, canonical(keyed[k])) for k in sorted(keyed)}
        return self._pieces[table]

    def text(self, table: str) -> str:
        """Return the canonical JSON of a table."""
        if table not in self._texts:
            self._texts[table] = joined(self.pieces(table))
        return self._texts[table]

    def _bytes_of(self, value: Any) -> bytes:
        packed = self._packed.get(id(value))
        if packed:
            return packed
        made = marshal.dumps(value, 0)
        if packed is not None:
            self._packed[id(value)] = made
        return made


class Lazy(dict[str, Any]):
    """A dictionary whose values are copied from another on first access.

    A tool reads a few of some hundred records: copying all would take most of a replay's time.
    """

    def __init__(self, source: dict[str, Any], originals: Originals, deep: bool = False) -> None:
        """`deep`: the values are tables, whose records are copied one by one."""
        super().__init__(dict.fromkeys(source, CLOSED))
        self.source, self.originals, self.deep = source, originals, deep
        self.was_whole = False
        """Whether all was opened at once."""

    # These read values by `__getitem__`, which the methods of `dict` do not.
    get = Mapping.get  # type: ignore[assignment]
    setdefault = MutableMapping.setdefault
    __eq__ = Mapping.__eq__

    def _opened(self, value: Any) -> Any:
        if self.deep and type(value) is dict:
            return Lazy(value, self.originals)
        return self.originals.copy_of(value)

    def __getitem__(self, key: str) -> Any:
        value = super().__getitem__(key)
        if value is CLOSED:
            value = self[key] = self._opened(self.source[key])
        return value

    def __iter__(self) -> Iterator[str]:
        # Without it `dict(lazy)` and `{**lazy}` would read the closed values.
        return iter(list(super().keys()))

    def items(self) -> Any:
        """Copy all values first."""
        self._open_all()
        return super().items()

    def values(self) -> Any:
        """Copy all values first."""
        self._open_all()
        return super().values()

    def pop(self, key: str, *default: Any) -> Any:
        """Copy the value first."""
        self.get(key)
        return super().pop(key, *default)

    def popitem(self) -> tuple[str, Any]:
        """Copy all values first."""
        self._open_all()
        return super().popitem()

    def copy(self) -> dict[str, Any]:
        """Return a plain dictionary."""
        return dict(self.items())

    def _open_all(self) -> None:
        closed = [key for key, value in super().items() if value is CLOSED]
        if self.deep or len(closed) < len(self.source):
            self.update({key: self._opened(self.source[key]) for key in closed})
        else:
            self.was_whole = True
            self.update(self.originals.copy_of(self.source))

    def result(self) -> dict[str, Any]:
        """Return the dictionary that it represents: the source itself if they are equal, else with
        the source's own value for each that is unread or unchanged."""
        opened = {key: value for key, value in super().items() if value is not CLOSED}
        if self.was_whole and self.originals.is_kept(opened, self.source):
            return self.source
        held = {key: self._held(key, value) for key, value in opened.items()}
        kept = all(value is self.source.get(key, CLOSED) for key, value in held.items())
        if kept and len(self) == len(self.source):
            return self.source
        return {key: held[key] if key in held else self.source[key] for key in self}

    def _held(self, key: str, value: Any) -> Any:
        kept = self.source.get(key, CLOSED)
        if isinstance(value, Lazy):
            return value.result()
        return kept if kept is not CLOSED and self.originals.is_kept(value, kept) else plain(value)


def flat_bytes(value: Any) -> bytes:
    """Return plain data as bytes that are equal only for equal values and types. Version 0 ignores
    other references to a value. Empty for any other data."""
    try:
        return marshal.dumps(value, 0)
    except ValueError:
        return b""


def same(value: Any, kept: Any) -> bool:
    """Whether two values are equal, including all types in them: 10 == 10.0 in Python, but they
    differ in JSON and in a hash."""
    if value is kept:
        return True
    if type(value) is type(kept) and type(value) in SURE:
        return bool(value == kept)
    return bool(value == kept) and marshal.dumps(value, 0) == marshal.dumps(kept, 0)
