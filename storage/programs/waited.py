"""Time that an attempt waited, as intervals of one clock: overlapping waits count once."""


class WaitedTime:
    """The union of waits."""

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
        self.seconds += end - start
        return self.seconds - before
