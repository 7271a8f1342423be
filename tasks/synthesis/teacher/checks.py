"""Checks of the teacher's tables and records, which need no code to run.

Each returns every reason at once, with table, field and value, so that the teacher can correct all
of them in one answer.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from tutti.tasks.synthesis.domains import TableChecks, TableSpec
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


def record_reason(checks: TableChecks, record: Mapping[str, Any], ids: Ids) -> str:
    """Why a record is wrong, by the checks that the gates make, too; empty if it is right."""
    table = checks.table
    key = record.get(table.key)
    own = [] if key in ids[table.name] else [f"{table.key}: {key!r} is not one of the given ids"]
    return "; ".join([*own, *checks.faults(record, ids)])
