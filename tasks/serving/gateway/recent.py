"""Recently used call ids: a repeated id is refused, so that no two rows share it.

The number is bounded: beyond `KEPT` ids the oldest half is forgotten.
"""

KEPT = 200_000
"""Half a minute of calls at the gateway's highest rate, in 13 MB."""


class RecentIds:
    """The last ids, as hashes: two different ids collide with a probability of 10^-13."""

    def __init__(self) -> None:
        self._newer: set[int] = set()
        self._older: set[int] = set()

    def take(self, identity: str) -> bool:
        """Add an id; returns whether it is new."""
        key = hash(identity)
        if key in self._newer or key in self._older:
            return False
        if len(self._newer) >= KEPT // 2:
            self._older, self._newer = self._newer, set()
        self._newer.add(key)
        return True
