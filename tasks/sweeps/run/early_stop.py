"""What may end a cell early: a latency surely above its limit, an accuracy that is decided.

In: a suite's `stopping`, and what of the cell and of its level is stored. Out: watches, which know
the samples that an earlier run finished. Looked at after every step or sample, each ends a cell
without cause with a chance of 5 % at most.
"""

import math
from collections.abc import Mapping, Sequence
from statistics import fmean

from tutti.storage import Catalog, query
from tutti.storage.catalog import CellReason
from tutti.tasks.scoring.statistics import CONFIDENCE, ConfidenceSequence, InterimResult
from tutti.tasks.sweeps.plan import Cell, EndReason, Plan

MEANT = {"better": "better", "worse": "worse", "same": "the same"}


class Watch:
    """Looks at a cell while it runs, and says when it ends."""

    _ended: str | None = None

    def step(self, latency_s: float) -> None:
        """A step has ended; seconds from the call to the end of its tools, held time included."""

    def sample(self, task_id: str, trial: int, score: float) -> None:
        """A counted sample has ended; of a trial that is reported twice the first counts."""

    def verdict(self) -> str | None:
        """Why the cell ends now, in words; None: go on. Once given it stays."""
        return self._ended


class AccuracyStop(Watch):
    """Watches one cell's scores.

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

    def sample(self, task_id: str, trial: int, score: float) -> None:
        """Take the differences of the tasks that are complete, in their order."""
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


TAIL = 0.05  # the share of steps that may be above the limit: the limit is on the 95th percentile
LEAST_STEPS = 40  # of a batch: of these two may be above, and one session's next steps are alike
ROUNDS = 4  # steps of each session in a batch: see `LatencyStop`
BETS = (1.0, 3.0, 10.0)  # from a share a little above TAIL to far above; below 1 / TAIL


class LatencyStop(Watch):
    """Watches one cell's step latency.

    A gambler bets on each batch of steps: its share above the limit multiplies the capital by
    1 + bet x (share - TAIL). Were at most TAIL of the steps above in the long run, no bet would
    gain on average, nor would the mean of several; the chance of the capital ever reaching
    1 / (1 - CONFIDENCE) is 1 - CONFIDENCE at most (Ville). No distribution of latencies is assumed.
    Steps that run at the same time wait for the same things, so that their latencies are alike;
    counted one by one, a single slow spell would look like many witnesses. A batch is as many
    steps as all sessions make in `ROUNDS` steps each, and holds for what is remembered over half of
    them (`make bench-statistics`: latencies that forget by a factor of e in two steps of each
    session alarm in 4 % of long cells; in four steps, 9 %). Each session's first step is left out:
    they all begin at once, on an empty engine.
    Source: Waudby-Smith and Ramdas, "Estimating means of bounded random variables by betting", JRSS
    B 86 (2024) 1, with a mixture of fixed bets; batches as in Law, "Simulation modeling and
    analysis", chapter 9.
    """

    def __init__(self, limit_s: float, slots: int = 1) -> None:
        """`limit_s`: of the 95th percentile, seconds; `slots`: the cell's sessions at once.

        ValueError for a limit or number of slots that is not above 0.
        """
        if not limit_s > 0 or slots < 1:
            raise ValueError(f"limit and slots are above 0, not {limit_s} and {slots}")
        self.limit_s = limit_s
        self._filling, self._batch = slots, max(LEAST_STEPS, ROUNDS * slots)
        self._capital = [0.0] * len(BETS)  # logarithms
        self._steps = self._above = self._in_batch = self._above_in_batch = 0

    def step(self, latency_s: float) -> None:
        """A step ended; time it was held is part of `latency_s`."""
        if self._filling:
            self._filling -= 1
            return
        above = latency_s > self.limit_s
        self._steps += 1
        self._above += above
        self._in_batch += 1
        self._above_in_batch += above
        if self._in_batch == self._batch:
            self._bet(self._above_in_batch / self._batch)
            self._in_batch = self._above_in_batch = 0

    def _bet(self, share: float) -> None:
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


def watches_of(plan: Plan, cell: Cell, catalog: Catalog) -> list[tuple[EndReason, Watch]]:
    """Who watches `cell`, each with the reason that its verdict completes."""
    suite = plan.suite
    found: list[tuple[EndReason, Watch]] = []
    asked = EndReason.asked_by(suite)
    if suite.stopping.saturation is not None:
        # Of an open loop about as many run at once as its level says.
        limit = suite.stopping.saturation.step_latency_p95
        found.append((asked[CellReason.LATENCY_LIMIT], LatencyStop(limit, cell.concurrency)))
    if suite.stopping.stop_when_decided is not None and (
        reference := _reference(plan, cell, catalog)
    ):
        planned = [sample.task.task_id for sample in cell.samples]
        watch = AccuracyStop(reference, planned, suite.stopping.stop_when_decided.margin)
        for row in query(SCORES, catalog.home, {"cell": cell.cell_id}):
            watch.sample(row["task_id"], row["trial"], row["score"])
        found.append((asked[CellReason.ACCURACY_DECIDED], watch))
    return found


def _reference(plan: Plan, cell: Cell, catalog: Catalog) -> Mapping[str, float]:
    """Mean score by task of the first policy's finished cell at the level and repeat of `cell`."""
    own = (cell.concurrency, cell.repeat)
    first: Sequence[Cell] = [
        each
        for each in plan.cells
        if each.policy == plan.suite.first_policy and (each.concurrency, each.repeat) == own
    ]
    if not first or first[0].cell_id == cell.cell_id:
        return {}
    scores: dict[str, list[float]] = {}
    for row in query(SCORES, catalog.home, {"cell": first[0].cell_id}):
        scores.setdefault(row["task_id"], []).append(row["score"])
    whole = sum(map(len, scores.values())) >= len(first[0].samples)
    return {task: fmean(each) for task, each in scores.items()} if whole else {}
