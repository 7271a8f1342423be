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
from collections.abc import Callable
from typing import Any

MARK = "\x1etutti:"


class ToolError(Exception):
    """A tool refuses a call."""


def state_hash(state: Any) -> str:
    """SHA-256 of the canonical JSON of a database, as tau2 hashes its own."""
    return hashlib.sha256(json.dumps(state, sort_keys=True, default=str).encode()).hexdigest()


def plain(value: Any) -> Any:
    """`value` as JSON can hold it. Raises TypeError, ValueError."""
    return json.loads(json.dumps(value, allow_nan=False))


def copied(value: Any) -> Any:
    """A deep copy of plain data; ten times as fast as `copy.deepcopy`."""
    return marshal.loads(marshal.dumps(value))


class Host:
    """A toolkit and the databases of the programs that use it."""

    def __init__(self, toolkit: str, records: dict[str, Any]) -> None:
        self.names: dict[str, Any] = {"__name__": "toolkit", "ToolError": ToolError}
        exec(compile(toolkit, "toolkit.py", "exec"), self.names)
        self.records = records
        self.states: dict[str, dict[str, Any]] = {}
        self.first_hash = state_hash(records)

    def begin(self, program: str, changed: dict[str, Any]) -> None:
        """A new database for a program: the domain's records with some fields changed."""
        state = copied(self.records)
        for table, keyed in changed.items():
            for key, fields in keyed.items():
                state.setdefault(table, {}).setdefault(key, {}).update(copied(fields))
        self.states[program] = state

    def call(self, program: str, name: str, arguments: dict[str, Any]) -> dict[str, Any]:
        """What a tool returns or why it refuses, and where the database changed."""
        state, tried = self.states[program], copied(self.states[program])
        function = self.names.get(name)
        if not callable(function):
            return missing(name)
        try:
            inspect.signature(function).bind(None, **arguments)
        except TypeError as error:
            return {"status": "refused", "value": f"{name}: {error}"}
        try:
            value = plain(function(tried, **copied(arguments)))
            changes = [] if tried == state else differences(state, plain(tried))
        except ToolError as error:
            return {"status": "refused", "value": str(error)}
        except Exception as error:
            return failed(error)
        if changes:
            self.states[program] = plain(tried)
        return {"status": "ok", "value": value, "changes": changes}

    def ask(
        self, program: str, function: str, name: str, arguments: dict[str, Any]
    ) -> dict[str, Any]:
        """Why a rule forbids a call, or ""."""
        asked = self.names.get(function)
        if not callable(asked):
            return missing(function)
        try:
            why = asked(copied(self.states[program]), name, copied(arguments))
        except Exception as error:
            return failed(error)
        return {"status": "ok", "value": str(why or "")}

    def signature(self, name: str) -> dict[str, Any]:
        """The parameters of a function after the database, as [name, whether it has a default]."""
        function = self.names.get(name)
        if not callable(function):
            return missing(name)
        found = list(inspect.signature(function).parameters.values())[1:]
        given = [[each.name, each.default is not inspect.Parameter.empty] for each in found]
        return {"status": "ok", "value": given}

    def end(self, program: str) -> None:
        """Forget a program's database."""
        self.states.pop(program, None)

    def hash(self, program: str) -> str:
        """`state_hash` of a program's database."""
        state = self.states[program]
        return self.first_hash if state == self.records else state_hash(state)

    def state(self, program: str) -> dict[str, Any]:
        """A program's database."""
        return self.states[program]


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
        if old.keys() != new.keys():
            found.add(table)
        for key in old.keys() & new.keys():
            fields = () if old[key] == new[key] else old[key].keys() | new[key].keys()
            found |= {f"{table}.{f}" for f in fields if old[key].get(f) != new[key].get(f)}
    return sorted(found)


OPERATIONS: dict[str, Callable[..., Any]] = {
    "begin": Host.begin,
    "call": Host.call,
    "ask": Host.ask,
    "signature": Host.signature,
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
