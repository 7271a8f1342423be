"""Tests of controlling a sweep by commands: pause, cancel from the terminal and from Prefect,
extend its axes. The endpoint is a fake that responds after 200 ms; everything else is real."""

import contextlib
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from bench.harness.run import endpoint
from bench.sweeps import SweepBench
from tests.e2e.conftest import Store
from tutti.cli.setup import ui
from tutti.tasks.platform.project import PROJECT
from tutti.tasks.serving import PortTaken
from tutti.tasks.serving.processes import claim_port

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(600)]

PATIENCE_S = 180.0
ITEMS = 200  # twenty seconds of two sessions: time to type something
FEW = 16
COUNTS = "select count(*) n, count(distinct sample_id) samples from attempts where status = 'ok'"
LOST = "select count(*) n from attempts where stop_reason = 'worker_lost'"


class Desk:
    """A store, a suite of two sessions, and the commands."""

    def __init__(self, folder: Path, url: str) -> None:
        self.shop = SweepBench(folder, url, ITEMS)
        self.store = Store(self.shop.home.root)
        self.output = folder / "output.log"

    def suite(self, limit: int = ITEMS, **axes: Any) -> Path:
        """Return the suite file; the default axes are one policy and two sessions."""
        given: dict[str, Any] = {"policies": ["passthrough"], "concurrency": [2]}
        return self.shop.suite("desk", limit, **given | axes)

    def start(self, suite: Path) -> "subprocess.Popen[bytes]":
        """Start ``tutti sweep run``."""
        flags = ("--models", str(self.shop.models))
        return self.store.start("sweep", "run", str(suite), *flags, output=self.output)

    def run(self, suite: Path) -> None:
        """Run ``tutti sweep run`` to its end."""
        assert self.start(suite).wait(PATIENCE_S) == 0, self.output.read_text()[-2000:]

    def type(self, *arguments: str) -> str:
        """Run another verb, which must succeed, and return its output."""
        done = self.store.run(*arguments)
        assert done.returncode == 0, done.stderr[-2000:]
        return done.stdout

    @property
    def finished(self) -> int:
        """Return the number of attempts in the store."""
        if not (self.store.root / "catalog.db").exists():
            return 0
        return int(self.store.sql(COUNTS)[0]["n"])

    def whole(self, cells: int = 1, limit: int = ITEMS) -> bool:
        """Return whether every sample of this number of cells counts once and every cell is
        finished."""
        wanted = limit * cells
        states = self.store.sql("select status from cells")
        return self.store.sql(COUNTS) == [{"n": wanted, "samples": wanted}] and (
            states == [{"status": "finished"}] * cells
        )


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    """Yield the slow endpoint's URL."""
    with endpoint() as (url, _):
        yield url


@pytest.fixture
def desk(url: str, tmp_path: Path) -> Iterator[Desk]:
    """Yield an empty store; no process that a test started may outlive it."""
    made = Desk(tmp_path, url)
    yield made
    assert not made.store.wait_until_gone()


def until(happened: Callable[[], Any], what: str) -> None:
    """Wait until `happened` is true."""
    deadline = time.monotonic() + PATIENCE_S
    while not happened():
        assert time.monotonic() < deadline, f"waited {PATIENCE_S:.0f} s for {what}"
        time.sleep(0.1)


def test_pause_and_resume(desk: Desk) -> None:
    """Running attempts are finished, no more start, and the same process continues after the
    resume."""
    run = desk.start(desk.suite())
    until(lambda: desk.finished >= 8, "attempts")
    assert "paused" in desk.type("sweep", "pause", "desk")
    until(lambda: not _running(desk), "attempts to end")
    time.sleep(2.0)
    before = desk.finished
    time.sleep(3.0)
    assert before == desk.finished < ITEMS and run.poll() is None
    assert "resumed" in desk.type("sweep", "resume", "desk")
    assert run.wait(PATIENCE_S) == 0, desk.output.read_text()[-2000:]
    assert desk.whole() and desk.store.sql(LOST) == [{"n": 0}]
    again = desk.store.run("sweep", "resume", "desk")
    assert (again.returncode, "is not paused" in again.stderr) == (2, True)
    again = desk.store.run("sweep", "pause", "desk")
    assert (again.returncode, "is not running" in again.stderr) == (2, True)


def test_a_pause_outlives_the_process(desk: Desk) -> None:
    """A run that is killed while paused and started again waits until it is resumed."""
    suite = desk.suite()
    run = desk.start(suite)
    until(lambda: desk.finished >= 8, "attempts")
    desk.type("sweep", "pause", "desk")
    until(lambda: not _running(desk), "attempts to end")
    time.sleep(2.0)
    run.kill()
    run.wait()
    assert not desk.store.wait_until_gone()
    before = desk.finished
    run = desk.start(suite)
    until(lambda: "desk: mock passthrough at 2" in _since_last_run(desk), "the cell")
    time.sleep(4.0)  # it may take a few samples before it has seen that it is paused
    waiting = desk.finished
    time.sleep(3.0)
    assert before <= waiting == desk.finished < ITEMS and run.poll() is None
    desk.type("sweep", "resume", "desk")
    assert run.wait(PATIENCE_S) == 0, desk.output.read_text()[-2000:]
    assert desk.whole()


