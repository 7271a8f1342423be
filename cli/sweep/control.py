"""`tutti sweep status`, `pause`, `resume` and `cancel`: look at a sweep, and control it.

The pause is stored in the catalog, so it reaches the process that runs the sweep on any host.
"""

import json
import os
import signal
import time
from datetime import datetime
from typing import Annotated, Any

import typer
from rich.console import Console

from tutti import storage
from tutti.cli.base.failures import UsageError
from tutti.cli.base.verbs import AsJson, verb
from tutti.terminal import table


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
    repeats = ("repeat",) if any(row["repeat"] for row in rows) else ()
    # In a narrow terminal names are folded; a load or a state that is cut says nothing.
    columns = dict.fromkeys(("sweep", "model", "policy"), "fold")
    columns |= dict.fromkeys(("at", *repeats, "state", "finished", "infra"), "left")
    keys = ("sweep", "model", "policy", "concurrency", *repeats, "status")
    cells = (
        # An imported log may name neither a policy nor a load.
        (
            *("-" if row[key] is None else row[key] for key in keys),
            f"{row['finished']} of {row['samples']}",
            row["infra_errors"],
        )
        for row in rows
    )
    Console().print(table(columns, cells))


LONGEST_S = 120.0
POLL_S = 0.2
SETTLED_S = 3.0  # without a running attempt; by then the run has seen the pause
Sweep = Annotated[str, typer.Argument(help="a sweep's id or name (the newest)")]


@verb
def pause(sweep: Sweep = "", as_json: AsJson = False) -> None:
    """Stop starting samples. Running ones finish; the engine and the gateway keep running."""
    with storage.open_catalog() as catalog:
        found = find_sweep(catalog, sweep)
        if storage.holder_of(catalog, found) is None:
            raise UsageError(f"{found} is not running")
        if paused_at(catalog, found) is None:
            set_paused(catalog, found, storage.now())
        left = running(catalog, found)
    words = f"paused, {left} attempts still running; `tutti sweep resume` continues"
    _say({"sweep_id": found, "running": left}, words, as_json)


@verb
def resume(sweep: Sweep = "", as_json: AsJson = False) -> None:
    """Continue a paused sweep."""
    with storage.open_catalog() as catalog:
        found = find_sweep(catalog, sweep)
        if paused_at(catalog, found) is None:
            raise UsageError(f"{found} is not paused")
        set_paused(catalog, found, None)
        holder = storage.holder_of(catalog, found)
    words = "no process runs it; start `tutti sweep run`" if holder is None else "resumed"
    _say({"sweep_id": found, "pid": None if holder is None else holder.pid}, words, as_json)


@verb
def cancel(
    sweep: Sweep = "",
    finish: Annotated[bool, typer.Option(help="let running attempts finish first")] = False,
    as_json: AsJson = False,
) -> None:
    """End a running sweep. Attempts in flight are lost; `sweep run` repeats them."""
    with storage.open_catalog() as catalog:
        found = find_sweep(catalog, sweep)
        pid = _end(catalog, found, finish)
    words = f"process {pid} has ended; `tutti sweep run` resumes"
    _say({"sweep_id": found, "pid": pid}, words, as_json)


def _end(catalog: "storage.Catalog", sweep_id: str, finish: bool) -> int:
    """Interrupt the sweep's process and wait for its end. Raises UsageError, StoreBusy."""
    holder = storage.holder_of(catalog, sweep_id)
    if holder is None:
        raise UsageError(f"{sweep_id} is not running")
    if not holder.here:
        raise UsageError(f"{sweep_id} runs on {holder.host}, process {holder.pid}: cancel it there")

    def is_held() -> bool:
        return storage.holder_of(catalog, sweep_id) == holder

    before = paused_at(catalog, sweep_id)
    try:
        if finish:
            set_paused(catalog, sweep_id, storage.now())
            last = time.monotonic()
            while time.monotonic() < last + SETTLED_S and is_held():
                last = time.monotonic() if running(catalog, sweep_id) else last
                time.sleep(POLL_S)
        if is_held():
            os.kill(holder.pid, signal.SIGINT)
        until = time.monotonic() + LONGEST_S
        while is_held():
            if time.monotonic() > until:
                raise storage.StoreBusy(
                    f"{sweep_id}: process {holder.pid} was interrupted and still runs after "
                    f"{LONGEST_S:.0f} s"
                )
            time.sleep(POLL_S)
    finally:  # also after Ctrl-C here: the sweep continues, and later runs are not paused
        if finish:
            set_paused(catalog, sweep_id, before)
    return holder.pid


def paused_at(catalog: "storage.Catalog", sweep_id: str) -> datetime | None:
    """Return the time at which the sweep was paused; None if it is not."""
    from tutti.storage import catalog as cat

    query = cat.sweeps.select().where(cat.sweeps.c.sweep_id == sweep_id)
    found: datetime | None = catalog.rows(query)[0]["paused_at"]
    return found


def set_paused(catalog: "storage.Catalog", sweep_id: str, since: datetime | None) -> None:
    """Pause the sweep, or continue it (None). Its process checks about once a second."""
    from tutti.storage import catalog as cat

    with catalog.transaction() as connection:
        of = cat.sweeps.update().where(cat.sweeps.c.sweep_id == sweep_id)
        connection.execute(of.values(paused_at=since))


def running(catalog: "storage.Catalog", sweep_id: str) -> int:
    """The number of attempts that the sweep's current process has started and not yet stored."""
    import sqlalchemy as sa

    from tutti.storage import catalog as cat

    states, cells, leases = cat.attempt_states.c, cat.cells.c, cat.leases.c
    of = sa.select(cells.cell_id).where(cells.sweep_id == sweep_id)
    own = sa.select(leases.token).where(leases.name == sweep_id).scalar_subquery()
    count = sa.func.count().label("n")
    query = sa.select(count).where(states.cell_id.in_(of), states.state == "running")
    query = query.where(states.lease_token == own)  # not those of a killed process
    return int(catalog.rows(query)[0]["n"])


def _say(fields: dict[str, Any], words: str, as_json: bool) -> None:
    typer.echo(json.dumps(fields) if as_json else f"{fields['sweep_id']}: {words}")
