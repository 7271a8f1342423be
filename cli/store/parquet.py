"""`tutti export parquet`: a copy of the tables, one Parquet file each, for other programs."""

from contextlib import closing
from pathlib import Path

from tutti import storage
from tutti.cli.failures import UsageError
from tutti.cli.store.outputs import Exported

FORMAT = "parquet"
TABLES = (
    "attempts messages calls tool_runs retrievals scores server_metrics gateway_events tasks "
    "train_steps runs sweeps cells windows verdicts results"
).split()


def write_tables(
    catalog: "storage.Catalog", sweep_id: str | None, out: Path, force: bool
) -> list[Path]:
    """Write ``<table>.parquet`` for each table, as its view shows it; of one sweep if given.

    Tables without a `sweep_id` are written whole. Raises UsageError for a file that exists, unless
    `force`.
    """
    files = [out / f"{table}.parquet" for table in TABLES]
    if taken := [file for file in files if file.exists() and not force]:
        raise UsageError(f"{taken[0]}: exists already; --force replaces it")
    out.mkdir(parents=True, exist_ok=True)
    macros = ("headlines", "steady_window", "window_summary", "results")
    with closing(storage.connect(catalog.home, macros)) as found:
        for table, file in zip(TABLES, files, strict=True):
            rows = found.sql(f"select * from {table}")
            if sweep_id is not None and "sweep_id" in rows.columns:
                sql = f"select * from {table} where sweep_id = $sweep"
                rows = found.sql(sql, params={"sweep": sweep_id})
            unfinished = file.with_suffix(".tmp")
            rows.write_parquet(str(unfinished), compression="zstd")
            unfinished.replace(file)
    return files


def export(catalog: "storage.Catalog", sweep_id: str | None, out: Path, force: bool) -> Exported:
    """Write the tables. Raises as `write_tables`."""
    files = [str(file) for file in write_tables(catalog, sweep_id, out, force)]
    found = {"sweep_id": sweep_id, "files": files}
    return Exported(found, f"{len(files)} tables in {out}")