@pytest.mark.parametrize("finish", [False, True])
def test_cancel_from_the_terminal(desk: Desk, finish: bool) -> None:
    """The sweep ends at once, or after its running attempts, none of which is lost; the same
    command runs the rest."""
    suite = desk.suite()
    run = desk.start(suite)
    until(lambda: desk.finished >= 8, "attempts")
    told = desk.type("sweep", "cancel", "desk", *["--finish"] * finish)
    assert f"process {run.pid} has ended" in told
    assert run.wait(30) != 0 and "Traceback" not in desk.output.read_text()
    assert not desk.store.wait_until_gone()
    assert _running(desk) == 0 if finish else _running(desk) <= 16
    assert desk.finished < ITEMS
    desk.run(suite)
    assert desk.whole()
    if finish:
        assert desk.store.sql(LOST) == [{"n": 0}]


def test_cancel_from_prefect(desk: Desk, tmp_path: Path) -> None:
    """A deployment run that is started and cancelled through Prefect ends as if interrupted.
    Prefect shows it as cancelled, nothing is left behind, and `tutti sweep run` runs the rest."""
    port = _two_ports()
    api = f"http://127.0.0.1:{port}/api"
    environment = desk.store.environment(PREFECT_HOME=str(tmp_path / "client"))
    with (tmp_path / "ui.log").open("wb") as log:
        board = subprocess.Popen(
            [sys.executable, "-m", "tutti.cli.main", "ui", "--port", str(port)],
            cwd=PROJECT, env=environment, stdout=log, stderr=log,
        )  # fmt: skip
    try:
        _cancel_a_run(desk, api, environment | {"PREFECT_API_URL": api})
    finally:
        board.send_signal(signal.SIGINT)
        board.wait(60)
    assert not desk.store.wait_until_gone()
    desk.run(desk.suite())
    assert desk.whole()


def _cancel_a_run(desk: Desk, api: str, environment: dict[str, str]) -> None:
    name = f"{api}/deployments/name/eval-sweep/eval-sweep"
    until(lambda: ui._ask(name), "the deployment")
    deployment = ui._ask(name)
    suite = yaml.safe_load(desk.suite().read_text())
    parameters = {"suite": suite, "models": str(desk.shop.models)}
    # The server, busy with deployments, may not answer in time: the key makes asking again safe.
    body = {"parameters": parameters, "state": {"type": "SCHEDULED"}, "idempotency_key": "desk"}
    create = f"{api}/deployments/{deployment['id']}/create_flow_run"
    made: dict[str, Any] = {}

    def asked() -> dict[str, Any]:
        made.update(ui._ask(create, body) or {})
        return made

    until(asked, "the flow run")
    run = made
    until(lambda: desk.finished >= 8, "attempts")
    command = [sys.executable, "-m", "prefect", "flow-run", "cancel", run["id"]]
    subprocess.run(command, env=environment, check=True, capture_output=True, timeout=300)

    def state() -> str:
        return str(ui._ask(f"{api}/flow_runs/{run['id']}")["state_type"])

    until(lambda: state() in ("CANCELLED", "CRASHED", "FAILED", "COMPLETED"), "its end")
    assert state() == "CANCELLED"
    until(lambda: not _of(desk, "tutti.tasks.serving.gateway"), "the gateway's end")
    assert desk.finished < ITEMS


def test_what_is_added_to_the_axes_runs_alone(desk: Desk) -> None:
    """An added policy, concurrency level or repeat belongs to the same sweep, whose finished cells
    are not changed."""
    desk.run(desk.suite(FEW))
    (old,) = desk.store.sql("select * from cells")
    attempts = f"select * from attempts where cell_id = '{old['cell_id']}' order by attempt_id"
    before = desk.store.sql(attempts)
    added = (
        ({"policies": ["passthrough", "cap"]}, 2),
        ({"policies": ["passthrough", "cap"], "concurrency": [2, 8]}, 4),
        (
            {
                "policies": ["passthrough", "cap"],
                "concurrency": [2, 8],
                "repetition": {"repeats": 2},
            },
            8,
        ),
    )
    for axes, cells in added:
        runs = {row["run_id"] for row in desk.store.sql("select run_id from runs")}
        desk.run(desk.suite(FEW, **axes))
        assert desk.whole(cells, FEW)
        assert desk.store.sql(attempts) == before
        fresh = desk.store.sql(
            "select count(distinct cell_id) n from attempts where run_id not in (select "
            f"unnest({sorted(runs)}))"
        )
        assert fresh == [{"n": cells - (1 if cells == 2 else cells // 2)}]
    assert desk.store.sql("select count(distinct sweep_id) n from cells") == [{"n": 1}]
    assert desk.store.sql(f"from cells where cell_id = '{old['cell_id']}'") == [old]


def _running(desk: Desk) -> int:
    from tutti.cli.sweep.control import running
    from tutti.storage import open_catalog

    with open_catalog(desk.shop.home) as catalog:
        (row,) = desk.store.sql("select distinct sweep_id from cells")
        return running(catalog, row["sweep_id"])


def _two_ports() -> int:
    """Return the first of two consecutive free ports: the UI's, and the report server's next to
    it."""
    while True:
        port = claim_port(None)
        with contextlib.suppress(PortTaken):
            return claim_port(port + 1) - 1


def _of(desk: Desk, words: str) -> list[int]:
    return [pid for pid, command in desk.store.processes().items() if words in command]


def _since_last_run(desk: Desk) -> str:
    return desk.output.read_text().rpartition("… tasks")[2]
