"""Tests of a toolkit's database in the sandbox: parts that no call accesses are shared, which
cannot be observed."""

import contextlib
import copy
import io
import json
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tutti.tasks.synthesis.domains.shared import CLOSED, Lazy, Originals
from tutti.tasks.synthesis.domains.source import MARK, Host, differences, serve, state_hash

KEYS = st.sampled_from("abc")
VALUES = st.one_of(st.integers(0, 2), st.floats(0, 2, width=16), st.booleans(), st.text("xy"))
RECORDS = st.dictionaries(st.sampled_from("fg"), VALUES, min_size=1)
TABLES = st.dictionaries(st.sampled_from("TU"), st.dictionaries(KEYS, RECORDS), min_size=1)
STEPS = st.lists(
    st.tuples(st.sampled_from("TU"), KEYS, st.integers(0, 11), st.sampled_from("fg"), VALUES)
)


def step(db: dict[str, Any], table: str, key: str, kind: int, field: str, value: Any) -> Any:
    """Apply one operation of a tool to a database and return what it read."""
    records = db.get(table)
    if records is None:
        return "no table"
    match kind:
        case 0:
            return records.get(key, {}).get(field)
        case 1:
            records.setdefault(key, {})[field] = value
        case 2:
            return [list(each.items()) for each in records.values()]
        case 3:
            return records.pop(key, "none")
        case 4:
            records[key] = {field: value}
        case 5:
            return sorted(dict(records)), {**records}
        case 6:
            return json.dumps(records, sort_keys=True)
        case 7:
            records.update({key: {field: value}})
        case 8:
            return [(name, each.get(field)) for name, each in records.items()], len(records)
        case 9:
            db[table] = {key: {field: value}}
        case 10:
            return records.copy() == dict(records), key in records, [*records]
        case _:
            for each in records.values():
                each[field] = value
    return None


REFILLED = [("T", "b", 4, "g", 0), ("T", "b", 1, "f", False)]


@given(TABLES, STEPS)
@example({"T": {"b": {"f": 0, "g": False}}}, REFILLED)
@example({"T": {"b": {"f": 0, "g": False}}}, [("T", "b", 2, "f", 0), *REFILLED])
def test_a_lazy_database_is_as_a_copy(tables: dict[str, Any], steps: list[Any]) -> None:
    """Every tool sees the same as in a copy, the result equals the copy's, and the source is
    unchanged."""
    source, mine = copy.deepcopy(tables), copy.deepcopy(tables)
    lazy = Lazy(source, Originals(source), deep=True)
    for each in steps:
        seen, found = step(mine, *each), step(lazy, *each)
        assert seen == found and CLOSED not in (found, seen)
    assert json.dumps(lazy.result(), sort_keys=True) == json.dumps(mine, sort_keys=True)
    assert source == tables


@given(TABLES, STEPS)
def test_a_hosts_hash_and_changes_are_those_of_whole_databases(
    tables: dict[str, Any], steps: list[Any]
) -> None:
    host, mine = Host("def act(db, s):\n    STEP(db, *s)\n", tables), copy.deepcopy(tables)
    host.names["STEP"] = step
    host.begin("p", {})
    assert host.hash("p") == state_hash(tables)
    for each in steps:
        before = copy.deepcopy(mine)
        step(mine, *each)
        done = host.call("p", "act", {"s": list(each)})
        assert done["status"] == "ok" and done["changes"] == differences(before, mine)
    assert host.hash("p") == state_hash(mine)
    host.begin("q", {})
    assert host.hash("q") == state_hash(tables), "a program's changes are its own"


def test_ten_and_ten_point_nought_are_two_states() -> None:
    """10 and 10.0 are equal in Python but differ in the hash, as in tau2's."""
    host = Host('def act(db):\n    db["t"]["k"]["v"] /= 1\n', {"t": {"k": {"v": 10}}})
    host.begin("p", {})
    assert host.call("p", "act", {})["changes"] == ["t.v"]
    assert host.hash("p") == state_hash({"t": {"k": {"v": 10.0}}})


