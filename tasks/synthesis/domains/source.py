"""Server in the sandbox: loads a domain's toolkit, has a database per program, calls tools.

The texts of this file and of `shared` are sent to the sandbox, so they import only the standard
library and each other. A request is a list of operations, which are methods of `Host` with their
arguments; the reply is one line of JSON after `MARK`.
"""

import contextlib
import hashlib
import inspect
import io
import json
import sys
from collections.abc import Mapping
from functools import cache
from typing import Any

from tutti.tasks.synthesis.domains.shared import (
    Lazy,
    Originals,
    canonical,
    copied,
    joined,
    piece,
    same,
    strict_json,
)

MARK = "\x1etutti:"
MOST_HASHES = 20_000
"""States whose hash is kept: some hundred bytes each. 500 tasks have about as many states."""


class ToolError(Exception):
    """A tool refused a call."""


def state_hash(state: Any) -> str:
    """Return the SHA-256 of the canonical JSON of a database, as tau2 hashes its own."""
    return hashlib.sha256(canonical(state).encode()).hexdigest()


def first_state(
    records: Mapping[str, Mapping[str, Any]], changed: Mapping[str, Mapping[str, Any]]
) -> dict[str, Any]:
    """Return the initial database of a task: records by table and key, some fields changed."""
    state: dict[str, Any] = dict(records)
    for table, keyed in changed.items():
        inside = state[table] = dict(state.get(table, {}))
        for key, fields in keyed.items():
            inside[key] = {**inside.get(key, {}), **fields}
    return state


class Written:
    """A value in a reply that is already JSON text."""

    def __init__(self, text: str) -> None:
        self.text = text


