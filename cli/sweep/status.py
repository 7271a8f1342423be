"""Which sweep a verb means, and `tutti sweep status`."""

import json
from typing import Annotated

import typer
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table

from tutti import storage
from tutti.cli.failures import UsageError
from tutti.cli.options import AsJson
from tutti.cli.verbs import verb


def find_sweep(catalog: "storage.Catalog", wanted: str) -> str:
    """A sweep's id by id, by name (the newest of that name), or the newest. Raises UsageError."""
    from tutti.storage import catalog as cat

    rows = catalog.rows(cat.sweeps.select().order_by(cat.sweeps.c.created_at.desc()))
    for row in rows:
        if wanted in ("", row["sweep_id"], row["name"]):
            return str(row["sweep_id"])
    known = ", ".join(sorted({row["name"] for row in rows})) or "none yet; `tutti sweep run demo`"
    raise UsageError(f"no sweep {wanted!r}; known: {known}")


@verb
def status(
    sweep: Annotated[str, typer.Argument(help="a sweep's id or name (all)")] = "",
    as_json: AsJson = False,
) -> None:
    """Show the state of each cell and the number of its finished samples."""
    with storage.open_catalog() as catalog:
        chosen = "" if not sweep else f"and c.sweep_id = '{find_sweep(catalog, sweep)}'"
        rows = storage.query(
            "select s.name as sweep, c.model, c.policy, c.concurrency, c.repeat, c.status, "
            "c.samples, count(distinct a.sample_id) filter (a.status != 'infra_error') as finished,"
            " count(*) filter (a.status = 'infra_error') as infra_errors, c.cell_id "
            "from cells c join sweeps s using (sweep_id) left join attempts a using (cell_id) "
            f"where c.status != 'superseded' {chosen} "
            "group by all order by sweep, c.repeat, any_value(c.position)",
            catalog.home,
        )
    if as_json:
        print(json.dumps(rows))
        return
    if not rows:
        print("no sweeps yet; `tutti sweep run demo` makes one")
        return
    table = Table(box=SIMPLE_HEAD, pad_edge=False, collapse_padding=True)
    repeats = ("repeat",) if any(row["repeat"] for row in rows) else ()
    for title in ("sweep", "model", "policy", "at", *repeats, "state", "finished", "infra"):
        # In a narrow terminal names are folded; a load or a state that is cut says nothing.
        is_name = title in ("sweep", "model", "policy")
        table.add_column(title, no_wrap=not is_name, overflow="fold" if is_name else "ellipsis")
    for row in rows:
        names = [row[key] for key in ("sweep", "model", "policy", "concurrency", *repeats)]
        counts = (f"{row['finished']} of {row['samples']}", row["infra_errors"])
        # An imported log may name neither a policy nor a load.
        shown = ["-" if name is None else str(name) for name in names]
        table.add_row(*shown, str(row["status"]), *map(str, counts))
    Console().print(table)
