"""Time that an attempt waited, in seconds of any one clock: overlapping waits count once."""

PARTNERS = ("judge", "user")
"""Roles of calls in the place of a partner: an agent does not work meanwhile."""
SPANS_KEPT = 256  # programs may run for days, and waits come in the order in which they end


class WaitedTime:
    """The union of waits; one that overlaps none of the last `SPANS_KEPT` counts in full."""

    __slots__ = ("_spans", "seconds")

    def __init__(self) -> None:
        self._spans: list[tuple[float, float]] = []  # rising and apart
        self.seconds = 0.0

    def add(self, start: float, end: float) -> float:
        """Add a wait; return the seconds of it that no wait before covers."""
        if end <= start:
            return 0.0
        before, later = self.seconds, list[tuple[float, float]]()
        while self._spans and self._spans[-1][1] >= start:
            span = self._spans.pop()
            if span[0] > end:
                later.append(span)
            else:
                start, end = min(start, span[0]), max(end, span[1])
                self.seconds -= span[1] - span[0]
        self._spans += [(start, end), *reversed(later)]
        del self._spans[:-SPANS_KEPT]
        self.seconds += end - start
        return self.seconds - before


class ProgramClock:
    """What a program waited, by its calls as a gateway sees them.

    The agents' working clock, from outside: a call waits until it is sent for the last time, a call
    that failed waited in vain, and after it the program waits until its next call. Calls of
    `PARTNERS` are the partner's time.
    """

    __slots__ = ("_away", "_failed_at", "failing_since", "held_s", "partner_s")

    def __init__(self) -> None:
        self._away = WaitedTime()
        self._failed_at: float | None = None
        self.held_s = 0.0
        self.partner_s = 0.0
        self.failing_since: float | None = None
        """When the first call that failed after the last answer was sent; None: none did."""

    def take(self, times: tuple[float, float], held_s: float, failed: bool, role: str) -> None:
        """Add a call that ended; `times` are when it was sent and ended."""
        sent, ended = times
        if self._failed_at is not None:
            self.held_s += self._away.add(self._failed_at, sent)
        if role in PARTNERS:
            self.partner_s += self._away.add(sent, ended)
        else:
            self.held_s += self._away.add(sent, ended if failed else sent + held_s)
        self._failed_at = ended if failed else None
        self.failing_since = (self.failing_since or sent) if failed else None
