"""Runs a flow for a verb, as a Prefect flow run or as a plain function; shows progress.

A flow run has the server of PREFECT_API_URL, or a temporary one with its history in
TUTTI_HOME/prefect. Prefect's ephemeral mode is not used: it loses task-run records on exit.
"""

import asyncio
import json
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext, redirect_stdout
from typing import Any

import typer

from tutti import storage
from tutti.tasks.serving import processes

READY_TIMEOUT_S = 90.0
ENVIRONMENT = {
    "PREFECT_SERVER_ANALYTICS_ENABLED": "false",
    "DO_NOT_TRACK": "1",
    "PREFECT_CLOUD_ENABLE_ORCHESTRATION_TELEMETRY": "false",
    "PREFECT_SERVER_UI_SHOW_PROMOTIONAL_CONTENT": "false",
    # By default rows are written one by one, which locks SQLite; batches are ten times as fast.
    "PREFECT_SERVER_SERVICES_TASK_RUN_RECORDER_BATCH_SIZE": "100",
    "PREFECT_SERVER_SERVICES_EVENT_PERSISTER_BATCH_SIZE": "500",
    "PREFECT_LOGGING_LEVEL": "WARNING",
}


async def as_flow_run(flow: Any, prefect: bool, *arguments: Any) -> Any:
    """Call `flow` as a Prefect flow run with a server, or as a plain function."""
    if not prefect:
        return await flow.fn(*arguments)
    with storage.open_catalog() as catalog, prefect_server(catalog) as url:
        from prefect.logging.handlers import APILogHandler
        from prefect.settings import PREFECT_API_URL, temporary_settings

        with temporary_settings({PREFECT_API_URL: url}):
            try:
                return await flow(*arguments)
            finally:
                await APILogHandler.aflush()  # before the server ends


@contextmanager
def prefect_server(catalog: "storage.Catalog") -> Iterator[str]:
    """Provide the API URL of a running server; start one if PREFECT_API_URL is not set."""
    given = os.environ.get("PREFECT_API_URL")
    if given:
        yield given
        return

    port = processes.claim_port(None)
    url = f"http://127.0.0.1:{port}/api"
    home = catalog.home.root / "prefect"
    environment = ENVIRONMENT | {"PREFECT_HOME": str(home), "PREFECT_SERVER_API_PORT": str(port)}
    command = [sys.executable, "-m", "prefect", "server", "start", "--host", "127.0.0.1"]
    os.environ.update(ENVIRONMENT | {"PREFECT_HOME": str(home)})
    with processes.Child("prefect", [*command, "--port", str(port)], environment, catalog) as child:
        child.wait_ready(lambda: processes.answers(f"{url}/health"), READY_TIMEOUT_S)
        yield url


def run_flow(flow: Any, prefect: bool, as_json: bool, *arguments: Any) -> Any:
    """Run a flow to its end. With `as_json`, its output goes to standard error."""
    with redirect_stdout(sys.stderr) if as_json else nullcontext():
        return asyncio.run(as_flow_run(flow, prefect, *arguments))


def show_result(result: Any, as_json: bool) -> None:
    """With `as_json`, print a flow's result as the only line on standard output."""
    if as_json:
        typer.echo(json.dumps(result if isinstance(result, dict) else {"sweep_id": result}))


@contextmanager
def progress_bar(title: str, total: int | None = None) -> Iterator[Callable[[int, int], None]]:
    """A function of (done, total) that moves a progress bar on standard error, if that is a
    terminal. `total` is for work that does not know its own."""
    from rich.console import Console
    from rich.progress import Progress

    hidden = not sys.stderr.isatty()
    with Progress(console=Console(stderr=True), transient=True, disable=hidden) as bars:
        task = bars.add_task(title, total=total)
        yield lambda done, most: bars.update(task, completed=done, total=total or most)
