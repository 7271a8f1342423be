"""Sets the verdicts of attempts that were not scored when they were made: a gateway's programs.

Parts are never changed in place: those that hold such attempts are replaced, as a compaction
replaces parts, so that a reader sees either all old values of a part or all new ones.
"""

from collections.abc import Mapping
from typing import Any

import pyarrow as pa
import sqlalchemy as sa

from tutti.storage import catalog as cat
from tutti.storage.leases import held
from tutti.storage.maintenance.compaction import NAME, read_part, replace, set_replaced_aside

SET = ("task_id", "trial", "answer", "score", "correct")
"""What a later verdict may say of an attempt."""


def set_verdicts(
    catalog: cat.Catalog, sweep_id: str, verdicts: Mapping[str, Mapping[str, Any]]
) -> int:
    """Set columns of `SET` of a sweep's attempts, by id; returns how many rows were changed.

    Raises StoreBusy while a compaction runs, PartDamaged, StoreError.
    """
    parts, changed = cat.parts.c, 0
    with held(catalog, NAME) as lease:
        mine = (parts.table_name == "attempts") & (parts.sweep_id == sweep_id)
        wanted = sa.select(cat.parts).where(mine, parts.removed_at.is_(None))
        for part in catalog.rows(wanted):
            table = read_part(catalog.home, part)
            given = [verdicts.get(each) for each in table["attempt_id"].to_pylist()]
            if count := sum(each is not None for each in given):
                replace(catalog, lease, "attempts", [_changed(table, given)], [part])
                changed += count
        set_replaced_aside(catalog)
    return changed


def _changed(table: pa.Table, given: list[Mapping[str, Any] | None]) -> pa.Table:
    for name in SET:
        place = table.schema.get_field_index(name)
        field = table.schema.field(place)
        values = [
            now[name] if now is not None and name in now else was
            for now, was in zip(given, table[name].to_pylist(), strict=True)
        ]
        table = table.set_column(place, field, pa.array(values, field.type))
    return table
