"""`tutti sweep cancel`: end a sweep that another process runs, and keep its finished samples."""

import os
import signal
import time
from typing import TYPE_CHECKING, Annotated

import typer

from tutti.cli.failures import UsageError, guarded

if TYPE_CHECKING:
    from tutti.storage import Catalog, Holder

LONGEST_S = 120.0
POLL_S = 0.2
SETTLED_S = 3.0  # without a running attempt; by then the run has seen the pause


def register(sweep_app: typer.Typer) -> None:
    """Add the verb."""
    sweep_app.command("cancel")(cancel)


def cancel(
    sweep: Annotated[str, typer.Argument(help="a sweep's id or name (the newest)")] = "",
    finish: Annotated[bool, typer.Option(help="let running attempts finish first")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="print JSON instead of text")] = False,
) -> None:
    """End a running sweep. Attempts in flight are lost; `sweep run` repeats them."""

    def work() -> None:
        from tutti.cli.local import find_sweep
        from tutti.storage import open_catalog

        with open_catalog() as catalog:
            found = find_sweep(catalog, sweep)
            pid = _end(catalog, found, finish)
        if as_json:
            import json

            typer.echo(json.dumps({"sweep_id": found, "pid": pid}))
        else:
            typer.echo(f"{found}: process {pid} has ended; `tutti sweep run` resumes")

    guarded(work)


def _end(catalog: "Catalog", sweep_id: str, finish: bool) -> int:
    """Interrupt the sweep's process and wait for its end. Raises UsageError, StoreBusy."""
    from tutti.cli.sweep.paused import paused_at, set_paused
    from tutti.storage import holder_of, now

    holder = holder_of(catalog, sweep_id)
    if holder is None:
        raise UsageError(f"{sweep_id} is not running")
    if not holder.here:
        raise UsageError(f"{sweep_id} runs on {holder.host}, process {holder.pid}: cancel it there")
    if not finish:
        _interrupt(catalog, sweep_id, holder)
        return holder.pid
    before = paused_at(catalog, sweep_id)
    set_paused(catalog, sweep_id, now())
    try:
        _wait_for_running(catalog, sweep_id, holder)
        _interrupt(catalog, sweep_id, holder)
    finally:  # also after Ctrl-C here: the sweep continues, and later runs are not paused
        set_paused(catalog, sweep_id, before)
    return holder.pid


def _wait_for_running(catalog: "Catalog", sweep_id: str, holder: "Holder") -> None:
    """Wait until no attempt of the sweep is running."""
    from tutti.cli.sweep.paused import running
    from tutti.storage import holder_of

    last = time.monotonic()
    while time.monotonic() < last + SETTLED_S and holder_of(catalog, sweep_id) == holder:
        if running(catalog, sweep_id):
            last = time.monotonic()
        time.sleep(POLL_S)


def _interrupt(catalog: "Catalog", sweep_id: str, holder: "Holder") -> None:
    """Send SIGINT and wait until the process releases the sweep. Raises StoreBusy."""
    from tutti.storage import StoreBusy, holder_of

    if holder_of(catalog, sweep_id) == holder:
        os.kill(holder.pid, signal.SIGINT)
    until = time.monotonic() + LONGEST_S
    while holder_of(catalog, sweep_id) == holder:
        if time.monotonic() > until:
            raise StoreBusy(
                f"{sweep_id}: process {holder.pid} was interrupted and still runs after "
                f"{LONGEST_S:.0f} s"
            )
        time.sleep(POLL_S)
