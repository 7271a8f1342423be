"""The progress of a whole sweep: the line below the bar of a cell."""

import time
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple

from tutti.tasks.scoring.statistics import wilson

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
