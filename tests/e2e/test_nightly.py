"""Tests of nights with the real server, started as a user does: schedule, verdicts, states and
events."""

import contextlib
import json
import signal
import subprocess
import sys
import threading
import time
import urllib.request
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.e2e.conftest import Store
from tests.ports import free_ports
from tests.serving.weights.checkpoints import make_checkpoint
from tutti.tasks.platform.project import PROJECT

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(1500)]

UP_S, RUN_S = 240.0, 600.0
SUITE = {"policies": ["passthrough"], "concurrency": [4], "benchmark": "stdlib"}
TASKS = {"families": ["module", "parameter"], "train_per_family": 0, "test_per_family": 4}


class Ui:
    """`make ui` as a process, and its API."""

    def __init__(self, store: Store, folder: Path, hook: str) -> None:
        self.folder, self.port = folder, free_ports(2)
        self.log = folder / "ui.log"
        environment = store.environment(TUTTI_WEBHOOK_URL=hook)
        with self.log.open("wb") as out:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "tutti.cli.main", "ui", "--port", str(self.port)],
                cwd=PROJECT, env=environment, stdout=out, stderr=out,
            )  # fmt: skip

    def ask(self, path: str, body: Any = None) -> Any:
        """Return the server's response; retry while it is busy."""
        data = None if body is None else json.dumps(body).encode()
        address = f"http://127.0.0.1:{self.port}/api{path}"
        request = urllib.request.Request(address, data, {"Content-Type": "application/json"})
        for _ in range(20):
            with contextlib.suppress(OSError):
                with urllib.request.urlopen(request, timeout=30) as answer:
                    return json.loads(answer.read() or "null")
            time.sleep(2)
        raise AssertionError(f"no answer of {path}\n{self.log.read_text()[-2000:]}")

    def wait_up(self) -> None:
        """Wait until everything is registered."""
        deadline = time.monotonic() + UP_S
        while "Ctrl-C ends" not in self.log.read_text():
            assert self.process.poll() is None and time.monotonic() < deadline, self.log.read_text()
            time.sleep(0.5)

    def run(self, scheduled: datetime | None = None, **parameters: Any) -> dict[str, Any]:
        """Start a run of the deployment nightly from its form and wait for its end."""
        deployment = self.ask("/deployments/name/nightly/nightly")
        body: dict[str, Any] = {"parameters": parameters}
        if scheduled is not None:
            details = {"scheduled_time": scheduled.isoformat()}
            body["state"] = {"type": "SCHEDULED", "state_details": details}
        made = self.ask(f"/deployments/{deployment['id']}/create_flow_run", body)
        deadline = time.monotonic() + RUN_S
        while True:
            found: dict[str, Any] = self.ask(f"/flow_runs/{made['id']}")
            if found["state"]["type"] in ("COMPLETED", "FAILED", "CRASHED", "CANCELLED"):
                return found
            assert time.monotonic() < deadline, found["state"]
            time.sleep(1)


@pytest.fixture
def told() -> Iterator[tuple[str, list[dict[str, Any]]]]:
    """Yield a webhook's address and the messages that it received."""
    heard: list[dict[str, Any]] = []

    class Hook(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            heard.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
            self.send_response(200)
            self.end_headers()

        def log_message(self, *_: Any) -> None:
            """Suppress the log."""

    with HTTPServer(("127.0.0.1", 0), Hook) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}/secret-path", heard
        server.shutdown()
        thread.join()


@pytest.fixture
def ui(store: Store, tmp_path: Path, told: tuple[str, Any]) -> Iterator[Ui]:
    """Start `make ui` and stop it afterwards."""
    made = Ui(store, tmp_path, told[0])
    try:
        made.wait_up()
        yield made
    finally:
        made.process.send_signal(signal.SIGINT)
        made.process.wait(60)


def night_file(folder: Path, *gates: dict[str, Any], **more: Any) -> str:
    """Write a night file with one small stage."""
    stage = {"suite": SUITE | {"tasks": TASKS}, "gates": list(gates)}
    file = folder / f"night-{len(list(folder.glob('night-*')))}.yaml"
    file.write_text(yaml.safe_dump({"name": "short", "stages": {"full": stage}} | more))
    return str(file)


