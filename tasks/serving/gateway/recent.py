"""Ids that were given out of late: one that comes again is not taken, so that no two rows share it.

Bounded: of more than `KEPT` ids the oldest are forgotten, half of them at a time.
"""

KEPT = 200_000
"""Half a minute of the most calls that a gateway takes, in 13 MB."""


class RecentIds:
    """The last ids, by their hash: two that differ collide once in 10^13."""

    def __init__(self) -> None:
        self._newer: set[int] = set()
        self._older: set[int] = set()

    def take(self, identity: str) -> bool:
        """Whether the id is new; it is not from now on."""
        key = hash(identity)
        if key in self._newer or key in self._older:
            return False
        if len(self._newer) >= KEPT // 2:
            self._older, self._newer = self._newer, set()
        self._newer.add(key)
        return True
