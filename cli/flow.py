"""Runs a flow for a verb, as a Prefect flow run or as a plain function; shows progress."""

import asyncio
import json
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext, redirect_stdout
from typing import Any

import typer


def run_flow(flow: Any, prefect: bool, as_json: bool, *arguments: Any) -> Any:
    """Run a flow to its end. With `as_json`, its output goes to standard error."""
    from tutti.cli.setup.prefect_server import as_flow_run

    with redirect_stdout(sys.stderr) if as_json else nullcontext():
        return asyncio.run(as_flow_run(flow, prefect, *arguments))


def show_result(result: Any, as_json: bool) -> None:
    """With `as_json`, print a flow's result as the only line on standard output."""
    if as_json:
        typer.echo(json.dumps(result if isinstance(result, dict) else {"sweep_id": result}))


@contextmanager
def progress_bar(title: str, total: int | None = None) -> Iterator[Callable[[int, int], None]]:
    """A progress bar on standard error, if that is a terminal; told (done, total).

    `total` is for work that does not know its own.
    """
    from rich.console import Console
    from rich.progress import Progress

    with Progress(console=Console(stderr=True), transient=True) as bars:
        task = bars.add_task(title, total=total)
        yield lambda done, most: bars.update(task, completed=done, total=total or most)
