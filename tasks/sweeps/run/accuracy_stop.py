"""Ends a cell once its accuracy against another cell's is decided.

In: the other cell's mean score of each task, the order in which this cell's samples are planned,
and its samples as they end. Out: in words why the cell ends, or None. Looked at after every sample,
a difference of nothing ends a cell as better or worse with a chance of 5 % at most.
"""

from collections.abc import Mapping, Sequence

from tutti.tasks.scoring.statistics import ConfidenceSequence, InterimResult

MEANT = {"better": "better", "worse": "worse", "same": "the same"}


class AccuracyStop:
    """Watches one cell.

    Tasks that end early are the quick ones, and an attempt that goes wrong is often the slow one:
    taken as they end, the first differences would be too good. So they are taken as planned: a
    task's difference counts when all its samples, and all those of the tasks before it, have ended.
    A task that is lost to infrastructure stops the count, and the cell runs to its end. The same
    holds for a score outside 0 to 1, of which the bound on errors says nothing.
    """

    def __init__(
        self, reference: Mapping[str, float], planned: Sequence[str], margin: float
    ) -> None:
        """`reference`: mean score by task id, 0 to 1; `planned`: the task id of each sample of the
        cell, in the order in which they start (a task with several trials several times); `margin`:
        a difference that is no matter, 0 or more (else ValueError).

        Tasks that the reference lacks are left out.
        """
        self._reference, self.margin = reference, margin
        known = [task for task in planned if task in reference]
        # A task has all its samples where it is named for the last time.
        self._order = list(reversed(dict.fromkeys(reversed(known))))
        self._missing: dict[str, int] = {}
        for task in known:
            self._missing[task] = self._missing.get(task, 0) + 1
        self._scores: dict[str, dict[int, float]] = {task: {} for task in self._order}
        self._looks = ConfidenceSequence(max(1, len(self._order)), margin)
        self._taken = 0
        self._bounded = True
        self._ended: str | None = None

    def step(self, latency_s: float) -> None:
        """Latency says nothing of scores."""

    def sample(self, task_id: str, trial: int, score: float) -> None:
        """A counted sample ended; of a trial that is told twice the first counts."""
        scores = self._scores.get(task_id)
        if scores is None or trial in scores:
            return
        scores[trial] = score
        self._bounded &= 0 <= score <= 1 and 0 <= self._reference[task_id] <= 1
        self._missing[task_id] -= 1
        while self._ended is None and self._bounded and self._next_is_complete():
            task = self._order[self._taken]
            self._taken += 1
            mean = sum(self._scores[task].values()) / len(self._scores[task])
            self._ended = self._said(self._looks.add(mean - self._reference[task]))

    def verdict(self) -> str | None:
        """Why the cell ends now; once said it stays."""
        return self._ended

    def _next_is_complete(self) -> bool:
        return self._taken < len(self._order) and self._missing[self._order[self._taken]] <= 0

    def _said(self, found: InterimResult) -> str | None:
        if found.verdict not in MEANT or found.n == len(self._order):
            return None
        within = f" within ±{self.margin:g}" if found.verdict == "same" else ""
        return (
            f"decided after {found.n} of {len(self._order)} tasks: accuracy is "
            f"{MEANT[found.verdict]}{within} (difference {found.low:+.3f} to {found.high:+.3f})"
        )
