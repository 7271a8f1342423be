"""Rules that end a cell early: a latency surely above its limit, an accuracy that is decided.

In: a suite's `stopping`, and what of the cell and of its level is stored. Out: watches, which know
the samples that an earlier run finished. Looked at after every step or sample, each ends a cell
without cause with a chance of 5 % at most.
"""

import math
from collections import Counter
from collections.abc import Mapping, Sequence

from tutti.storage import Catalog, query
from tutti.storage.catalog import CellReason
from tutti.tasks.scoring.statistics import CONFIDENCE, ConfidenceSequence, InterimResult
from tutti.tasks.sweeps.plan import Cell, EndReason, Plan

WORDS = {"better": "better", "worse": "worse", "same": "the same"}


class Watch:
    """Watches a cell while it runs, and decides when it ends."""

    _ended: str | None = None

    def step(self, latency_s: float) -> None:
        """Take a step that has ended; seconds from the call to the end of its tools, held time
        included."""

    def sample(self, task_id: str, trial: int, score: float) -> None:
        """Take a counted sample that has ended; of a trial that comes twice the first counts."""

    def verdict(self) -> str | None:
        """Return why the cell ends now, as text, or None to continue. Once returned, it stays."""
        return self._ended


class AccuracyStop(Watch):
    """Watches one cell's scores.

    Tasks that end early are the quick ones, so differences are taken as planned: a task's counts
    when all its samples, and all those of the tasks before it, have ended. A task that is lost to
    infrastructure stops the count, and so does a score outside 0 to 1, for which the bound on
    errors does not hold; the cell then runs to its end.
    """

    def __init__(
        self, reference: Mapping[str, float], planned: Sequence[str], margin: float
    ) -> None:
        """`reference`: mean score by task id, 0 to 1; tasks that it lacks are left out. `planned`:
        the task id of each sample in the order of their starts. `margin`: 0 or more (ValueError).
        """
        self._reference, self.margin = reference, margin
        known = [task for task in planned if task in reference]
        # A task has all its samples where it is named for the last time.
        self._order = list(reversed(dict.fromkeys(reversed(known))))
        self._missing = Counter(known)
        self._scores: dict[str, dict[int, float]] = {task: {} for task in self._order}
        self._looks = ConfidenceSequence(max(1, len(self._order)), margin)
        self._taken = 0
        self._bounded = True

    def sample(self, task_id: str, trial: int, score: float) -> None:
        scores = self._scores.get(task_id)
        if scores is None or trial in scores:
            return
        scores[trial] = score
        self._bounded &= 0 <= score <= 1 and 0 <= self._reference[task_id] <= 1
        self._missing[task_id] -= 1
        while self._ended is None and self._bounded and self._taken < len(self._order):
            task = self._order[self._taken]
            if self._missing[task] > 0:
                return
            self._taken += 1
            mean = sum(self._scores[task].values()) / len(self._scores[task])
            self._ended = self._words(self._looks.add(mean - self._reference[task]))

    def _words(self, look: InterimResult) -> str | None:
        if look.verdict not in WORDS or look.n == len(self._order):
            return None
        within = f" within ±{self.margin:g}" if look.verdict == "same" else ""
        return (
            f"decided after {look.n} of {len(self._order)} tasks: accuracy is "
            f"{WORDS[look.verdict]}{within} (difference {look.low:+.3f} to {look.high:+.3f})"
        )


TAIL = 0.05  # the share of steps that may be above the limit: the limit is on the 95th percentile
LEAST_STEPS = 40  # of a batch: of these two may be above, and one session's next steps are alike
ROUNDS = 4  # steps of each session in a batch: see `LatencyStop`
BETS = (1.0, 3.0, 10.0)  # from a share a little above TAIL to far above; below 1 / TAIL


