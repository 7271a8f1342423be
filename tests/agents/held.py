"""Waits that a double reports to the attempt that runs, without waiting."""

from itertools import count

from tutti.tasks.agents.models.model import note_wait

_PLACES = count(1)


def hold(seconds: float) -> None:
    """Report a wait of `seconds` that overlaps no other."""
    start = 1e6 * next(_PLACES)
    note_wait(start, start + seconds)
