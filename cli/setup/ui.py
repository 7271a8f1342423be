"""Runs Prefect's server, a worker per pool and the deployments of prefect.yaml, until Ctrl-C.

Run: ``tutti ui [--port 4201]``. In: TUTTI_HOME (history in `prefect`), PREFECT_SERVER_API_PORT.
Out: the UI's address. Every child process ends with this process, even if it is killed.
"""

import json
import os
import signal
import sys
import time
import urllib.error
import urllib.request
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.markup import escape

from tutti.cli.base.flow import ENVIRONMENT, READY_TIMEOUT_S
from tutti.cli.setup.deployments import DeploymentForms, automate, written
from tutti.errors import ExitCode, TuttiError
from tutti.storage import Catalog, open_catalog
from tutti.tasks.platform import DEPLOYMENTS, IMPORTS, PROJECT, models_python_path
from tutti.tasks.serving import PortTaken, ServingError
from tutti.tasks.serving.processes import Child, claim_port

PORT = 4200  # reports use the next port, because browsers block file:// links on web pages
POOLS = {"cpu": 1, "gpu": 1}  # concurrent flow runs; two sweeps would disturb each other
TEMPLATES = {"gpu": DEPLOYMENTS / "pools" / "gpu.json"}
"""Base job templates of pools that have one of their own; that of `cpu` is Prefect's."""
SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
GUIDE = """
[bold green]{url}[/] shows the flow runs of {home}

  run a sweep   {url}/deployments -> eval-sweep -> Run -> Custom run -> Submit
  results       the run's page, tab Artifacts; reports are also at {reports}
  every night   {schedule}, while this runs: {url}/deployments -> nightly
  logs          {logs}

Ctrl-C ends the server, the workers and what they run."""


def main(asked: int | None = None) -> ExitCode:
    """Run until a signal (exit code 0); 1 if a child process ends or a port is taken."""
    port = asked or int(os.environ.get("PREFECT_SERVER_API_PORT") or PORT)
    console = Console(highlight=False, soft_wrap=True)
    for number in SIGNALS:
        signal.signal(number, signal.default_int_handler)
    try:
        claim_port(port), claim_port(port + 1)
        with open_catalog() as catalog, ExitStack() as stack:
            _serve(port, catalog, stack, console)
    except KeyboardInterrupt:
        console.print("ended; the history is kept")
        return ExitCode.DONE
    except PortTaken as error:
        hint = f"another pair of ports: tutti ui --port {port + 2}"
        print(f"tutti ui: {str(error).split(';')[0]}; stop it, or take {hint}", file=sys.stderr)
    except TuttiError as error:
        print(f"tutti ui: {error}", file=sys.stderr)
    return ExitCode.FAILED


def child_environment(port: int, home: Path) -> dict[str, str]:
    """Environment variables of the server, the workers and the flow runs."""
    environment = ENVIRONMENT | {
        "PREFECT_HOME": str(home / "prefect"),
        "PREFECT_API_URL": f"http://127.0.0.1:{port}/api",
        "PREFECT_SERVER_API_PORT": str(port),  # the UI's pages ask for their data there
        "PREFECT_WORKER_QUERY_SECONDS": "2",
        "PREFECT_LOGGING_LEVEL": "INFO",  # a run's page shows its stages as they end
        **IMPORTS,
        "TUTTI_PROJECT": str(PROJECT),  # prefect.yaml: where flow runs start
        "TUTTI_HOME": str(home),
        "TUTTI_ARTIFACTS_URL": f"http://127.0.0.1:{port + 1}",
    }
    # Absolute, because flow runs start in another folder than this process.
    return environment | {"TUTTI_MODELS_PYTHON": os.path.abspath(models_python_path())}


def _serve(port: int, catalog: Catalog, stack: ExitStack, console: Console) -> None:
    home = catalog.home
    environment = child_environment(port, home.root)
    api = environment["PREFECT_API_URL"]
    wanted = written(PROJECT, home.root / "prefect")

    def start(role: str, *words: str) -> Child:
        command = [sys.executable, "-m", *words]
        child = stack.enter_context(Child(role, command, environment, catalog))
        # Called before the child is stopped: a second Ctrl-C must not interrupt the cleanup.
        stack.callback(lambda: [signal.signal(number, signal.SIG_IGN) for number in SIGNALS])
        return child

    console.print("starting the server, workers and deployments (about 20 s) …")
    there = ("--host", "127.0.0.1", "--port", str(port))
    server = start("prefect", "prefect", "server", "start", *there)
    reports = start("reports", "tutti.cli.setup.reports", str(home.artifacts), str(port + 1))
    server.wait_ready(lambda: _ask(f"{api}/health") is True, READY_TIMEOUT_S)
    _close_orphans(api)
    workers = {}
    for pool, limit in POOLS.items():  # a worker creates its pool if necessary
        words = ["--pool", pool, "--type", "process", "--name", pool, "--limit", str(limit)]
        words += ["--base-job-template", str(TEMPLATES[pool])] if pool in TEMPLATES else []
        workers[pool] = start(f"worker-{pool}", "prefect", "worker", "start", *words)
    for pool, worker in workers.items():
        worker.wait_ready(partial(_ask, f"{api}/work_pools/{pool}"), READY_TIMEOUT_S)
    words = ["deploy", "--all", "--prefect-file", str(wanted.file)]
    deploy = start("deploy", "prefect", "--no-prompt", *words)
    while deploy.poll() is None:
        time.sleep(0.5)
    if deploy.poll():
        raise ServingError(f"prefect.yaml was not registered:\n{deploy.log_tail()}")
    if not automate(api, _ask):
        console.print(
            "[yellow]the automation for worse nights was not created: the server rejected it[/]"
        )
    forms = DeploymentForms(api, _ask, wanted.names)
    _follow(forms, console)
    url, pages = api.removesuffix("/api"), environment["TUTTI_ARTIFACTS_URL"]
    night = wanted.night
    when = f"{night.schedule} ({night.timezone})" if night.schedule else "by hand"
    shown = {"home": home.root, "logs": home.logs, "schedule": when}
    console.print(GUIDE.format(url=url, reports=pages, **shown))
    while True:
        for child in (server, reports, *workers.values()):
            child.check()
        _follow(forms, console)
        time.sleep(0.5)


def _follow(forms: DeploymentForms, console: Console) -> None:
    if wrong := forms.follow():
        console.print(f"[yellow]{escape(wrong)}[/]")


def _close_orphans(api: str) -> None:
    """Mark runs of a killed server as crashed; otherwise they would keep their slots forever."""
    open_states = {"type": {"any_": ["PENDING", "RUNNING", "CANCELLING"]}}
    asked = {"flow_runs": {"state": open_states}, "work_pools": {"name": {"any_": list(POOLS)}}}
    message = "`tutti ui` ended during this run; run it again to resume"
    state = {"type": "CRASHED", "name": "Crashed", "message": message}
    for run in _ask(f"{api}/flow_runs/filter", asked) or []:
        _ask(f"{api}/flow_runs/{run['id']}/set_state", {"state": state})


def _ask(url: str, body: dict[str, Any] | None = None, method: str | None = None) -> Any:
    """Return the decoded answer ("" if empty); None for no answer or an error."""
    data = None if body is None else json.dumps(body).encode()
    kind = {"Content-Type": "application/json"}
    request = urllib.request.Request(url, data, kind, method=method)
    try:
        with urllib.request.urlopen(request, timeout=5.0) as response:
            return json.loads(response.read() or '""')
    except (urllib.error.URLError, OSError):
        return None
