"""Ends a cell whose step latency surely is above a limit: an over-saturated cell is a result.

In: each step's latency, in the order they ended. Out: in words why the cell ends, or None. Looked
at after every step, a cell whose p95 is at the limit is ended with a chance of 5 % at most.
"""

import math

from tutti.tasks.scoring.statistics import CONFIDENCE

TAIL = 0.05  # the share of steps that may be above the limit: the limit is on the 95th percentile
LEAST_STEPS = 40  # of a batch: of these two may be above, and one session's next steps are alike
ROUNDS = 4  # steps of each session in a batch: see `LatencyStop`
BETS = (1.0, 3.0, 10.0)  # from a share a little above TAIL to far above; below 1 / TAIL


class LatencyStop:
    """Watches one cell.

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
        self._ended: str | None = None

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

    def sample(self, task_id: str, trial: int, score: float) -> None:
        """Scores say nothing of latency."""

    def verdict(self) -> str | None:
        """Why the cell ends now; once said it stays."""
        return self._ended

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
