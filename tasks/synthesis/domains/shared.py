"""Databases that share what no call has changed. Sent to the sandbox, as `source` is.

In: a domain's own records. Out: what a tool is given as its database, and what it left of it, with
the very same objects where nothing changed.
"""

import json
import marshal
from collections.abc import Collection, Iterator
from itertools import chain
from operator import is_
from typing import Any

SCALARS = frozenset({str, int, float, bool, type(None)})
SURE = SCALARS - {float}
"""Of which equal ones are one value: 0.0 and -0.0 are equal."""


canonical = json.JSONEncoder(sort_keys=True, default=str).encode
"""JSON with sorted keys."""
strict_json = json.JSONEncoder(allow_nan=False).encode
"""JSON of plain data. Raises TypeError, ValueError."""


def piece(key: str, text: str) -> str:
    """A key with the canonical JSON of its value."""
    return f"{json.dumps(key)}: {text}"


def joined(pieces: dict[str, str]) -> str:
    """The canonical JSON of an object from its pieces, which are in the order of their keys."""
    return "{" + ", ".join(pieces.values()) + "}"


def plain(value: Any) -> Any:
    """`value` as JSON can hold it. Raises TypeError, ValueError."""
    return json.loads(strict_json(value))


def copied(value: Any) -> Any:
    """A deep copy of plain data; ten times as fast as `copy.deepcopy`."""
    return marshal.loads(marshal.dumps(value))


class Closed:
    """Stands in a `Lazy` for what nobody has looked at. It is no JSON, so that where one gets
    through, the call fails instead of going wrong."""


CLOSED = Closed()


class Originals:
    """A domain's own records, which most databases share, and what is made of them only once: bytes
    to copy them from and to compare with, and their texts for the hash."""

    def __init__(self, records: dict[str, Any]) -> None:
        self.records = records
        every = (record for keyed in records.values() for record in keyed.values())
        # By id, which no other object is given while they are held.
        self._levels = dict.fromkeys(map(id, (*records.values(), *every)), -1)
        self._packed: dict[tuple[int, int], bytes] = {}
        self._pieces: dict[str, dict[str, str]] = {}
        self._texts: dict[str, str] = {}

    def copy_of(self, value: Any) -> Any:
        """A copy of a table or a record, to its last list."""
        match self._level(value):
            case 1:
                return value.copy()
            case 2:
                return {key: record.copy() for key, record in value.items()}
        return marshal.loads(self._bytes_of(value, marshal.version))

    def is_kept(self, value: Any, kept: Any) -> bool:
        """Whether a value is as it was copied: `same`, but faster where nothing was replaced."""
        level = self._level(kept)
        if level and type(value) is dict and same_objects(value, kept, level):
            return True
        return flat_bytes(value) == self._bytes_of(kept, 0) or same(value, kept)

    def pieces(self, table: str) -> dict[str, str]:
        """Of each key of a table, the piece ``"key": record`` of the table's canonical JSON."""
        if table not in self._pieces:
            keyed = self.records.get(table, {})
            self._pieces[table] = {k: piece(k, canonical(keyed[k])) for k in sorted(keyed)}
        return self._pieces[table]

    def text(self, table: str) -> str:
        """The canonical JSON of a table."""
        if table not in self._texts:
            self._texts[table] = joined(self.pieces(table))
        return self._texts[table]

    def _level(self, value: Any) -> int:
        """1 for a record without lists and objects in it, 2 for a table of such; 0 for others, and
        for what is not the domain's own."""
        level = self._levels.get(id(value), 0)
        if level < 0:
            level = self._levels[id(value)] = level_of(value)
        return level

    def _bytes_of(self, value: Any, version: int) -> bytes:
        if id(value) not in self._levels:
            return marshal.dumps(value, version)
        if (id(value), version) not in self._packed:
            self._packed[id(value), version] = marshal.dumps(value, version)
        return self._packed[id(value), version]


def level_of(value: dict[str, Any]) -> int:
    """How many levels of objects hold nothing but texts, numbers, booleans and nulls: 1 or 2; 0 for
    other values."""
    kinds = {type(each) for each in value.values()}
    if kinds <= SCALARS:
        return 1
    return 2 if kinds == {dict} and all(level_of(each) == 1 for each in value.values()) else 0


def same_objects(value: dict[str, Any], kept: dict[str, Any], level: int) -> bool:
    """Whether two values are equal and hold the very same objects at the level of their scalars, so
    that the types are the same, too."""
    if value != kept:
        return False
    # By key: a tool that fills a record anew may leave its fields in another order.
    if level == 1:
        return all(map(is_, map(value.__getitem__, kept), kept.values()))
    ours = chain.from_iterable(map(value[key].__getitem__, kept[key]) for key in kept)
    return all(map(is_, ours, chain.from_iterable(map(dict.values, kept.values()))))