class Host:
    """A toolkit and the databases of the programs that use it.

    Databases share the tables and records that no call has changed; none is changed in place.
    """

    def __init__(self, toolkit: str, records: dict[str, Any]) -> None:
        self.names: dict[str, Any] = {"__name__": "toolkit", "ToolError": ToolError}
        exec(compile(toolkit, "toolkit.py", "exec"), self.names)
        self.records = records
        self.originals = Originals(records)
        self.states: dict[str, dict[str, Any]] = {}
        self.hashes: dict[str, str] = {}
        """Hashes of states, by their difference from the domain's own records."""
        self.signature_of = cache(lambda name: inspect.signature(self.names[name]))

    def begin(self, program: str, changed: dict[str, Any]) -> None:
        """Give a program a new database: the domain's records with some fields changed."""
        self.states[program] = first_state(self.records, copied(changed))

    def call(self, program: str, name: str, arguments: dict[str, Any]) -> dict[str, Any]:
        """Return the result of a tool or its refusal, and where the database changed."""
        state = self.states[program]
        function = self.names.get(name)
        if not callable(function):
            return missing(name)
        try:
            self.signature_of(name).bind(None, **arguments)
        except TypeError as error:
            return {"status": "refused", "value": f"{name}: {error}"}
        tried = Lazy(state, self.originals, deep=True)
        try:
            value = Written(strict_json(function(tried, **copied(arguments))))
            made = tried.result()
            changes = differences(state, made)
        except ToolError as error:
            return {"status": "refused", "value": str(error)}
        except Exception as error:
            return failed(error)
        self.states[program] = made
        return {"status": "ok", "value": value, "changes": changes}

    def ask_all(
        self, program: str, functions: list[str], name: str, arguments: dict[str, Any]
    ) -> list[dict[str, Any]]:
        """Return the verdict of each of some rules on a call."""
        return [self.ask(program, function, name, arguments) for function in functions]

    def ask(
        self, program: str, function: str, name: str, arguments: dict[str, Any]
    ) -> dict[str, Any]:
        """Return why a rule forbids a call, or ""."""
        asked = self.names.get(function)
        if not callable(asked):
            return missing(function)
        try:
            tried = Lazy(self.states[program], self.originals, deep=True)
            why = asked(tried, name, copied(arguments))
        except Exception as error:
            return failed(error)
        return {"status": "ok", "value": str(why or "")}

    def signature(self, name: str) -> dict[str, Any]:
        """The parameters of a function after the database, as [name, whether it has a default]."""
        function = self.names.get(name)
        if not callable(function):
            return missing(name)
        found = list(self.signature_of(name).parameters.values())[1:]
        given = [[each.name, each.default is not inspect.Parameter.empty] for each in found]
        return {"status": "ok", "value": given}

    def end(self, program: str) -> None:
        """Delete a program's database."""
        self.states.pop(program, None)

    def copy(self, program: str, other: str) -> None:
        """Give another program a copy of a program's current database."""
        self.states[other] = self.states[program]

    def differing(self, program: str, other: str) -> list[str]:
        """Return the records in which two programs' databases differ, as ``table/key``."""
        before, after, found = self.states[program], self.states[other], []
        for table in sorted(before.keys() | after.keys()):
            old, new = before.get(table, {}), after.get(table, {})
            if old is not new:
                pairs = (
                    (key, old.get(key), new.get(key)) for key in sorted(old.keys() | new.keys())
                )
                found += [f"{table}/{key}" for key, a, b in pairs if a is not b and not same(a, b)]
        return found

    def hash(self, program: str) -> str:
        """Return `state_hash` of a program's database. Only records that differ from the domain's
        own are encoded, and a state is hashed once."""
        state = self.states[program]
        pieces = {table: self._pieces(table, keyed) for table, keyed in state.items()}
        differing = canonical([sorted(state), {t: p for t, p in pieces.items() if p}])
        if differing not in self.hashes:
            if len(self.hashes) >= MOST_HASHES:
                self.hashes.clear()
            tables = sorted((table, self._text(table, p)) for table, p in pieces.items())
            text = joined({table: piece(table, text) for table, text in tables})
            self.hashes[differing] = hashlib.sha256(text.encode()).hexdigest()
        return self.hashes[differing]

    def _pieces(self, table: str, keyed: dict[str, Any]) -> dict[str, str | None]:
        """Return the pieces of a table's text that differ from the domain's own; None for a deleted
        record."""
        own = self.records.get(table, {})
        if keyed is own:
            return {}
        known = self.originals.pieces(table)
        stray = ((key, value) for key, value in keyed.items() if value is not own.get(key))
        made = {key: piece(key, canonical(value)) for key, value in stray}
        gone = dict.fromkeys(own.keys() - keyed.keys())
        return {key: text for key, text in made.items() if text != known.get(key)} | gone

    def _text(self, table: str, differing: dict[str, str | None]) -> str:
        if not differing:
            return self.originals.text(table)
        pieces = self.originals.pieces(table) | differing
        return joined({key: text for key, text in sorted(pieces.items()) if text is not None})


def missing(name: str) -> dict[str, Any]:
    """Return the reply if the toolkit has no such function."""
    return {"status": "missing", "value": f"the toolkit has no function {name!r}"}


def failed(error: Exception) -> dict[str, Any]:
    """Return the reply if the toolkit's own code is wrong."""
    return {"status": "failed", "value": f"{type(error).__name__}: {error}"}


def differences(before: dict[str, Any], after: dict[str, Any]) -> list[str]:
    """The differences of two databases: ``table.field``, or ``table`` for added or removed
    records."""
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


def written(reply: Any) -> str:
    """Return the JSON of a reply."""
    if isinstance(reply, dict) and isinstance(reply.get("value"), Written):
        changes = json.dumps(reply["changes"]) if reply["changes"] else "[]"
        value = reply["value"].text
        return f'{{"status": "{reply["status"]}", "value": {value}, "changes": {changes}}}'
    return json.dumps(reply)


def serve(host: Host, request: str) -> None:
    """Answer a request; the toolkit's own output is dropped."""
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed), contextlib.redirect_stderr(printed):
        replies = [written(getattr(host, kind)(*rest)) for kind, *rest in json.loads(request)]
    sys.stdout.write(f"{MARK}[{', '.join(replies)}]\n")
