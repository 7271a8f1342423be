"""What runs in the sandbox: loads a domain's toolkit, keeps a database a program, calls tools.

The text of this file is sent to the sandbox, so it imports only the standard library. A request is
a list of operations, the reply one line of JSON after `MARK`.
"""

import contextlib
import hashlib
import inspect
import io
import json
import marshal
import sys
from collections.abc import Callable, Iterable, Iterator
from typing import Any

MARK = "\x1etutti:"


class ToolError(Exception):
    """A tool refuses a call."""


def state_hash(state: Any) -> str:
    """SHA-256 of the canonical JSON of a database, as tau2 hashes its own."""
    return hashlib.sha256(canonical(state).encode()).hexdigest()


def canonical(value: Any) -> str:
    """JSON with sorted keys."""
    return json.dumps(value, sort_keys=True, default=str)


def joined(texts: Iterable[tuple[str, str]]) -> str:
    """The canonical JSON of an object from that of its values, in the order of its keys."""
    return "{" + ", ".join(f"{json.dumps(key)}: {text}" for key, text in texts) + "}"


def plain(value: Any) -> Any:
    """`value` as JSON can hold it. Raises TypeError, ValueError."""
    return json.loads(json.dumps(value, allow_nan=False))


def copied(value: Any) -> Any:
    """A deep copy of plain data; ten times as fast as `copy.deepcopy`."""
    return marshal.loads(marshal.dumps(value))


class Closed:
    """Stands in a `Lazy` for what nobody has looked at. It is no JSON, so that where one gets
    through, the call fails instead of going wrong."""


CLOSED = Closed()


class Lazy(dict[str, Any]):
    """A dictionary whose values are copied from another when they are first looked at.

    A tool looks at a few records of some hundred: copying all would take most of a replay's time.
    """

    def __init__(self, source: dict[str, Any], deep: bool) -> None:
        """`deep`: the values are tables, whose records are opened one by one."""
        super().__init__(dict.fromkeys(source, CLOSED))
        self.source, self.deep = source, deep

    def _opened(self, value: Any) -> Any:
        return Lazy(value, False) if self.deep and type(value) is dict else copied(value)

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

    def open_all(self) -> None:
        """Copy what is closed, all at once."""
        closed = [key for key, value in super().items() if value is CLOSED]
        if self.deep:
            self.update({key: self._opened(self.source[key]) for key in closed})
        else:
            self.update(copied({key: self.source[key] for key in closed}))

    def result(self) -> dict[str, Any]:
        """What it holds now: of a value that is closed or as it was, the source's own."""
        made: dict[str, Any] = {}
        for key, value in super().items():
            kept = self.source.get(key, CLOSED)
            if isinstance(value, Lazy):
                value = value.result()
                made[key] = kept if unchanged(value, kept) else value
            else:
                made[key] = kept if value is CLOSED or same(value, kept) else plain(value)
        return made


def unchanged(table: dict[str, Any], kept: Any) -> bool:
    """Whether a table has the records of another, the same objects."""
    if not isinstance(kept, dict) or table.keys() != kept.keys():
        return False
    return all(record is kept[key] for key, record in table.items())


def same(value: Any, kept: Any) -> bool:
    """Whether two values are one, or equal with the types of all in them: to Python 10 == 10.0, in
    JSON and in a hash they differ."""
    if value is kept:
        return True
    return bool(value == kept) and marshal.dumps(value, 0) == marshal.dumps(kept, 0)


