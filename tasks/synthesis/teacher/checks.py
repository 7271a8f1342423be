"""Checks of the teacher's tables and records, which need no code to run.

Each returns every reason at once, with table, field and value, so that the teacher can correct all
of them in one answer. Records are checked only for what the next step needs; the gates check them
again.
"""

from collections.abc import Mapping, Sequence
from datetime import date
from typing import Any

from tutti.tasks.synthesis.domains import FieldSpec, TableSpec
from tutti.tasks.synthesis.teacher.products import TablesAnswer

Ids = Mapping[str, Sequence[str]]
"""By table, the keys that its records have."""


def tables_reason(answer: TablesAnswer) -> str:
    """Why the tables do not fit together; empty if they do."""
    names = [table.name for table in answer.tables]
    reasons = [f"two tables are called {name!r}" for name in _twice(names)]
    if not names:
        reasons.append("there is no table")
    for table in answer.tables:
        reasons += _table_reasons(table, names)
    return "\n".join(reasons)


def _table_reasons(table: TableSpec, names: Sequence[str]) -> list[str]:
    fields = {each.name: each for each in table.fields}
    reasons = [f"{table.name}: two fields {n!r}" for n in _twice([f.name for f in table.fields])]
    key = fields.get(table.key)
    if key is None:
        reasons.append(f"{table.name}: its key {table.key!r} is not one of its fields")
    elif key.kind != "text" or key.optional or key.refers_to:
        reasons.append(f"{table.name}.{key.name}: a key is text, not optional, and refers nowhere")
    for each in table.fields:
        where = f"{table.name}.{each.name}"
        if each.refers_to and each.refers_to not in names:
            reasons.append(f"{where}: refers to {each.refers_to!r}, which is no table")
        if each.refers_to and each.kind not in ("text", "texts"):
            reasons.append(f"{where}: a field that refers to a table is text or texts")
        if each.one_of and each.kind not in ("text", "texts"):
            reasons.append(f"{where}: one_of is for text and texts")
        if each.least is not None and each.most is not None and each.least > each.most:
            reasons.append(f"{where}: least {each.least} is more than most {each.most}")
    return reasons


def _twice(names: Sequence[str]) -> list[str]:
    return sorted({name for name in names if names.count(name) > 1})


def given_ids(tables: Sequence[TableSpec], count: int) -> dict[str, list[str]]:
    """The keys that each table's records are to have: its initials, distinct among the tables, and
    a number."""
    ids: dict[str, list[str]] = {}
    taken: set[str] = set()
    for table in tables:
        short = table.name.replace("_", "").upper()
        size = next(n for n in range(2, len(short) + 2) if short[:n] not in taken or n > len(short))
        prefix = short[:size] if short[:size] not in taken else f"{short}{len(taken)}"
        taken.add(prefix)
        ids[table.name] = [f"{prefix}{number:04d}" for number in range(1, count + 1)]
    return ids


def record_reason(table: TableSpec, record: Mapping[str, Any], ids: Ids) -> str:
    """Why a record of the right types is still wrong; empty if it is right."""
    key = record[table.key]
    reasons = (
        [] if key in ids[table.name] else [f"{table.key}: {key!r} is not one of the given ids"]
    )
    for each in table.fields:
        reasons += [f"{each.name}: {why}" for why in _value_reasons(each, record[each.name], ids)]
    return "; ".join(reasons)


def _value_reasons(field: FieldSpec, value: Any, ids: Ids) -> list[str]:
    if value is None:
        return []
    reasons = []
    if field.least is not None and isinstance(value, int | float) and value < field.least:
        reasons.append(f"{value} is less than {field.least:g}")
    if field.most is not None and isinstance(value, int | float) and value > field.most:
        reasons.append(f"{value} is more than {field.most:g}")
    if field.kind == "date" and not is_date(value):
        reasons.append(f"{value!r} is no ISO 8601 date")
    if field.refers_to:
        wanted = value if isinstance(value, list) else [value]
        lost = [each for each in wanted if each not in ids[field.refers_to]]
        reasons += [f"{each!r} is not a record of {field.refers_to}" for each in lost]
    return reasons


def is_date(value: Any) -> bool:
    """Whether it is a calendar date as ISO 8601 writes it."""
    try:
        return isinstance(value, str) and bool(date.fromisoformat(value[:10]))
    except ValueError:
        return False
