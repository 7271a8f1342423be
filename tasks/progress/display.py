"""Progress of a stage: a bar or lines in the terminal, a progress artifact in a Prefect flow run.

`SweepProgress` is the line about a whole sweep below the bar.
"""

import asyncio
import contextlib
import time
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple

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
    """Show the progress now and then, and 100 % at the end; a server that fails does not matter."""
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


RATE_S = 60.0  # samples a second are of the last minute: cells differ in speed


class _CellCounts(NamedTuple):
    done: int = 0
    counted: int = 0
    correct: int = 0
    infra: int = 0


class SweepProgress:
    """The progress of a sweep, over all of its cells, in one line."""

    def __init__(
        self,
        samples: Mapping[str, int],
        finished: Iterable[str] = (),
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """`samples`: cell id to its samples; `finished`: cells that are not run again."""
        self._samples, self._clock = dict(samples), clock
        self._finished = set(finished)
        self._cells: dict[str, _CellCounts] = {}
        self._new = 0  # samples that ended since this was made
        self._past: deque[tuple[float, int]] = deque([(clock(), 0)])

    def tell(self, cell_id: str, done: int, counted: int, correct: int, infra: int) -> None:
        """Update a cell's counts. Samples done before the first update are not new."""
        before = self._cells.get(cell_id, _CellCounts(max(0, done - 1)))
        self._new += max(0, done - before.done)
        self._cells[cell_id] = _CellCounts(done, counted, correct, infra)
        now = self._clock()
        self._past.append((now, self._new))
        while self._past[0][0] < now - RATE_S:
            self._past.popleft()

    def finish(self, cell_id: str) -> None:
        """Count a cell as finished, even if samples of it are missing."""
        self._finished.add(cell_id)

    def line(self) -> str:
        """Return cells done of all, samples left, rate, time left, accuracy with Wilson's interval,
        errors."""
        from tutti.tasks.scoring.statistics import wilson

        left = sum(
            max(0, n - self._cells.get(cell_id, _CellCounts()).done)
            for cell_id, n in self._samples.items()
            if cell_id not in self._finished
        )
        parts = [f"{len(self._finished)} of {len(self._samples)} cells", f"{left:,} samples left"]
        (began, first), (now, last) = self._past[0], self._past[-1]
        if rate := (last - first) / (now - began) if now > began else 0.0:
            parts += [f"{rate:.3g} samples/s", f"ETA {_duration(left / rate)}"]
        _, counted, correct, infra = map(sum, zip((0, 0, 0, 0), *self._cells.values(), strict=True))
        if interval := wilson(correct, counted):
            low, high = (f"{end * 100:.1f}" for end in interval)
            parts.append(f"accuracy {correct / counted * 100:.1f} % [{low} to {high}]")
        return ", ".join([*parts, *([f"{infra} infra errors"] if infra else [])])


def _duration(seconds: float) -> str:
    """Format a duration: ``42 s``, ``3 min 05 s``, ``2 h 07 min``."""
    minutes, rest = divmod(round(seconds), 60)
    if minutes < 60:
        return f"{minutes} min {rest:02d} s" if minutes else f"{rest} s"
    return f"{minutes // 60} h {minutes % 60:02d} min"
