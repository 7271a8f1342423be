"""Runs a flow with a Prefect server: the one that PREFECT_API_URL names, or a temporary one.

The temporary server ends with the run and keeps its history in TUTTI_HOME/prefect, where `make ui`
shows it. Prefect's ephemeral mode is not used, because it loses task-run records on exit.
"""

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from tutti.storage import Catalog, open_catalog
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
    with open_catalog() as catalog, prefect_server(catalog) as url:
        from prefect.logging.handlers import APILogHandler
        from prefect.settings import PREFECT_API_URL, temporary_settings

        with temporary_settings({PREFECT_API_URL: url}):
            try:
                return await flow(*arguments)
            finally:
                await APILogHandler.aflush()  # before the server ends


@contextmanager
def prefect_server(catalog: Catalog) -> Iterator[str]:
    """The API URL of a running server. Starts one if PREFECT_API_URL is not set."""
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
