"""`tutti export thunderagent`: ThunderAgent's logs and summary files for each cell of a sweep."""

import json
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING

import sqlalchemy as sa
import typer

from tutti.cli.failures import UsageError

if TYPE_CHECKING:
    from tutti.storage import Catalog
    from tutti.tasks.exchange.thunderagent import RunFiles

FORMAT = "thunderagent"


def write_summaries(
    catalog: "Catalog", sweep_id: str, out: Path, window: str, force: bool
) -> list[Path]:
    """`window_summary.json`, `steps_summary.json` and `combined_summary.json` in a folder a cell,
    and the logs that they are of: usage, prefix cache, GPUs.

    `window`: its start and end in seconds, with a comma. Raises UsageError, also for a folder that
    is there already unless `force`.
    """
    from tutti.storage import catalog as cat
    from tutti.storage import connect
    from tutti.tasks.exchange.thunderagent import (
        combined_summary,
        over,
        steps_summary,
        window_summary,
        write_logs,
    )

    start_s, end_s = _ends(window)
    rows = sa.select(cat.cells).where(cat.cells.c.sweep_id == sweep_id)
    cells = catalog.rows(rows.where(cat.cells.c.status != cat.SUPERSEDED))
    folders = {cell["cell_id"]: out / _name(cell) for cell in cells}
    if taken := [str(folder) for folder in folders.values() if folder.exists() and not force]:
        raise UsageError(f"{taken[0]}: exists already; --force replaces it")
    written: list[Path] = []
    with closing(connect(catalog.home, macros=["reference_window"])) as connection:
        for cell_id, folder in folders.items():
            folder.mkdir(parents=True, exist_ok=True)
            logs = write_logs(connection, cell_id, folder)
            asked, files = over(connection, cell_id, start_s, end_s), _files(cell_id, logs)
            found = {
                "window_summary": window_summary([asked], files),
                "steps_summary": steps_summary(asked, files),
                "combined_summary": combined_summary([asked], files),
            }
            written += logs.values()
            for name, summary in found.items():
                path = folder / f"{name}.json"
                path.write_text(json.dumps(summary, indent=2) + "\n")
                written.append(path)
    return written


def export(
    catalog: "Catalog", sweep_id: str, out: Path, force: bool, as_json: bool, window: str
) -> None:
    """Write a sweep's summaries and print what was written. Raises as `write_summaries`."""
    files = write_summaries(catalog, sweep_id, out, window, force)
    found = {"sweep_id": sweep_id, "files": [str(file) for file in files]}
    words = f"{sweep_id}: {len(files)} files in {out}"
    typer.echo(json.dumps(found) if as_json else words)


def _files(cell_id: str, logs: "dict[str, Path]") -> "RunFiles":
    """The logs by name as the summaries name them; the cell where it has no usage."""
    from tutti.tasks.exchange.thunderagent import RunFiles

    found = {name: path.name for name, path in logs.items()}
    return RunFiles(
        found.get("usage_jsonl", cell_id), found.get("metrics_csv"), found.get("gpu_util_csv")
    )


def _ends(window: str) -> tuple[float, float]:
    try:
        start_s, end_s = (float(each) for each in window.split(","))
    except ValueError:
        raise UsageError(f"--window: {window!r} is not START,END in seconds") from None
    if not 0 <= start_s < end_s:
        raise UsageError(f"--window: {window!r}: START must be before END")
    return start_s, end_s


def _name(cell: dict[str, object]) -> str:
    load = "" if cell["concurrency"] is None else f"_c{cell['concurrency']}"
    setup = "{benchmark}_{model}_{policy}".format(**cell | {"policy": cell["policy"] or "unknown"})
    return f"{setup}{load}_rep{cell['repeat']}".replace("/", "-")