@pytest.mark.parametrize(
    ("body", "status"),
    [
        ('raise ToolError("no")', "refused"),
        ("return 1 / 0", "failed"),
        ("return {1, 2}", "failed"),
        ('db["t"]["k"]["v"] = float("nan")', "failed"),
        ('db["t"]["k"]["v"] = object()', "failed"),
    ],
)
def test_a_call_that_does_not_succeed_changes_nothing(body: str, status: str) -> None:
    text = f'def act(db):\n    db["t"]["k"]["w"] = 2\n    {body}\n'
    host = Host(text, {"t": {"k": {"v": 10}}})
    host.begin("p", {})
    before = host.hash("p")
    assert host.call("p", "act", {})["status"] == status
    assert host.hash("p") == before


def test_a_state_that_two_programs_come_to_is_hashed_once() -> None:
    """The hash is computed once for any path and any order of keys; a state whose changes were
    reverted is the first state."""
    text = 'def put(db, key, v):\n    db["t"].pop(key, None)\n    db["t"][key] = {"v": v}\n'
    host = Host(text, {"t": {"a": {"v": 1}, "b": {"v": 2}}, "u": {}})
    for program, calls in {"p": ("a", "b"), "q": ("b", "a")}.items():
        host.begin(program, {})
        for key in calls:
            host.call(program, "put", {"key": key, "v": 7})
    both = {"t": {"a": {"v": 7}, "b": {"v": 7}}, "u": {}}
    assert host.hash("p") == host.hash("q") == state_hash(both)
    assert len(host.hashes) == 1
    host.begin("r", {"t": {"a": {"v": 3}}})
    host.call("r", "put", {"key": "a", "v": 1})
    assert host.hash("r") == state_hash(host.records) and len(host.hashes) == 2


@pytest.mark.parametrize(
    ("arguments", "wrong"),
    [
        ({"a": 1}, ""),
        ({"a": 1, "b": 2}, ""),
        ({}, "missing a required argument: 'a'"),
        ({"a": 1, "c": 2}, "got an unexpected keyword argument 'c'"),
        ({"a": 1, "db": 2}, "multiple values for argument 'db'"),
    ],
)
def test_arguments_that_a_tool_does_not_take_are_refused(
    arguments: dict[str, Any], wrong: str
) -> None:
    host = Host("def act(db, a, b=0):\n    return [a, b]\n", {})
    host.begin("p", {})
    done = host.call("p", "act", arguments)
    assert done["status"] == ("refused" if wrong else "ok")
    assert wrong in str(done["value"])


def test_a_tool_that_takes_any_arguments_is_given_them() -> None:
    host = Host("def act(db, *rest, **more):\n    return more\n", {})
    host.begin("p", {})
    assert host.call("p", "act", {"x": 1})["value"].text == '{"x": 1}'
    assert host.call("p", "act", {})["value"].text == "{}"


def test_a_result_is_as_it_was_when_the_call_ended() -> None:
    """A toolkit that keeps a returned object and changes it in a later call does not change the
    earlier reply."""
    text = "KEPT = []\ndef act(db):\n    KEPT.append(len(KEPT))\n    return KEPT\n"
    host, printed = Host(text, {}), io.StringIO()
    with contextlib.redirect_stdout(printed):
        serve(host, '[["begin", "p", {}], ["call", "p", "act", {}], ["call", "p", "act", {}]]')
    replies = json.loads(printed.getvalue().removeprefix(MARK))
    assert [reply["value"] for reply in replies[1:]] == [[0], [0, 1]]


NESTED = st.dictionaries(KEYS, st.one_of(VALUES, st.none(), st.lists(VALUES, max_size=2)))


@given(st.dictionaries(KEYS, NESTED, min_size=1), st.sampled_from("abc"), VALUES)
def test_a_copy_is_kept_until_something_in_it_is_replaced(
    table: dict[str, Any], field: str, value: Any
) -> None:
    """Records are with and without lists; equal values of another type count as replaced."""
    originals = Originals({"t": table})
    made = originals.copy_of(table)
    assert originals.is_kept(made, table) and made is not table
    for key, record in made.items():
        before = json.dumps(table[key], sort_keys=True)
        record[field] = value
        same = json.dumps(record, sort_keys=True) == before
        assert originals.is_kept(record, table[key]) == same
        assert json.dumps(table[key], sort_keys=True) == before, "the original is untouched"
