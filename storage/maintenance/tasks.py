"""Sets the tasks of attempts that had none when they were made: a gateway's programs.

Parts are never changed in place: those that hold such attempts are replaced, as a compaction
replaces parts, so that a reader sees either all old values of a part or all new ones.
"""

from collections.abc import Mapping
from typing import NamedTuple

import pyarrow as pa
import sqlalchemy as sa

from tutti.storage import catalog as cat
from tutti.storage.leases import held
from tutti.storage.maintenance.compaction import NAME, read_part, replace, set_replaced_aside


class TaskOfAttempt(NamedTuple):
    """The columns of `attempts` that are set."""

    task_id: str
    trial: int


def set_tasks(catalog: cat.Catalog, sweep_id: str, tasks: Mapping[str, TaskOfAttempt]) -> int:
    """Set the tasks of a sweep's attempts, by id; returns how many rows were changed.

    Raises StoreBusy while a compaction runs, PartDamaged, StoreError.
    """
    parts, changed = cat.parts.c, 0
    with held(catalog, NAME) as lease:
        mine = (parts.table_name == "attempts") & (parts.sweep_id == sweep_id)
        wanted = sa.select(cat.parts).where(mine, parts.removed_at.is_(None))
        for part in catalog.rows(wanted):
            table = read_part(catalog.home, part)
            given = [tasks.get(each) for each in table["attempt_id"].to_pylist()]
            if count := sum(each is not None for each in given):
                replace(catalog, lease, "attempts", [_changed(table, given)], [part])
                changed += count
        set_replaced_aside(catalog)
    return changed


def _changed(table: pa.Table, given: list[TaskOfAttempt | None]) -> pa.Table:
    for nth, name in enumerate(TaskOfAttempt._fields):
        place = table.schema.get_field_index(name)
        field = table.schema.field(place)
        values = [
            was if now is None else now[nth]
            for now, was in zip(given, table[name].to_pylist(), strict=True)
        ]
        table = table.set_column(place, field, pa.array(values, field.type))
    return table