class Host:
    """A toolkit and the databases of the programs that use it.

    Databases share the tables and records that no call has changed; none is changed in place.
    """

    def __init__(self, toolkit: str, records: dict[str, Any]) -> None:
        self.names: dict[str, Any] = {"__name__": "toolkit", "ToolError": ToolError}
        exec(compile(toolkit, "toolkit.py", "exec"), self.names)
        self.records = records
        self.states: dict[str, dict[str, Any]] = {}
        every = [record for keyed in records.values() for record in keyed.values()]
        self.texts = {id(record): (record, canonical(record)) for record in every}
        self.signatures: dict[str, inspect.Signature] = {}

    def begin(self, program: str, changed: dict[str, Any]) -> None:
        """A new database for a program: the domain's records with some fields changed."""
        state = dict(self.records)
        for table, keyed in changed.items():
            records = state[table] = dict(state.get(table, {}))
            for key, fields in keyed.items():
                records[key] = {**records.get(key, {}), **copied(fields)}
        self.states[program] = state

    def call(self, program: str, name: str, arguments: dict[str, Any]) -> dict[str, Any]:
        """What a tool returns or why it refuses, and where the database changed."""
        state = self.states[program]
        function = self.names.get(name)
        if not callable(function):
            return missing(name)
        try:
            self._signature(name).bind(None, **arguments)
        except TypeError as error:
            return {"status": "refused", "value": f"{name}: {error}"}
        tried = Lazy(state, True)
        try:
            value = plain(function(tried, **copied(arguments)))
            made = tried.result()
        except ToolError as error:
            return {"status": "refused", "value": str(error)}
        except Exception as error:
            return failed(error)
        self.states[program] = made
        return {"status": "ok", "value": value, "changes": differences(state, made)}

    def ask(
        self, program: str, function: str, name: str, arguments: dict[str, Any]
    ) -> dict[str, Any]:
        """Why a rule forbids a call, or ""."""
        asked = self.names.get(function)
        if not callable(asked):
            return missing(function)
        try:
            why = asked(Lazy(self.states[program], True), name, copied(arguments))
        except Exception as error:
            return failed(error)
        return {"status": "ok", "value": str(why or "")}

    def signature(self, name: str) -> dict[str, Any]:
        """The parameters of a function after the database, as [name, whether it has a default]."""
        function = self.names.get(name)
        if not callable(function):
            return missing(name)
        found = list(self._signature(name).parameters.values())[1:]
        given = [[each.name, each.default is not inspect.Parameter.empty] for each in found]
        return {"status": "ok", "value": given}

    def end(self, program: str) -> None:
        """Forget a program's database."""
        self.states.pop(program, None)

    def copy(self, program: str, other: str) -> None:
        """Give another program the database that a program has now."""
        self.states[other] = self.states[program]

    def differing(self, program: str, other: str) -> list[str]:
        """The records that two programs' databases do not have alike, as ``table/key``."""
        return differing_records(self.states[program], self.states[other])

    def hash(self, program: str) -> str:
        """`state_hash` of a program's database; the text of a record that is the domain's own is
        made once."""
        tables = sorted(self.states[program].items())
        text = joined((table, self._text_of(keyed)) for table, keyed in tables)
        return hashlib.sha256(text.encode()).hexdigest()

    def state(self, program: str) -> dict[str, Any]:
        """A program's database."""
        return self.states[program]

    def _text_of(self, keyed: dict[str, Any]) -> str:
        found = ((key, self.texts.get(id(record))) for key, record in sorted(keyed.items()))
        return joined((key, own[1] if own else canonical(keyed[key])) for key, own in found)

    def _signature(self, name: str) -> inspect.Signature:
        if name not in self.signatures:
            self.signatures[name] = inspect.signature(self.names[name])
        return self.signatures[name]


def missing(name: str) -> dict[str, Any]:
    """The reply where the toolkit has no such function."""
    return {"status": "missing", "value": f"the toolkit has no function {name!r}"}


def failed(error: Exception) -> dict[str, Any]:
    """The reply where the toolkit's own code is wrong."""
    return {"status": "failed", "value": f"{type(error).__name__}: {error}"}


def differences(before: dict[str, Any], after: dict[str, Any]) -> list[str]:
    """Where two databases differ: ``table.field``, or ``table`` for records that came or went."""
    found = set()
    for table in before.keys() | after.keys():
        old, new = before.get(table, {}), after.get(table, {})
        if old is new:
            continue
        if old.keys() != new.keys():
            found.add(table)
        for key in old.keys() & new.keys():
            if old[key] is not new[key]:
                fields = old[key].keys() | new[key].keys()
                changed = {f for f in fields if not same(old[key].get(f), new[key].get(f))}
                found |= {f"{table}.{f}" for f in changed}
    return sorted(found)


def differing_records(before: dict[str, Any], after: dict[str, Any]) -> list[str]:
    """The records in which two databases differ, as ``table/key``."""
    found = []
    for table in sorted(before.keys() | after.keys()):
        old, new = before.get(table, {}), after.get(table, {})
        if old is not new:
            keys = sorted(old.keys() | new.keys())
            pairs = ((key, old.get(key), new.get(key)) for key in keys)
            found += [f"{table}/{key}" for key, a, b in pairs if a is not b and not same(a, b)]
    return found


OPERATIONS: dict[str, Callable[..., Any]] = {
    "begin": Host.begin,
    "call": Host.call,
    "ask": Host.ask,
    "signature": Host.signature,
    "copy": Host.copy,
    "differing": Host.differing,
    "hash": Host.hash,
    "state": Host.state,
    "end": Host.end,
}


def serve(host: Host, request: str) -> None:
    """Answer a request; what the toolkit prints itself is lost."""
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed), contextlib.redirect_stderr(printed):
        replies = [OPERATIONS[kind](host, *rest) for kind, *rest in json.loads(request)]
    sys.stdout.write(MARK + json.dumps(replies) + "\n")
