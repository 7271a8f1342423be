"""Tests that other programs can read the tables' folders without tutti."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import duckdb
import pandas as pd  # type: ignore[import-untyped]
import pyarrow.parquet as pq
import pytest

from tutti import storage
from tutti.storage.maintenance import compact

Read = Callable[[Path], set[tuple[str, str]]]


def by_pandas(folder: Path) -> set[tuple[str, str]]:
    """Return a folder's sweeps and attempts."""
    frame = pd.read_parquet(folder)
    return set(zip(frame["sweep_id"].astype(str), frame["attempt_id"], strict=True))


def by_pyarrow(folder: Path) -> set[tuple[str, str]]:
    """Return a folder's sweeps and attempts."""
    table = pq.read_table(folder)
    return set(zip(table["sweep_id"].to_pylist(), table["attempt_id"].to_pylist(), strict=True))


def by_duckdb(folder: Path) -> set[tuple[str, str]]:
    """Return a folder's sweeps and attempts."""
    sql = f"select sweep_id, attempt_id from read_parquet('{folder}/**/*.parquet')"
    with duckdb.connect() as connection:
        return set(connection.execute(sql).fetchall())


def by_polars(folder: Path) -> set[tuple[str, str]]:
    """Return a folder's sweeps and attempts."""
    polars: Any = pytest.importorskip("polars")
    return set(polars.read_parquet(folder).select("sweep_id", "attempt_id").rows())


READERS = pytest.mark.parametrize("read", [by_pandas, by_pyarrow, by_duckdb, by_polars])


@READERS
def test_a_tables_folder_is_readable_and_has_each_row_once(
    read: Read, catalog: storage.Catalog
) -> None:
    """This holds before a compaction and at once after it, with rows of several sweeps and of
    none."""
    rows = [(sweep, f"a{n}") for n, sweep in enumerate(("sweep:1", "sweep:2", "none", "sweep:1"))]
    for sweep, attempt in rows:
        new = {"attempt_id": attempt, "sweep_id": None if sweep == "none" else sweep}
        storage.commit(catalog, {"attempts": [new]})
    folder = catalog.home.tables / "attempts"
    assert read(folder) == set(rows)
    compact(catalog)
    assert read(folder) == set(rows)
    assert len(pq.read_table(folder)) == len(rows)
