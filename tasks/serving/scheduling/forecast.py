"""Forecasts of output, context growth and number of calls, learnt from the programs seen so far.

A program's demand for KV cache is forecast as a profile over the calls to come: at horizon h it
holds its context plus h times its growth, weighted by the probability that it still runs. Profiles
are summed, so that programs in different phases share a cache that the sum of their peaks would
overfill.
"""

from bisect import bisect_left, insort
from collections import deque

HORIZON = (0, 1, 2, 3, 4, 6, 8, 12, 16, 32, 64)
"""Horizons, in calls ahead, at which demand is forecast."""
PRIOR_CALLS = 8.0
"""Assumed number of calls of a program before any has ended; weighted like one program."""
PRIOR_GROWTH = 0.5  # of a context in a call, before any second call has ended: rather too much
SAMPLES = 256
ENOUGH = 8  # programs that have ended: from then on their lengths are believed
RENEW_CALLS = 8
SPARE = 16  # so many outputs are all kept, then one of as many: they are much alike
FIRST_OUTPUT = 256  # tokens, before any answer has come


class Quantiles:
    """The last `SAMPLES` values, sorted."""

    def __init__(self, size: int = SAMPLES) -> None:
        self._size = size
        self._order: deque[float] = deque()
        self.sorted: list[float] = []

    def __len__(self) -> int:
        return len(self.sorted)

    def add(self, value: float) -> None:
        """Add a value; the oldest is dropped."""
        if len(self._order) == self._size:
            oldest = self._order.popleft()
            del self.sorted[bisect_left(self.sorted, oldest)]
        self._order.append(value)
        insort(self.sorted, value)

    def at(self, share: float) -> float:
        """The value below which about `share` of the values lie."""
        return self.sorted[min(len(self.sorted) - 1, int(share * len(self.sorted)))]


class Forecast:
    """Statistics of ended calls and programs, and the demand profiles they imply."""

    def __init__(self) -> None:
        self._outputs = Quantiles()
        self._growth: float | None = None
        self._lengths = Quantiles()
        self._calls = 0
        self._ended = 0
        self._survival: dict[int, tuple[float, ...]] = {}

    def call_ended(self, output: int, growth: int | None) -> None:
        """Record a call that produced `output` tokens; its context grew by `growth` over the
        previous call."""
        self._calls += 1
        if len(self._outputs) < SPARE or self._calls % SPARE == 0:
            self._outputs.add(output)
        if self._calls % RENEW_CALLS == 0 and len(self._lengths) < ENOUGH:
            self._survival.clear()
        if growth is not None and growth >= 0:
            old = growth if self._growth is None else self._growth
            self._growth = old + (growth - old) / 32

    def program_ended(self, calls: int) -> None:
        """Record a program that ended after so many calls."""
        if calls > 0:
            self._lengths.add(calls)
            self._ended += 1
            if self._ended <= SPARE or self._ended % SPARE == 0:
                self._survival.clear()

    def output(self, most: int) -> int:
        """Expected output tokens of a call that may produce at most `most`."""
        if not len(self._outputs):
            return min(most, FIRST_OUTPUT)
        return min(most, int(self._outputs.at(0.9)))

    def growth(self, context: int) -> float:
        """Expected growth of a program's context per call, in tokens."""
        return context * PRIOR_GROWTH if self._growth is None else self._growth

    def survival(self, calls: int) -> tuple[float, ...]:
        """For each horizon, the share of programs with `calls` calls that make that many more."""
        known = self._survival.get(calls)
        if known is None:
            known = self._survival[calls] = self._survive(calls)
        return known

    def _survive(self, calls: int) -> tuple[float, ...]:
        lengths = self._lengths.sorted
        alive = len(lengths) - bisect_left(lengths, calls)
        if len(lengths) >= ENOUGH and alive >= 2:
            at_least = (len(lengths) - bisect_left(lengths, calls + h) for h in HORIZON)
            return tuple(count / alive for count in at_least)
        stays = 1 - 1 / max(self._mean_calls(), 1.5)
        # Before any has ended, none is assumed to end soon: programs that begin together grow
        # together, and an overcommitted cache is evicted and refilled again and again.
        sure = 0.0 if self._ended else max(PRIOR_CALLS - calls, 0.0)
        return tuple(stays ** max(h - sure, 0.0) for h in HORIZON)

    def _mean_calls(self) -> float:
        # counts calls of running programs too
        return (self._calls + PRIOR_CALLS) / (self._ended + 1)

    def profile(self, tokens: int, growth: float, calls: int) -> list[float]:
        """Expected tokens at each horizon of a program that holds `tokens` now."""
        shares = self.survival(calls)
        return [share * (tokens + growth * h) for share, h in zip(shares, HORIZON, strict=True)]
