"""Progress of a stage: a bar or lines in the terminal, an artifact in a Prefect flow run."""

import asyncio
import contextlib
import time
from collections.abc import Iterable
from typing import Any

from rich.console import Console, RenderableType
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    SpinnerColumn,
    TextColumn,
    TimeElapsedColumn,
)
from rich.text import Text

ARTIFACT_S = 3.0  # a progress artifact is a row at the Prefect server; more often would load it
SHOW_S = 10.0  # without a terminal: a line now and then
BAR_WIDTHS = (10, 40)  # the narrowest and the widest bar, in characters


class _Bars(Progress):
    below = ""

    def get_renderables(self) -> Iterable[RenderableType]:
        yield from super().get_renderables()
        if self.below:
            yield Text(self.below, style="dim")


class StageProgress:
    """Done and total of one stage, shown in the terminal; a context manager."""

    def __init__(self, name: str, console: Console) -> None:
        self.name, self.console = name, console
        self.done, self.total, self.note = 0.0, 0.0, ""  # the note with the sweep's line
        self._shown = time.monotonic()
        text, elapsed = TextColumn("{task.description}"), TimeElapsedColumn()
        self._bar = _Bars(SpinnerColumn(), text, elapsed, console=console, transient=True)
        self._count_bar = BarColumn()
        self._with_total = (text, self._count_bar, MofNCompleteColumn(), elapsed)
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

    def show(self, done: float, total: float, note: str = "", overall: str = "") -> None:
        """Show the progress of the stage; `overall` is the line about the whole sweep."""
        self.done, self.total = done, total
        self.note = "; ".join(part for part in (note, overall and f"sweep: {overall}") if part)
        if self.console.is_terminal:
            text = self._fitting(f"{self.name} {note}".strip(), f"{total:.0f}")
            # Until then it spins: a bar that stays at 0 of an unknown number says nothing.
            if total:
                self._bar.columns = self._with_total
            self._bar.below = overall and f"  sweep: {overall}"
            self._bar.update(self._row, completed=done, total=total, description=text)
        elif time.monotonic() - self._shown > SHOW_S:
            self._shown = time.monotonic()
            self.console.print(Text(f"  {self.name}: {done:.0f}/{total:.0f} {self.note}", "dim"))

    def _fitting(self, text: str, total: str) -> str:
        """Return the end of `text` (a cell's policy and accuracy) that fits beside the bar, the
        count and the time."""
        room = self.console.width - 2 * len(total) - len(" / 0:00:00  ")
        longest = max(room - BAR_WIDTHS[0], 1)
        if len(text) > longest:
            text = f"…{text[len(text) - longest + 1 :]}"
        self._count_bar.bar_width = min(max(room - len(text), BAR_WIDTHS[0]), BAR_WIDTHS[1])
        return text


@contextlib.asynccontextmanager
async def progress_artifact(progress: StageProgress) -> Any:
    """Update a progress artifact of the flow run during the block."""
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
    """Update the progress periodically, and to 100 % at the end; a failing server is ignored."""
    import httpx
    from prefect.artifacts import acreate_progress_artifact, aupdate_progress_artifact

    key = "".join(c if c.isalnum() else "-" for c in progress.name.lower()).strip("-")
    artifact = None
    try:
        while not ended.is_set():
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(ended.wait(), ARTIFACT_S)
            percent = 100 * progress.done / progress.total if progress.total else 0.0
            if artifact is not None:
                percent = 100.0 if ended.is_set() else percent
                await aupdate_progress_artifact(artifact, percent, progress.note or None)
            elif not ended.is_set():
                artifact = await acreate_progress_artifact(percent, key, progress.name)
    except httpx.HTTPError as error:
        text = f"{progress.name}: no progress in the UI: {error}"
        progress.console.print(Text(text, "yellow"))
