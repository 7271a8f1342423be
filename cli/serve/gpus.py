"""`tutti gpus`: the GPUs, and the run that holds each.

In: the inventory (docs/gpus.md) and the store. Out: one row per GPU. Nothing is leased or released.
"""

import json
import os
from dataclasses import asdict
from datetime import datetime
from pathlib import Path

import typer
from rich.console import Console

from tutti import storage
from tutti.cli.base.verbs import AsJson, verb
from tutti.tasks.platform import gpus
from tutti.terminal import table

COLUMNS = ("gpu", "host", "name", "memory_mb", "state", "run_id", "work", "since", "uuid")


@verb
def show_gpus(as_json: AsJson = False) -> None:
    """List the GPUs, with the run that holds each and since when."""
    with storage.open_catalog() as catalog:
        inventory = gpus.read_inventory(catalog.home)
        listed = gpus.list_gpus(catalog, inventory)
    if as_json:
        typer.echo(json.dumps([asdict(gpu) for gpu in listed], default=datetime.isoformat))
    elif listed:
        times = (gpu.since and f"{gpu.since:%Y-%m-%d %H:%M:%S}" for gpu in listed)
        rows = [asdict(gpu) | {"since": at} for gpu, at in zip(listed, times, strict=True)]
        cells = ([row[name] for name in COLUMNS] for row in rows)
        Console().print(table(dict.fromkeys(COLUMNS, "fold"), cells))
    if inventory.absent and not as_json:
        typer.echo(f"no GPU here: {inventory.absent}")


def told_holders(root: Path) -> str:
    """Return each GPU of this machine and its holder, as text; for a store that does not exist yet,
    only the GPUs. Raises GpuError, StoreError."""
    home = storage.home_at(root)
    inventory = gpus.read_inventory(home)
    if inventory.absent:
        return f"no GPU here: {inventory.absent}"
    if not (home.catalog_file.exists() or os.environ.get("TUTTI_CATALOG_URL")):
        return ", ".join(f"gpu {gpu.index} free" for gpu in inventory.here)
    with storage.open_catalog(home) as catalog:
        listed = gpus.list_gpus(catalog, inventory)
    return ", ".join(gpu.summary for gpu in listed[: len(inventory.here)])
