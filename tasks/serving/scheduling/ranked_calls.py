"""A priority queue of waiting calls, from which any call can be removed or reranked.

A list kept sorted: thousands of held calls cost a binary search and one shift of pointers each.
"""

from bisect import bisect_left, insort
from collections.abc import Iterator

from tutti.tasks.serving.scheduling.ledger import Call

Rank = tuple[float, ...]
"""Sort key of calls, smallest first; all ranks of one queue have the same length."""


class RankedCalls:
    """Calls sorted by rank; equal ranks keep their order of insertion."""

    def __init__(self) -> None:
        self._rows: list[tuple[Rank, int, Call]] = []
        self._keys: dict[str, tuple[Rank, int]] = {}
        self._count = 0

    def put(self, call: Call, rank: Rank) -> None:
        """Add a call, or change its rank; it keeps its order among equals."""
        known = self._keys.get(call.call_id)
        if known is None:
            self._count += 1
            turn = self._count
        else:
            turn = known[1]
            self.drop(call)
        self._keys[call.call_id] = rank, turn
        # turn numbers are unique, so calls are never compared
        insort(self._rows, (rank, turn, call))

    def drop(self, call: Call) -> bool:
        """Remove a call; returns False if it was not in the queue."""
        key = self._keys.pop(call.call_id, None)
        if key is None:
            return False
        del self._rows[bisect_left(self._rows, key)]
        return True

    def first(self) -> Call | None:
        """The first call."""
        return self._rows[0][2] if self._rows else None

    def rank(self, call: Call) -> Rank:
        """The rank of a call in the queue."""
        return self._keys[call.call_id][0]

    def __iter__(self) -> Iterator[Call]:
        return (call for _, _, call in self._rows)

    def __contains__(self, call: Call) -> bool:
        return call.call_id in self._keys

    def __len__(self) -> int:
        return len(self._rows)