class LatencyStop(Watch):
    """Watches one cell's step latency.

    A gambler bets on each batch of steps: its share above the limit multiplies the capital by
    1 + bet x (share - TAIL). Were at most TAIL of the steps above in the long run, the chance of
    the capital ever reaching 1 / (1 - CONFIDENCE) is 1 - CONFIDENCE at most (Ville), whatever the
    distribution. Steps that run at the same time have like latencies, so a batch is as many steps
    as all sessions make in `ROUNDS` steps each (`make bench-statistics`: latencies that forget by a
    factor of e in two steps of each session alarm in 4 % of long cells; in four steps, 9 %). Each
    session's first step is left out: they all begin at once, on an empty engine.
    Sources: Waudby-Smith and Ramdas, "Estimating means of bounded random variables by betting",
    JRSS B 86 (2024) 1, with fixed bets; Law, "Simulation modeling and analysis", chapter 9.
    """

    def __init__(self, limit_s: float, slots: int = 1) -> None:
        """`limit_s`: limit of the 95th percentile, seconds; `slots`: concurrent sessions of the
        cell.

        ValueError for a limit or number of slots that is not above 0.
        """
        if not limit_s > 0 or slots < 1:
            raise ValueError(f"limit and slots are above 0, not {limit_s} and {slots}")
        self.limit_s = limit_s
        self._filling, self._batch = slots, max(LEAST_STEPS, ROUNDS * slots)
        self._capital = [0.0] * len(BETS)  # logarithms
        self._steps = self._above = self._in_batch = self._above_in_batch = 0

    def step(self, latency_s: float) -> None:
        if self._filling:
            self._filling -= 1
            return
        above = latency_s > self.limit_s
        self._steps += 1
        self._above += above
        self._in_batch += 1
        self._above_in_batch += above
        if self._in_batch < self._batch:
            return
        share = self._above_in_batch / self._batch
        self._in_batch = self._above_in_batch = 0
        self._capital = [
            capital + math.log1p(bet * (share - TAIL))
            for capital, bet in zip(self._capital, BETS, strict=True)
        ]
        mean = sum(map(math.exp, self._capital)) / len(BETS)
        if self._ended is None and mean >= 1 / (1 - CONFIDENCE):
            self._ended = (
                f"over-saturated: {self._above} of {self._steps} steps took longer than "
                f"{self.limit_s:g} s ({100 * TAIL:g} % would be allowed)"
            )


SCORES = """
select task_id, trial, headline_score as score from counted where cell_id = $cell
order by ended_at, attempt_id
"""
REFERENCE = """
select task_id, avg(headline_score) as score, count(*) as n from counted where cell_id = $cell
group by task_id order by task_id
"""


def watches_of(plan: Plan, cell: Cell, catalog: Catalog) -> list[tuple[EndReason, Watch]]:
    """Return the watches of `cell`, each with the reason that its verdict completes."""
    stopping, reasons = plan.suite.stopping, EndReason.asked_by(plan.suite)
    watches: list[tuple[EndReason, Watch]] = []
    if stopping.saturation is not None:
        # Of an open loop about as many run at once as its level says.
        latency = LatencyStop(stopping.saturation.step_latency_p95, cell.concurrency)
        watches.append((reasons[CellReason.LATENCY_LIMIT], latency))
    if stopping.stop_when_decided is not None and (reference := _reference(plan, cell, catalog)):
        planned = [sample.task.task_id for sample in cell.samples]
        accuracy = AccuracyStop(reference, planned, stopping.stop_when_decided.margin)
        for row in query(SCORES, catalog.home, {"cell": cell.cell_id}):
            accuracy.sample(row["task_id"], row["trial"], row["score"])
        watches.append((reasons[CellReason.ACCURACY_DECIDED], accuracy))
    return watches


def _reference(plan: Plan, cell: Cell, catalog: Catalog) -> Mapping[str, float]:
    """Mean score by task of the first policy's finished cell at the level and repeat of `cell`."""
    own = (plan.suite.first_policy, cell.concurrency, cell.repeat)
    alike = (each for each in plan.cells if (each.policy, each.concurrency, each.repeat) == own)
    first = next(alike, cell)
    if first.cell_id == cell.cell_id:
        return {}
    rows = query(REFERENCE, catalog.home, {"cell": first.cell_id})
    is_whole = sum(row["n"] for row in rows) >= len(first.samples)
    return {row["task_id"]: row["score"] for row in rows} if is_whole else {}
