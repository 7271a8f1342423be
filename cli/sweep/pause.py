"""`tutti sweep pause` and `tutti sweep resume`: stop starting samples for a while.

The pause is stored in the catalog, so it reaches the process that runs the sweep on any host.
"""

import json
from typing import Annotated, Any

import typer

from tutti.cli.failures import UsageError, guarded
from tutti.cli.options import AsJson

Sweep = Annotated[str, typer.Argument(help="a sweep's id or name (the newest)")]


def register(sweep_app: typer.Typer) -> None:
    """Add the verbs."""
    sweep_app.command("pause")(pause)
    sweep_app.command("resume")(resume)


def pause(sweep: Sweep = "", as_json: AsJson = False) -> None:
    """Stop starting samples. Running ones finish; the engine and the gateway keep running."""

    def work() -> None:
        from tutti.cli.local import find_sweep
        from tutti.cli.sweep.paused import paused_at, running, set_paused
        from tutti.storage import holder_of, now, open_catalog

        with open_catalog() as catalog:
            found = find_sweep(catalog, sweep)
            if holder_of(catalog, found) is None:
                raise UsageError(f"{found} is not running")
            if paused_at(catalog, found) is None:
                set_paused(catalog, found, now())
            left = running(catalog, found)
        words = f"paused, {left} attempts still running; `tutti sweep resume` continues"
        _say({"sweep_id": found, "running": left}, words, as_json)

    guarded(work)


def resume(sweep: Sweep = "", as_json: AsJson = False) -> None:
    """Continue a paused sweep."""

    def work() -> None:
        from tutti.cli.local import find_sweep
        from tutti.cli.sweep.paused import paused_at, set_paused
        from tutti.storage import holder_of, open_catalog

        with open_catalog() as catalog:
            found = find_sweep(catalog, sweep)
            if paused_at(catalog, found) is None:
                raise UsageError(f"{found} is not paused")
            set_paused(catalog, found, None)
            holder = holder_of(catalog, found)
        words = "no process runs it; start `tutti sweep run`" if holder is None else "resumed"
        _say({"sweep_id": found, "pid": None if holder is None else holder.pid}, words, as_json)

    guarded(work)


def _say(fields: dict[str, Any], words: str, as_json: bool) -> None:
    typer.echo(json.dumps(fields) if as_json else f"{fields['sweep_id']}: {words}")
