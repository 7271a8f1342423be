"""How far a whole sweep is, in a line below the bar of the cell that runs.

In: what each cell says of itself. Out: words: cells done, samples left, speed, time left, accuracy
so far, errors.
"""

import time
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

RATE_S = 60.0  # samples a second are of the last minute: cells differ in speed


@dataclass
class _Told:
    """What a cell said last."""

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

        The accuracy's interval is Wilson's, trials of one task taken as if they were others.
        """
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
