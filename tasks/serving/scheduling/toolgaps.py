"""How long tools take, by name, and how long Continuum keeps a prefix meanwhile.

The fixed rule of its public code: `THRESHOLD_S` for a tool that takes at most that on average or
was never seen, else 0. The rule of its paper: the observed duration t of the tool that maximises
F(t) * gain - t, F being the share of durations up to t and gain the seconds saved by a kept prefix.
Until `ENOUGH` durations are seen, F is exponential with a mean of `PRIOR_S`.
"""

from bisect import bisect_left, insort
from collections import deque
from math import log

THRESHOLD_S = 2.0
ENOUGH = 100
PRIOR_S = 1.0
SEEN = 512  # the last durations of a tool that are kept
NAMES = 1024  # agents name their tools: beyond this many, a new name shares one pool


class ToolDurations:
    """The last `SEEN` durations of one tool."""

    def __init__(self) -> None:
        self._recent: deque[float] = deque()
        self.ordered: list[float] = []

    def add(self, seconds: float) -> None:
        """Add a duration; the oldest is dropped."""
        if len(self._recent) == SEEN:
            del self.ordered[bisect_left(self.ordered, self._recent.popleft())]
        self._recent.append(seconds)
        insort(self.ordered, seconds)

    def mean(self) -> float:
        """Mean of the durations kept."""
        return sum(self.ordered) / len(self.ordered)


class ToolGaps:
    """Durations by tool name; None is a pool of its own."""

    def __init__(self) -> None:
        self._tools: dict[str | None, ToolDurations] = {}

    def add(self, tool: str | None, seconds: float) -> None:
        """Record a duration of a tool."""
        name = tool if tool in self._tools or len(self._tools) < NAMES else None
        self._tools.setdefault(name, ToolDurations()).add(seconds)

    def fixed_s(self, tool: str | None) -> float:
        """Seconds to keep a prefix, by the fixed rule."""
        seen = self._tools.get(tool)
        return THRESHOLD_S if seen is None or seen.mean() <= THRESHOLD_S else 0.0

    def best_s(self, tool: str | None, gain_s: float) -> float:
        """Seconds to keep a prefix that saves `gain_s`, by the paper's rule."""
        seen = self._tools.get(tool)
        if seen is None or len(seen.ordered) < ENOUGH:
            return PRIOR_S * log(gain_s / PRIOR_S) if gain_s > PRIOR_S else 0.0
        count = len(seen.ordered)
        values = ((n / count * gain_s - s, s) for n, s in enumerate(seen.ordered, start=1))
        value, seconds = max(values)
        return seconds if value > 0 else 0.0
