"""Prefect's server, a worker for each pool and the deployments of prefect.yaml, until Ctrl-C.

Run: ``make ui``, or ``python -m cli.ui [--port 4201]``. In: TUTTI_HOME, whose folder `prefect`
keeps the history, and PREFECT_SERVER_API_PORT. Out: the UI's address, and nothing left running:
every child ends with this process, even when it is killed.
"""

import argparse
import os
import signal
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Sequence
from contextlib import ExitStack
from functools import partial
from pathlib import Path

from rich.console import Console

from cli.prefect_server import ENVIRONMENT, READY_TIMEOUT_S
from storage import Catalog, StoreError, open_catalog
from tasks.serving import Child, PortTaken, ServingError, claim_port

PROJECT = Path(__file__).resolve().parents[1]
PORT = 4200
# Flow runs at once, by work pool. Two on one CPU would measure each other.
POOLS = {"cpu": 1, "gpu": 1}
POLL_S = 0.5
SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
GUIDE = """
[bold green]{url}[/] shows the runs of {home}

  run a sweep   {url}/deployments, eval-sweep, Run, Custom run, Submit
  nightly       runs at 02:00 UTC while this process does; {url}/deployments switches it off
  results       a run's page, tab Artifacts
  logs          {logs}

Ctrl-C ends the server, the workers and what they run."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run until a signal (0), or until a child fails or the port is taken (1)."""
    parser = argparse.ArgumentParser(prog="python -m cli.ui", description=__doc__)
    default = int(os.environ.get("PREFECT_SERVER_API_PORT") or PORT)
    parser.add_argument("--port", type=int, default=default, help="the UI's port (%(default)s)")
    port: int = parser.parse_args(arguments).port
    console = Console(highlight=False, soft_wrap=True)
    for number in SIGNALS:
        signal.signal(number, signal.default_int_handler)
    try:
        _claim(port)
        with open_catalog() as catalog, ExitStack() as stack:
            _serve(f"http://127.0.0.1:{port}", port, catalog, stack, console)
    except KeyboardInterrupt:
        console.print("ended; the history is kept")
        return 0
    except (ServingError, StoreError) as error:
        print(f"tutti ui: {error}", file=sys.stderr)
    return 1


def child_environment(url: str, port: int, home: Path) -> dict[str, str]:
    """What the server, the workers and the flow runs get on top of this process's environment."""
    environment = ENVIRONMENT | {
        "PREFECT_HOME": str(home / "prefect"),
        "PREFECT_API_URL": f"{url}/api",
        "PREFECT_SERVER_API_PORT": str(port),  # the UI asks for its data there
        "PREFECT_WORKER_QUERY_SECONDS": "2",
        "PREFECT_LOGGING_LEVEL": "INFO",  # a run's page shows its stages as they end
        "PYTHONPATH": str(PROJECT),
        "TUTTI_PROJECT": str(PROJECT),  # prefect.yaml: where flow runs start
        "TUTTI_HOME": str(home),
    }
    if os.environ.get("TUTTI_MODELS_PYTHON"):  # else each run takes the project's own
        environment["TUTTI_MODELS_PYTHON"] = str(Path(os.environ["TUTTI_MODELS_PYTHON"]).absolute())
    return environment


def _claim(port: int) -> None:
    try:
        claim_port(port)
    except PortTaken:
        raise PortTaken(
            f"port {port} is taken by another process (another `make ui`?); stop it, or choose "
            f"another port: PREFECT_SERVER_API_PORT={port + 1} make ui"
        ) from None


def _serve(url: str, port: int, catalog: Catalog, stack: ExitStack, console: Console) -> None:
    """Start everything and watch it. Raises ServingError when a child ends."""
    environment = child_environment(url, port, catalog.home.root)

    def start(role: str, *words: str) -> Child:
        command = [sys.executable, "-m", "prefect", "--no-prompt", *words]
        child = stack.enter_context(Child(role, command, environment, catalog))
        # Runs before the child is stopped: a second Ctrl-C must not cut the clearing up short.
        stack.callback(lambda: [signal.signal(number, signal.SIG_IGN) for number in SIGNALS])
        return child

    console.print("starting the server, workers and deployments (about 20 s) …")
    server = start("prefect", "server", "start", "--host", "127.0.0.1", "--port", str(port))
    server.wait_ready(lambda: _answers(f"{url}/api/health"), READY_TIMEOUT_S)
    workers = {}
    for pool, limit in POOLS.items():  # a worker makes its pool when there is none
        words = ["--pool", pool, "--type", "process", "--name", pool, "--limit", str(limit)]
        workers[pool] = start(f"worker-{pool}", "worker", "start", *words)
    for pool, worker in workers.items():
        worker.wait_ready(partial(_answers, f"{url}/api/work_pools/{pool}"), READY_TIMEOUT_S)
    deploy = start("deploy", "deploy", "--all", "--prefect-file", str(PROJECT / "prefect.yaml"))
    while deploy.poll() is None:
        time.sleep(POLL_S)
    if deploy.poll():
        raise ServingError(f"prefect.yaml was not registered:\n{deploy.log_tail()}")
    console.print(GUIDE.format(url=url, home=catalog.home.root, logs=catalog.home.logs))
    _watch([server, *workers.values()])


def _watch(children: Sequence[Child]) -> None:
    while True:
        for child in children:
            # Never true: raises as soon as the child is gone, with the end of its log.
            if child.poll() is not None:
                child.wait_ready(lambda: False, 0.0)
        time.sleep(POLL_S)


def _answers(url: str) -> bool:
    try:
        with urllib.request.urlopen(url, timeout=2.0) as response:
            return bool(response.status == 200)
    except (urllib.error.URLError, OSError):
        return False


if __name__ == "__main__":
    sys.exit(main())
