"""`tutti export thunderagent`: ThunderAgent's logs and summary files for each cell of a sweep."""

import json
from contextlib import closing
from pathlib import Path

from tutti import storage
from tutti.cli.failures import UsageError
from tutti.cli.store.outputs import Exported, cells_of
from tutti.tasks.exchange import thunderagent

FORMAT = "thunderagent"


def export(
    catalog: "storage.Catalog", sweep_id: str, out: Path, force: bool, window: str
) -> Exported:
    """`window_summary.json`, `steps_summary.json` and `combined_summary.json` in a folder a cell,
    and the logs that they are of: usage, prefix cache, GPUs.

    `window`: its start and end in seconds, with a comma. Raises UsageError, also for a folder that
    is there already unless `force`.
    """
    start_s, end_s = _ends(window)
    folders = {cell["cell_id"]: out / _name(cell) for cell in cells_of(catalog, sweep_id)}
    if taken := [str(folder) for folder in folders.values() if folder.exists() and not force]:
        raise UsageError(f"{taken[0]}: exists already; --force replaces it")
    written: list[Path] = []
    with closing(storage.connect(catalog.home, macros=["reference_window"])) as connection:
        for cell_id, folder in folders.items():
            folder.mkdir(parents=True, exist_ok=True)
            logs = thunderagent.write_logs(connection, cell_id, folder)
            asked = thunderagent.over(connection, cell_id, start_s, end_s)
            files = _files(cell_id, logs)
            summaries = {
                "window_summary": thunderagent.window_summary([asked], files),
                "steps_summary": thunderagent.steps_summary(asked, files),
                "combined_summary": thunderagent.combined_summary([asked], files),
            }
            written += logs.values()
            for name, summary in summaries.items():
                path = folder / f"{name}.json"
                path.write_text(json.dumps(summary, indent=2) + "\n")
                written.append(path)
    found = {"sweep_id": sweep_id, "files": [str(file) for file in written]}
    return Exported(found, f"{sweep_id}: {len(written)} files in {out}")


def _files(cell_id: str, logs: "dict[str, Path]") -> "thunderagent.RunFiles":
    """The logs by name as the summaries name them; the cell where it has no usage."""
    found = {name: path.name for name, path in logs.items()}
    return thunderagent.RunFiles(
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
