"""`tutti sweep cancel`: end a sweep that another process runs; what is finished is kept."""

import os
import signal
import time
from typing import TYPE_CHECKING, Annotated

import typer

from cli.failures import UsageError, guarded

if TYPE_CHECKING:
    from storage import Catalog

LONGEST_S = 120.0
POLL_S = 0.2


def register(sweep_app: typer.Typer) -> None:
    """Add the verb."""
    sweep_app.command("cancel")(cancel)


def cancel(
    sweep: Annotated[
        str, typer.Argument(help="a sweep's id or name; the last one if left out")
    ] = "",
    as_json: Annotated[bool, typer.Option("--json", help="print JSON instead of text")] = False,
) -> None:
    """End a running sweep: attempts in flight are lost, the same command goes on later."""

    def work() -> None:
        from cli.local import find_sweep
        from storage import open_catalog

        with open_catalog() as catalog:
            found = find_sweep(catalog, sweep)
            pid = _end(catalog, found)
        if as_json:
            import json

            typer.echo(json.dumps({"sweep_id": found, "pid": pid}))
        else:
            typer.echo(f"{found}: process {pid} has ended it; `tutti sweep run` does the rest")

    guarded(work)


def _end(catalog: "Catalog", sweep_id: str) -> int:
    """Interrupt the sweep's process and wait until it has let go. Raises UsageError."""
    from storage import StoreBusy, holder_of

    holder = holder_of(catalog, sweep_id)
    if holder is None:
        raise UsageError(f"{sweep_id} is not running")
    if not holder.here:
        raise UsageError(f"{sweep_id} runs on {holder.host}, process {holder.pid}: cancel it there")
    os.kill(holder.pid, signal.SIGINT)
    until = time.monotonic() + LONGEST_S
    while holder_of(catalog, sweep_id) == holder:
        if time.monotonic() > until:
            raise StoreBusy(
                f"{sweep_id}: process {holder.pid} was interrupted, and still runs after "
                f"{LONGEST_S:.0f} s"
            )
        time.sleep(POLL_S)
    return holder.pid
