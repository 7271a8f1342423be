"""A training set on disk: an artifact whose parents are the cells of its attempts."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from tutti.storage import Catalog, query
from tutti.storage import catalog as cat

ROW = pa.schema(
    [
        ("name", pa.string()),
        ("ids", pa.list_(pa.int32())),
        ("turns", pa.list_(pa.int32())),
        ("values", pa.list_(pa.float32())),
        ("logprobs", pa.list_(pa.float32())),
        ("wanted", pa.bool_()),
        ("pair", pa.int32()),
    ]
)
DROPPED = pa.schema([("attempt_id", pa.string()), ("reason", pa.string())])
KNOWN = "select artifact_id from artifacts where artifact_id in (select unnest($ids))"
SETS_OF_TASKS = (
    "select distinct task_set_id from tasks where task_id in (select unnest($ids)) "
    "and task_set_id is not null"
)


@dataclass(frozen=True)
class TrainingSet:
    """A frozen training set."""

    set_id: str
    rows: Path
    held_out: Path | None
    manifest: Mapping[str, Any]


@dataclass(frozen=True)
class FrozenRows:
    """The content of a training set."""

    set_id: str
    rows: Sequence[dict[str, Any]]
    aside: Sequence[bool]
    """Whether each row is measured and never trained on."""
    parents: Sequence[str] = ()
    reasons: Mapping[str, str] = field(default_factory=dict)


def parents_of(attempts: Sequence[Mapping[str, Any]], catalog: Catalog) -> list[str]:
    """Return the parent artifacts of attempts: their cells, which lead to task sets, engines and
    checkpoints; for attempts without a known cell, their engines and task sets."""
    cells = _known({row["cell_id"] for row in attempts}, catalog)
    others = [row for row in attempts if row["cell_id"] not in cells]
    ids = {"ids": sorted({row["task_id"] for row in others})}
    sets = query(SETS_OF_TASKS, catalog.home, ids) if others else []
    more = {row["engine_id"] for row in others} | {row["task_set_id"] for row in sets}
    return sorted(cells | _known(more, catalog))


def freeze(frozen: FrozenRows, manifest: dict[str, Any], catalog: Catalog) -> TrainingSet:
    """Write a training set and enter it in the catalog, unless it exists. Raises StoreError."""
    folder = catalog.home.artifact_folder(frozen.set_id)
    suffix = ".jsonl" if "messages" in frozen.rows[0] else ".parquet"
    file, held_out = folder / f"rows{suffix}", folder / f"held_out{suffix}"
    sides = list(zip(frozen.rows, frozen.aside, strict=True))
    # The loss on answers that are not wanted says nothing good of a checkpoint.
    held = [row for row, aside in sides if aside and row.get("wanted") is not False]
    if catalog.artifact(frozen.set_id) is None or not file.is_file():
        with cat.store_boundary(catalog.home):
            folder.mkdir(parents=True, exist_ok=True)
            _write([row for row, aside in sides if not aside], file)
            if held:
                _write(held, held_out)
            table = {"attempt_id": [*frozen.reasons], "reason": [*frozen.reasons.values()]}
            pq.write_table(pa.table(table, DROPPED), folder / "dropped.parquet")
            (folder / "manifest.json").write_text(json.dumps(manifest, indent=1))
        catalog.enter_artifact(frozen.set_id, manifest, frozen.parents, folder)
    return TrainingSet(frozen.set_id, file, held_out if held else None, manifest)


def _known(ids: set[Any], catalog: Catalog) -> set[str]:
    """Return the ids that are artifacts."""
    names = sorted(each for each in ids if each is not None)
    rows = query(KNOWN, catalog.home, {"ids": names}) if names else []
    return {row["artifact_id"] for row in rows}


def _write(rows: Sequence[dict[str, Any]], file: Path) -> None:
    if file.suffix == ".parquet":
        pq.write_table(pa.Table.from_pylist(list(rows), ROW), file)
        return
    with file.open("w", encoding="utf-8") as out:
        out.writelines(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)
