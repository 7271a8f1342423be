"""Tests of a live view: it is refreshed periodically and at the end, and never fails the work it
shows."""

import asyncio
import io

import httpx
import pytest
from rich.console import Console

from tutti.tasks.platform.progress import LiveView, StageProgress, artifacts, live_artifacts


class Server:
    """Fake server that records the views or fails."""

    def __init__(self, fails: bool = False) -> None:
        self.fails, self.shown = fails, []  # type: tuple[bool, list[LiveView]]

    async def show(self, view: LiveView) -> None:
        """Record a view with the interface of `_Artifacts`."""
        if self.fails:
            raise httpx.ConnectError("no server")
        self.shown.append(view)


def view(n: int) -> LiveView:
    return LiveView([{"step": n}], b"png")


@pytest.fixture()
def in_a_flow(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(artifacts, "in_flow_run", lambda: True)


async def watch(server: Server, refresh_s: float, monkeypatch: pytest.MonkeyPatch) -> str:
    """Watch five steps of 20 ms each, the first known after 20 ms, and return the output. If it is
    refreshed often, each step waits until it is shown."""
    monkeypatch.setattr(artifacts, "_Artifacts", lambda key: server)
    console = Console(file=io.StringIO())
    steps: list[int] = []
    progress = StageProgress("training", console)
    drawn = lambda: view(steps[-1]) if steps else None  # noqa: E731
    async with live_artifacts(progress, "training", drawn, refresh_s):
        for n in range(5):
            await asyncio.sleep(0.02)
            steps.append(n)
            while refresh_s < 1 and server.shown[-1:] != [view(n)]:
                await asyncio.sleep(0.001)
    printed = console.file
    assert isinstance(printed, io.StringIO)
    return printed.getvalue()


@pytest.mark.usefixtures("in_a_flow")
async def test_it_is_refreshed_now_and_then_and_at_the_end(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    seldom, often = Server(), Server()
    await watch(seldom, 60.0, monkeypatch)
    assert seldom.shown == [view(4)], "nothing at the start, all at the end"
    await watch(often, 0.01, monkeypatch)
    assert len(often.shown) > 3 and often.shown[-1] == view(4)


@pytest.mark.usefixtures("in_a_flow")
async def test_a_server_that_fails_does_not_fail_the_work(monkeypatch: pytest.MonkeyPatch) -> None:
    """The failure is reported."""
    printed = await watch(Server(fails=True), 60.0, monkeypatch)
    assert "training: no live view in the UI: no server" in printed


@pytest.mark.usefixtures("in_a_flow")
async def test_a_failure_of_the_work_is_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    """The last known state is shown nevertheless."""
    server = Server()
    monkeypatch.setattr(artifacts, "_Artifacts", lambda key: server)
    progress = StageProgress("training", Console(file=io.StringIO()))
    with pytest.raises(ValueError, match="diverged"):
        async with live_artifacts(progress, "training", lambda: view(1)):
            raise ValueError("diverged")
    assert view(1) in server.shown


async def test_outside_a_flow_run_nothing_is_drawn() -> None:
    progress = StageProgress("training", Console(file=io.StringIO()))
    async with live_artifacts(progress, "training", pytest.fail):
        await asyncio.sleep(0)
