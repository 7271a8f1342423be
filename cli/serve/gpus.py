"""`tutti gpus`: the cards, and which run holds which.

In: the inventory (docs/gpus.md) and the store. Out: a row a card. Nothing is taken or given back.
"""

import json
import os
from dataclasses import asdict
from datetime import datetime
from pathlib import Path
from typing import Any

import typer
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table

from tutti import storage
from tutti.cli.options import AsJson
from tutti.cli.verbs import verb
from tutti.tasks import gpus

COLUMNS = ("gpu", "host", "name", "memory_mb", "state", "run_id", "work", "since", "uuid")


@verb
def show_gpus(as_json: AsJson = False) -> None:
    """List the GPUs, and which run holds which since when."""
    with storage.open_catalog() as catalog:
        inventory = gpus.read_inventory(catalog.home)
        cards = gpus.list_gpus(catalog, inventory)
    if as_json:
        typer.echo(json.dumps([asdict(card) for card in cards], default=datetime.isoformat))
    elif cards:
        Console().print(_table(cards))
    if inventory.absent and not as_json:
        typer.echo(f"no GPU here: {inventory.absent}")


def told_holders(root: Path) -> str:
    """Each card of this machine and its holder, in words; of a store that is not there yet, only
    the cards. Raises GpuError, StoreError."""
    home = storage.home_at(root)
    inventory = gpus.read_inventory(home)
    if inventory.absent:
        return f"no GPU here: {inventory.absent}"
    if not (home.catalog_file.exists() or os.environ.get("TUTTI_CATALOG_URL")):
        return ", ".join(f"gpu {gpu.index} free" for gpu in inventory.here)
    with storage.open_catalog(home) as catalog:
        cards = gpus.list_gpus(catalog, inventory)
    return ", ".join(card.told for card in cards[: len(inventory.here)])


def _table(cards: "list[gpus.ListedGpu]") -> "Table":
    table = Table(box=SIMPLE_HEAD)
    for name in COLUMNS:
        table.add_column(name, overflow="fold")
    for card in cards:
        row: dict[str, Any] = asdict(card)
        since = row["since"]
        row["since"] = None if since is None else f"{since:%Y-%m-%d %H:%M:%S}"
        table.add_row(*("" if row[name] is None else str(row[name]) for name in COLUMNS))
    return table
