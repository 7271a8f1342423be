"""Progress of a stage: a bar or lines in the terminal, a progress artifact in a Prefect flow run.

`SweepProgress` has the line about a whole sweep that stands below the bar.
"""

import asyncio
import contextlib
import time
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
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
BAR_WIDTHS = (10, 40)
"""The narrowest and the widest bar, in characters."""


class _Bars(Progress):
    below = ""

    def get_renderables(self) -> Iterable[RenderableType]:
        """The bar's table, and the line where there is one."""
        yield from super().get_renderables()
        if self.below:
            yield Text(self.below, style="dim")


class StageProgress:
    """Done and total of one stage, shown in the terminal; a context manager."""

    def __init__(self, name: str, console: Console) -> None:
        self.name, self.console = name, console
        self.done, self.total, self.note = 0.0, 0.0, ""
        """The note that is shown: with what is said of the whole sweep."""
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
        """Say how far the stage is; `note` is a few words such as the accuracy so far, `overall` a
        line about what the stage is a part of (`SweepProgress.line`)."""
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
        """The end of `text` that leaves room for the bar, the count and the time: a cell's policy
        and accuracy come last. The bar takes what is left."""
        room = self.console.width - 2 * len(total) - len(" / 0:00:00  ")
        longest = max(room - BAR_WIDTHS[0], 1)
        if len(text) > longest:
            text = f"…{text[len(text) - longest + 1 :]}"
        self._count_bar.bar_width = min(max(room - len(text), BAR_WIDTHS[0]), BAR_WIDTHS[1])
        return text


@contextlib.asynccontextmanager
async def progress_artifact(progress: StageProgress) -> Any:
    """Keep a progress artifact of the flow run up to date for the block."""
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
    """Keep the progress artifact up to date; a server that fails must not fail the stage's work."""
    import httpx

    try:
        await _show_until_ended(progress, ended)
    except httpx.HTTPError as error:
        text = f"{progress.name}: no progress in the UI: {error}"
        progress.console.print(Text(text, "yellow"))


async def _show_until_ended(progress: StageProgress, ended: asyncio.Event) -> None:
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


RATE_S = 60.0  # samples a second are of the last minute: cells differ in speed


@dataclass
class _Told:
    done: int = 0
    counted: int = 0
    correct: int = 0
    infra: int = 0


class SweepProgress:
    """How far a sweep is, over all of its cells, in one line of words."""

    def __init__(
        self,
        samples: Mapping[str, int],
        finished: Iterable[str] = (),
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """`samples`: cell id to its samples; `finished`: cells that are not run again."""
        self._samples, self._clock = dict(samples), clock
        self._finished = set(finished)
        self._cells: dict[str, _Told] = {}
        self._new = 0
        """Samples that ended while this looked on."""
        self._past: deque[tuple[float, int]] = deque([(clock(), 0)])

    def tell(self, cell_id: str, done: int, counted: int, correct: int, infra: int) -> None:
        """What a cell came to so far: its samples done, of those in its accuracy, right ones, and
        attempts void by infrastructure. What was done before the first word is not new."""
        before = self._cells.get(cell_id, _Told(max(0, done - 1)))
        self._new += max(0, done - before.done)
        self._cells[cell_id] = _Told(done, counted, correct, infra)
        now = self._clock()
        self._past.append((now, self._new))
        while self._past[0][0] < now - RATE_S:
            self._past.popleft()

    def finish(self, cell_id: str) -> None:
        """No more samples of this cell are to come, be they done or not."""
        self._finished.add(cell_id)

    def line(self) -> str:
        """Cells done of all, samples left, samples a second, time left, accuracy so far, errors.
        The accuracy's interval is Wilson's, trials of one task taken as if they were others."""
        left = sum(
            max(0, n - self._cells.get(cell_id, _Told()).done)
            for cell_id, n in self._samples.items()
            if cell_id not in self._finished
        )
        parts = [f"{len(self._finished)} of {len(self._samples)} cells", f"{left:,} samples left"]
        if rate := self._rate():
            parts += [f"{rate:.3g} samples/s", f"ETA {_duration(left / rate)}"]
        return ", ".join([*parts, *self._accuracy()])

    def _rate(self) -> float:
        """New samples a second over the last RATE_S; 0 before there are any."""
        (began, first), (now, last) = self._past[0], self._past[-1]
        return (last - first) / (now - began) if now > began else 0.0

    def _accuracy(self) -> list[str]:
        from tutti.tasks.scoring.statistics import wilson

        counted, correct, infra = (
            sum(getattr(told, name) for told in self._cells.values())
            for name in ("counted", "correct", "infra")
        )
        words = []
        if interval := wilson(correct, counted):
            low, high = (f"{end * 100:.1f}" for end in interval)
            words.append(f"accuracy {correct / counted * 100:.1f} % [{low} to {high}]")
        if infra:
            words.append(f"{infra} infra errors")
        return words


def _duration(seconds: float) -> str:
    """``42 s``, ``3 min 05 s``, ``2 h 07 min``."""
    minutes, rest = divmod(round(seconds), 60)
    if minutes < 60:
        return f"{minutes} min {rest:02d} s" if minutes else f"{rest} s"
    return f"{minutes // 60} h {minutes % 60:02d} min"