class Lazy(dict[str, Any]):
    """A dictionary whose values are copied from another when they are first looked at.

    A tool looks at a few records of some hundred: copying all would take most of a replay's time.
    """

    def __init__(self, source: dict[str, Any], originals: Originals, deep: bool = False) -> None:
        """`deep`: the values are tables, whose records are opened one by one."""
        super().__init__(dict.fromkeys(source, CLOSED))
        self.source, self.originals, self.deep = source, originals, deep
        self.was_whole = False
        """Whether all was opened at once."""
        self.opened: Collection[str] = ()
        """The keys that were looked at or set, once `result` has been asked for."""

    def _opened(self, value: Any) -> Any:
        if self.deep and type(value) is dict:
            return Lazy(value, self.originals)
        return self.originals.copy_of(value)

    def __getitem__(self, key: str) -> Any:
        value = super().__getitem__(key)
        if value is CLOSED:
            value = self._opened(self.source[key])
            self[key] = value
        return value

    def __iter__(self) -> Iterator[str]:
        # Without it `dict(lazy)` and `{**lazy}` would read the values as they lie.
        return iter(list(super().keys()))

    def get(self, key: str, default: Any = None) -> Any:
        """As of a dictionary."""
        try:
            return self[key]
        except KeyError:
            return default

    def items(self) -> Any:
        """As of a dictionary; all are opened."""
        self.open_all()
        return super().items()

    def values(self) -> Any:
        """As of a dictionary; all are opened."""
        self.open_all()
        return super().values()

    def pop(self, key: str, *default: Any) -> Any:
        """As of a dictionary."""
        found = self.get(key)
        taken = super().pop(key, *default)
        return found if taken is CLOSED else taken

    def popitem(self) -> Any:
        """As of a dictionary."""
        self.open_all()
        return super().popitem()

    def setdefault(self, key: str, default: Any = None) -> Any:
        """As of a dictionary."""
        return self[key] if key in self else super().setdefault(key, default)

    def copy(self) -> dict[str, Any]:
        """As of a dictionary."""
        return dict(self.items())

    def __eq__(self, other: object) -> bool:
        self.open_all()
        return super().__eq__(other)

    __hash__ = None

    def opened_in(self, table: str, before: Any) -> Collection[str] | None:
        """The keys that were looked at or set in a table, if it is still the one that was there
        before; all others are as they were."""
        value = super().get(table)
        return value.opened if isinstance(value, Lazy) and value.source is before else None

    def open_all(self) -> None:
        """Copy what is closed, all at once."""
        closed = [key for key, value in super().items() if value is CLOSED]
        if self.deep or len(closed) < len(self.source):
            self.update({key: self._opened(self.source[key]) for key in closed})
        else:
            self.was_whole = True
            self.update(self.originals.copy_of(self.source))

    def result(self) -> dict[str, Any]:
        """What it holds now: the source itself if that is the same, and of a value that is closed
        or as it was, the source's own."""
        opened = {key: value for key, value in super().items() if value is not CLOSED}
        if self.was_whole and self.originals.is_kept(opened, self.source):
            return self.source
        self.opened = opened.keys()
        held = {key: self._held(key, value) for key, value in opened.items()}
        kept = all(value is self.source.get(key, CLOSED) for key, value in held.items())
        if kept and len(self) == len(self.source):
            return self.source
        order = [*super().keys()]
        if order == [*self.source]:
            return self.source | held
        return {key: held.get(key, self.source.get(key, CLOSED)) for key in order}

    def _held(self, key: str, value: Any) -> Any:
        """One opened value as it is kept."""
        kept = self.source.get(key, CLOSED)
        if isinstance(value, Lazy):
            return value.result()
        return kept if kept is not CLOSED and self.originals.is_kept(value, kept) else plain(value)


def flat_bytes(value: Any) -> bytes:
    """Plain data as bytes: equal bytes, equal values with equal types of all in them. Version 0
    does not depend on who else holds a value. Empty for what is no plain data."""
    try:
        return marshal.dumps(value, 0)
    except ValueError:
        return b""


def same(value: Any, kept: Any) -> bool:
    """Whether two values are one, or equal with the types of all in them: to Python 10 == 10.0, in
    JSON and in a hash they differ."""
    if value is kept:
        return True
    if type(value) is type(kept) and type(value) in SURE:
        return bool(value == kept)
    return bool(value == kept) and marshal.dumps(value, 0) == marshal.dumps(kept, 0)
