"""Tests of checking records against tables: kinds, bounds, choices, keys, foreign keys, changes."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tutti.tasks.synthesis.domains import Domain, FieldSpec, RecordChecks, TableSpec, is_of_kind

FIELDS = (
    FieldSpec(name="id", kind="text"),
    FieldSpec(name="copy", kind="integer", least=0, most=9),  # a name that pydantic's models use
    FieldSpec(name="price", kind="number", least=0),
    FieldSpec(name="state", kind="text", one_of=("new", "old")),
    FieldSpec(name="tags", kind="texts", one_of=("red", "blue")),
    FieldSpec(name="day", kind="date", optional=True),
    FieldSpec(name="next", kind="text", refers_to="items", optional=True),
    FieldSpec(name="parts", kind="texts", refers_to="items"),
)
RECORD: dict[str, Any] = {
    "id": "a",
    "copy": 3,
    "price": 2,
    "state": "new",
    "tags": ["red"],
    "day": "2024-02-29",
    "next": None,
    "parts": ["a"],
}


def domain_of(record: dict[str, Any], key: str = "a") -> Domain:
    tables = (TableSpec(name="items", key="id", fields=FIELDS),)
    records = {"items": {key: record}}
    return Domain(name="d", about="", tables=tables, records=records, toolkit="", tools=())


def test_good_records_have_no_fault_nor_have_good_changes() -> None:
    checks = RecordChecks(domain_of(RECORD))
    assert checks.fault == ""
    assert checks.changed_fault({"items": {"a": {"copy": 9, "day": None}}}) == ""


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("id", "b"),
        ("copy", 10),
        ("copy", True),
        ("copy", "3"),
        ("copy", None),
        ("price", -0.5),
        ("price", float("nan")),
        ("price", False),
        ("state", "lost"),
        ("tags", ["green"]),
        ("tags", "red"),
        ("day", "2024-02-30"),
        ("day", "soon"),
        ("next", "z"),
        ("parts", ["a", "z"]),
        ("stray", 1),
    ],
)
def test_one_wrong_value_is_found_in_records_and_in_changes(field: str, value: Any) -> None:
    fault = RecordChecks(domain_of({**RECORD, field: value})).fault
    assert fault.startswith(f"items/a.{field}")
    changed = RecordChecks(domain_of(RECORD)).changed_fault({"items": {"a": {field: value}}})
    assert changed == f"changed: {fault}"


def test_every_field_is_required() -> None:
    for name in RECORD:
        left = {key: value for key, value in RECORD.items() if key != name}
        assert RecordChecks(domain_of(left)).fault.startswith(f"items/a.{name}")


def test_the_key_is_the_key_field() -> None:
    assert "is not its key" in RecordChecks(domain_of(RECORD, "b")).fault


def test_tables_are_checked_before_records() -> None:
    domain = domain_of(RECORD)
    table = domain.tables[0]
    keyless = table.model_copy(update={"key": "none"})
    far = FieldSpec(name="far", kind="text", refers_to="nowhere")
    wrong: list[tuple[dict[str, Any], str]] = [
        ({"tables": (keyless,)}, "none of its fields"),
        ({"tables": (table.model_copy(update={"fields": (*FIELDS, far)}),)}, "nowhere"),
        ({"tables": (table, table)}, "declared twice"),
        ({"tables": ()}, "not declared"),
        ({"records": {}}, "no records"),
    ]
    for changes, why in wrong:
        assert why in RecordChecks(domain.model_copy(update=changes)).fault


def test_a_change_of_a_record_that_is_not_there_is_named() -> None:
    checks = RecordChecks(domain_of(RECORD))
    assert "no record 'z'" in checks.changed_fault({"items": {"z": {}}})
    assert "no table 'other'" in checks.changed_fault({"other": {}})


@given(st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.booleans() | st.text())
def test_a_value_is_of_at_most_the_kinds_of_its_type(value: Any) -> None:
    kinds = {kind for kind in ("integer", "number", "boolean") if is_of_kind(value, kind)}
    assert (
        kinds
        == {
            bool: {"boolean"},
            int: {"integer", "number"},
            float: {"number"},
            str: set(),
        }[type(value)]
    )
    assert is_of_kind(value, "text") == isinstance(value, str)