def test_nights_in_the_ui(store: Store, ui: Ui, told: Any, tmp_path: Path) -> None:
    """The deployment has the schedule of its file. A first night, a worse one and a late one whose
    engine does not start have the right verdicts, states, artifacts, events and webhook
    messages."""
    shipped = yaml.safe_load((PROJECT / "deployments/suites/nightly.yaml").read_text())
    (schedule,) = ui.ask("/deployments/name/nightly/nightly")["schedules"]
    assert schedule["active"] and schedule["schedule"]["cron"] == shipped["schedule"]
    (automation,) = ui.ask("/automations/filter", {})
    assert automation["trigger"]["match"] == {"tutti.night.alerts": "yes"}

    first = ui.run(
        suite_file=night_file(tmp_path, {"at_least": 0.1}, {"margin": 0.5}), night="2020-01-01"
    )
    assert first["state"]["name"] == "Completed"
    assert first["state"]["message"].startswith("short-2020-01-01: inconclusive: ")
    worse = ui.run(suite_file=night_file(tmp_path, {"at_least": 2.0}), night="2020-01-02")
    assert worse["state"]["name"] == "Failed"
    assert worse["state"]["message"].startswith("short-2020-01-02: worse: ")

    # Planned for yesterday at a later hour, or for today where the day has just begun.
    hour = (datetime.now(UTC) + timedelta(hours=1)).hour
    planned = datetime.now(UTC).replace(hour=hour, minute=0, second=0, microsecond=0)
    planned -= timedelta(days=planned > datetime.now(UTC))
    models = yaml.safe_load((PROJECT / "deployments/models.yaml").read_text())
    weights = make_checkpoint(tmp_path / "weights")  # of no model: vLLM ends at once
    models["models"]["pocket"]["checkpoint"] = str(weights)
    (tmp_path / "models.yaml").write_text(yaml.safe_dump(models))
    late = ui.run(
        planned,
        suite_file=night_file(tmp_path, schedule=f"0 {hour} * * *"),
        models=str(tmp_path / "models.yaml"),
    )
    assert late["state"]["name"] == "Failed" and ": inconclusive: " in late["state"]["message"]
    assert "EngineFailed" in late["state"]["message"]

    rows = store.sql("select verdict, reason from verdicts where metric = 'night' order by reason")
    assert [row["verdict"] for row in rows] == ["inconclusive", "worse", "inconclusive"]
    assert rows[-1]["reason"].startswith(f"short-{planned.date()}: full: not measured: Engine")
    for run, words in (
        (first, "2020-01-01: inconclusive"),
        (worse, "**failed**"),
        (late, "Engine"),
    ):
        asked = {"artifacts": {"key": {"any_": ["night"]}, "flow_run_id": {"any_": [run["id"]]}}}
        (artifact,) = ui.ask("/artifacts/filter", asked)
        assert words in artifact["data"]
    assert [each["night"] for each in told[1]] == ["short-2020-01-02", f"short-{planned.date()}"]
    asked = {"filter": {"event": {"prefix": ["tutti.night."]}}}
    deadline = time.monotonic() + 60  # events are kept a while after they were sent
    while len(events := ui.ask("/events/filter", asked)["events"]) < 3:
        assert time.monotonic() < deadline, events
        time.sleep(1)
    assert sorted(event["event"] for event in events) == [
        "tutti.night.inconclusive", "tutti.night.inconclusive", "tutti.night.worse",
    ]  # fmt: skip
    (event,) = [event for event in events if event["event"] == "tutti.night.worse"]
    (sweep,) = store.sql("select sweep_id from sweeps where name = 'short-2020-01-02'")
    assert event["resource"]["prefect.resource.id"] == sweep["sweep_id"]
    for file in (tmp_path / "home").rglob("*"):
        assert not file.is_file() or b"secret-path" not in file.read_bytes(), file
