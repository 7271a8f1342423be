"""Run one stage: as a Prefect task inside a flow run, as a plain call outside; timed and shown.

In: an async function without arguments. Out: its result. While it runs, its progress is a line or
a bar in the terminal and, in a flow run, a Prefect progress artifact.
"""

import asyncio
import contextlib
import sys
import time
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, TypeVar

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

T = TypeVar("T")
ARTIFACT_S = 3.0  # a progress artifact is a row at the Prefect server; more often would load it
SHOW_S = 10.0  # without a terminal: a line now and then


class StageLog:
    """What the stages of one run took; prints as they go."""

    def __init__(self, console: Console | None = None) -> None:
        self.console = console or Console(stderr=True)
        self.seconds: dict[str, float] = {}

    async def run(self, name: str, work: Callable[["StageProgress"], Coroutine[Any, Any, T]]) -> T:
        """Run `work(progress)` as the stage `name`; errors pass through."""
        started = time.monotonic()
        progress = StageProgress(name, self.console)
        with progress:
            result = await _as_prefect_task(name, work, progress)
        self.seconds[name] = time.monotonic() - started
        self.console.print(f"[green]✓[/] {name} [dim]{self.seconds[name]:.1f} s[/]")
        return result


class StageProgress:
    """Done and total of one stage, shown in the terminal; a context manager."""

    def __init__(self, name: str, console: Console) -> None:
        self.name, self.console = name, console
        self.done, self.total, self.note = 0.0, 0.0, ""
        self._shown = time.monotonic()
        columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn())
        self._bar = Progress(*columns, TimeElapsedColumn(), console=console, transient=True)
        self._row = self._bar.add_task(name, total=None)

    def __enter__(self) -> "StageProgress":
        if self.console.is_terminal:
            self._bar.start()
        else:
            self.console.print(f"[dim]…[/] {self.name}")
        return self

    def __exit__(self, *_: object) -> None:
        if self.console.is_terminal:
            self._bar.stop()

    def show(self, done: float, total: float, note: str = "") -> None:
        """Say how far the stage is; `note` is a few words such as the accuracy so far."""
        self.done, self.total, self.note = done, total, note
        if self.console.is_terminal:
            text = f"{self.name} {note}".strip()
            self._bar.update(self._row, completed=done, total=total, description=text)
        elif time.monotonic() - self._shown > SHOW_S:
            self._shown = time.monotonic()
            self.console.print(f"[dim]  {self.name}: {done:.0f}/{total:.0f} {note}[/]")


def in_flow_run() -> bool:
    """Whether this code runs inside a Prefect flow run. Never imports Prefect itself."""
    if "prefect" not in sys.modules:
        return False
    from prefect.context import FlowRunContext

    return FlowRunContext.get() is not None


async def _as_prefect_task(
    name: str, work: Callable[[StageProgress], Coroutine[Any, Any, T]], progress: StageProgress
) -> T:
    if not in_flow_run():
        return await work(progress)
    from prefect import task
    from prefect.cache_policies import NO_CACHE

    async def stage() -> T:
        async with _progress_artifact(progress):
            return await work(progress)

    # A closure without parameters: Prefect would otherwise walk and serialise every argument.
    as_task: Callable[[], Awaitable[T]] = task(name=name, cache_policy=NO_CACHE)(stage)
    return await as_task()


@contextlib.asynccontextmanager
async def _progress_artifact(progress: StageProgress) -> Any:
    ended = asyncio.Event()
    updater = asyncio.create_task(_update_artifact(progress, ended))
    try:
        yield
        ended.set()
        await updater
    finally:
        updater.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await updater


async def _update_artifact(progress: StageProgress, ended: asyncio.Event) -> None:
    """Show the progress now and then, and 100 % at the end; a short stage gets no artifact."""
    from prefect.artifacts import acreate_progress_artifact, aupdate_progress_artifact

    key = "".join(c if c.isalnum() else "-" for c in progress.name.lower()).strip("-")
    artifact = None
    while not ended.is_set():
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(ended.wait(), ARTIFACT_S)
        percent = 100 * progress.done / progress.total if progress.total else 0.0
        if artifact is not None:
            percent = 100.0 if ended.is_set() else percent
            await aupdate_progress_artifact(artifact, percent, progress.note or None)
        elif not ended.is_set():
            artifact = await acreate_progress_artifact(percent, key, progress.name)
