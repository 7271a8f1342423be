"""Tests of `tutti export parquet`: one file per table, for pandas and DuckDB."""

from pathlib import Path

import duckdb
import pandas as pd  # type: ignore[import-untyped]
import pytest

from tutti import storage
from tutti.cli.base.failures import UsageError
from tutti.cli.store.exports import EXPORTS, TABLES, ExportRequest


def test_one_file_a_table_with_the_rows_of_one_sweep(tmp_path: Path) -> None:
    with storage.open_catalog(storage.Home(tmp_path / "store")) as catalog:
        for sweep in ("s1", "s2", None):
            row = {"attempt_id": f"of {sweep}", "sweep_id": sweep, "trial": 0}
            storage.commit(catalog, {"attempts": [row]})
        done = EXPORTS["parquet"](ExportRequest(catalog, tmp_path / "all", False, None))
        request = ExportRequest(catalog, tmp_path / "one", False, "s1")
        EXPORTS["parquet"](request)
        with pytest.raises(UsageError, match="exists already"):
            EXPORTS["parquet"](request)
    files = done.content["files"]
    assert [Path(file).stem for file in files] == TABLES
    assert set(pd.read_parquet(files[0])["attempt_id"]) == {"of s1", "of s2", "of None"}
    with duckdb.connect() as connection:
        sql = f"select attempt_id from '{tmp_path}/one/attempts.parquet'"
        assert connection.execute(sql).fetchall() == [("of s1",)]
