"""Forecasts learnt from the programs seen so far: their demand, and the price of a miss.

A program's demand is forecast as a profile over the calls to come: at horizon h it holds its
context plus h times its growth, weighted by the probability that it still runs. Profiles are
summed, so that programs in different phases share a cache that the sum of their peaks would
overfill.

How long to keep an idle program's prefix is a break-even rule. Keeping c tokens of a cache of C
tokens for t seconds costs the waiting programs a share c/C of the engine for t seconds. Losing them
costs c * b seconds of prefill, b being seconds per token. A program returns within t with
probability F(t) and is idle for min(gap, t) seconds. So per token kept, the gain is F(t) * b * C -
E[min(gap, t)] (in seconds of the whole engine, over C). The time to keep is the t that maximises
it; it is 0 if tools take longer than refilling the cache, like Gray's five-minute rule for disks.
Continuum (arXiv 2511.02230) weighs durations in this way too; here the price of a miss is measured,
and programs that never return are counted.

b is the slope of an engine's answer time over its uncached prompt tokens: of the time to first
token if answers are streamed, else of the whole time in a regression with the tokens produced. A
measurement on the idle engine takes precedence.
"""

from bisect import bisect_left, insort
from collections import deque
from math import sqrt

HORIZON = (0, 1, 2, 3, 4, 6, 8, 12, 16, 32, 64)
PRIOR_CALLS = 8.0
"""Assumed number of calls of a program before any has ended; weighted like one program."""
PRIOR_GROWTH = 0.5  # of a context in a call, before any second call has ended: rather too much
SAMPLES = 256
ENOUGH = 8  # programs that have ended: from then on their lengths are believed
RENEW_CALLS = 8
SPARE = 16  # so many outputs are all kept, then one of as many: they are much alike
FIRST_OUTPUT = 256  # tokens, before any answer has come


class Quantiles:
    """The last `SAMPLES` values, in sorted order."""

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
        """Return the value below which about `share` of the values lie."""
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
        """Record a program that ended after `calls` calls."""
        if calls > 0:
            self._lengths.add(calls)
            self._ended += 1
            if self._ended <= SPARE or self._ended % SPARE == 0:
                self._survival.clear()

    def output(self, most: int) -> int:
        """Return the expected output tokens of a call that may produce at most `most`."""
        if not len(self._outputs):
            return min(most, FIRST_OUTPUT)
        return min(most, int(self._outputs.at(0.9)))

    def growth(self, context: int) -> float:
        """Return the expected growth of a program's context per call, in tokens."""
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
        # The mean counts calls of running programs too.
        stays = 1 - 1 / max((self._calls + PRIOR_CALLS) / (self._ended + 1), 1.5)
        # Before any has ended, none is assumed to end soon: programs that begin together grow
        # together, and an overcommitted cache is evicted and refilled again and again.
        sure = 0.0 if self._ended else max(PRIOR_CALLS - calls, 0.0)
        return tuple(stays ** max(h - sure, 0.0) for h in HORIZON)

    def profile(self, tokens: int, growth: float, calls: int) -> list[float]:
        """Return the expected tokens at each horizon of a program that holds `tokens` now."""
        shares = self.survival(calls)
        return [share * (tokens + growth * h) for share, h in zip(shares, HORIZON, strict=True)]


ENOUGH_CALLS = 24
ENOUGH_GAPS = 8
SURE = 2.0  # standard errors
CLEAR = 1.5
"""Gain that keeping must have beyond its cost, as a share of the cost: more of a cache given out to
programs lies unused than what idle programs hold. Values from 0.25 to 2 do equally well for
contexts of thousands of tokens; below 1, small models lose."""
NOISE_MEMORY = 32
MEMORY = 4096  # calls: what a token costs is the engine's property, and hardly changes


class MissPrice:
    """Seconds per uncached prompt token, with its standard error.

    Least squares over the differences between calls that ended one after the other: both saw the
    same load, so the difference is due to their own size. Each difference is weighted by how quiet
    the engine was, so that data from times without queueing is not drowned by the noise of times
    with queueing.
    """

    def __init__(self) -> None:
        self.calls = 0
        self._noise = 0.0  # mean squared residual of recent differences
        self._last: tuple[float, float, float] | None = None
        self._xx = self._xy = self._xz = self._zz = self._zy = 0.0
        self.measured: float | None = None
        """Seconds per token on the idle engine. It is preferred: in a batch, one call's prefill
        delays the other calls by as much, so the slope between concurrent calls is too small."""

    def add(self, fresh: int, produced: int, seconds: float) -> None:
        """Record a call of `fresh` uncached prompt tokens and `produced` output tokens that took
        `seconds`."""
        this = (float(fresh), float(produced), seconds)
        last, self._last = self._last, this
        if last is None:
            return
        self.calls += 1
        x, z, y = this[0] - last[0], this[1] - last[1], this[2] - last[2]
        slope, each, _ = self._solve() if self.calls >= ENOUGH_CALLS else (0.0, 0.0, 0.0)
        error = (y - slope * x - each * z) ** 2
        self._noise += (error - self._noise) / min(self.calls, NOISE_MEMORY)
        weight = 1 / (2 * self._noise + 1e-6)
        keep = 1 - 1 / MEMORY
        self._xx = self._xx * keep + weight * x * x
        self._xz = self._xz * keep + weight * x * z
        self._zz = self._zz * keep + weight * z * z
        self._xy = self._xy * keep + weight * x * y
        self._zy = self._zy * keep + weight * z * y

    def at_most(self, errors: float) -> float | None:
        """Seconds per uncached token: the measured value, else an upper confidence bound of the
        slope, because uncertainty must not cost prefixes. None before there is enough data."""
        if self.measured is not None:
            return self.measured
        known = self.slope()
        return None if known is None else known[0] + errors * known[1]

    def slope(self) -> tuple[float, float] | None:
        """Seconds per uncached token and its standard error, by regression over calls."""
        if self.calls < ENOUGH_CALLS or self._xx <= 0:
            return None
        slope, _, variance = self._solve()
        return max(slope, 0.0), sqrt(variance)  # weights are inverse variances

    def _solve(self) -> tuple[float, float, float]:
        """Seconds per uncached token and per produced token, and the variance of the former."""
        xx, xy = self._xx, self._xy
        determinant = xx * self._zz - self._xz * self._xz
        if determinant > 1e-6 * xx * self._zz and self._zz > 0:
            slope = (xy * self._zz - self._zy * self._xz) / determinant
            each = (self._zy * xx - xy * self._xz) / determinant
            return slope, each, self._zz / determinant
        if xx <= 0:
            return 0.0, 0.0, 0.0
        return xy / xx, 0.0, 1 / xx  # all calls produce the same number of tokens


def seconds_to_keep(gaps: Quantiles, lost: int, refill_s: float) -> float:
    """Return how long to keep an idle program's prefix, given the observed gaps between calls.
    `lost` programs never came back; `refill_s` is b * C, the time to refill the cache."""
    values = gaps.sorted
    if len(values) < ENOUGH_GAPS:
        return refill_s
    total = len(values) + lost
    best, best_gain, best_cost, waited = 0.0, 0.0, 0.0, 0.0
    for place, gap in enumerate(values):
        # Programs that return within `gap` waited their own time, all others the whole gap.
        returned = place + 1
        waited += gap
        cost = (waited + gap * (total - returned)) / total
        gain = refill_s * returned / total - cost
        if gain > best_gain:
            best, best_gain, best_cost = gap, gain, cost
    return best if best_gain > CLEAR * best_cost else 0.0
