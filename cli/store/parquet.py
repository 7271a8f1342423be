"""`tutti export parquet`: a copy of the tables, one Parquet file each, for other programs."""

import json
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from tutti.cli.failures import UsageError

if TYPE_CHECKING:
    from tutti.storage import Catalog

FORMAT = "parquet"
TABLES = (
    "attempts messages calls tool_runs retrievals scores server_metrics gateway_events tasks "
    "train_steps runs sweeps cells windows verdicts results"
).split()


def write_tables(catalog: "Catalog", sweep_id: str | None, out: Path, force: bool) -> list[Path]:
    """Write ``<table>.parquet`` for each table, as its view shows it; of one sweep if given.

    Tables without a `sweep_id` are written whole. Raises UsageError for a file that exists, unless
    `force`.
    """
    from tutti.storage import connect

    files = [out / f"{table}.parquet" for table in TABLES]
    if taken := [file for file in files if file.exists() and not force]:
        raise UsageError(f"{taken[0]}: exists already; --force replaces it")
    out.mkdir(parents=True, exist_ok=True)
    macros = ("headlines", "steady_window", "window_summary", "results")
    with closing(connect(catalog.home, macros)) as found:
        for table, file in zip(TABLES, files, strict=True):
            rows = found.sql(f"select * from {table}")
            if sweep_id is not None and "sweep_id" in rows.columns:
                sql = f"select * from {table} where sweep_id = $sweep"
                rows = found.sql(sql, params={"sweep": sweep_id})
            unfinished = file.with_suffix(".tmp")
            rows.write_parquet(str(unfinished), compression="zstd")
            unfinished.replace(file)
    return files


def export(catalog: "Catalog", sweep_id: str, out: Path, force: bool, as_json: bool) -> None:
    """Write the tables, of one sweep if given, and print how many. Raises as `write_tables`."""
    files = write_tables(catalog, sweep_id or None, out, force)
    found = {"sweep_id": sweep_id or None, "files": [str(file) for file in files]}
    typer.echo(json.dumps(found) if as_json else f"{len(files)} tables in {out}")
