"""Recently used call ids: a repeated id is refused, so that no two rows share it.

The number is bounded: beyond `KEPT` ids the oldest half is forgotten.
"""

from array import array

KEPT = 200_000
"""Half a minute of calls at the gateway's highest rate."""
SLOTS = 2**18
"""Of each half's table, which is then at most two fifths full: 2 MB."""


class RecentIds:
    """The last ids, as hashes: two different ids collide with a probability of 10^-13.

    Hashes stand in arrays and not in sets: small objects that live long, made between those of
    calls, keep the interpreter from giving memory back.
    """

    def __init__(self) -> None:
        self._newer, self._older = _empty(), _empty()
        self._count = 0
        """Of the newer ones."""

    def take(self, identity: str) -> bool:
        """Add an id; returns whether it is new."""
        key = hash(identity) or 1  # 0 is an empty slot
        slot = _slot(self._newer, key)
        if self._newer[slot] or self._older[_slot(self._older, key)]:
            return False
        if self._count >= KEPT // 2:
            self._older, self._newer = self._newer, _empty()
            self._count, slot = 0, key % SLOTS
        self._newer[slot] = key
        self._count += 1
        return True


def _empty() -> "array[int]":
    return array("q", bytes(8 * SLOTS))


def _slot(table: "array[int]", key: int) -> int:
    """Where the key stands, or the empty slot where it would."""
    slot = key % SLOTS
    while table[slot] not in (0, key):
        slot = (slot + 1) % SLOTS
    return slot
