"""Scheduling policies: pure state machines. Events in, decisions out; no clock, no network.

A policy says which programs may have calls in flight. The gateway holds the calls of a program
until it is admitted, and admits whom the policy names. Adding one: a class here, a line in
`POLICIES`.
"""

from collections import OrderedDict
from collections.abc import Callable
from typing import Protocol


class Policy(Protocol):
    """What the gateway asks of a policy."""

    def arrive(self, program: str) -> bool:
        """A call of `program` came; True lets it go now, False holds it."""
        ...

    def release(self, program: str) -> list[str]:
        """`program` is over (or its wait was given up); returns programs that may go now."""
        ...


class Passthrough:
    """Every call goes at once: the engine alone decides."""

    def arrive(self, program: str) -> bool:
        """Always true."""
        return True

    def release(self, program: str) -> list[str]:
        """Nobody waits."""
        return []


class Cap:
    """At most `limit` programs at a time, first come first served, each to its completion.

    An admitted program keeps its place between calls, so its prefix stays in the engine's cache.
    """

    def __init__(self, limit: int) -> None:
        if limit < 1:
            raise ValueError(f"cap: the limit must be at least 1, not {limit}")
        self.limit = limit
        self.admitted: set[str] = set()
        self.waiting: OrderedDict[str, None] = OrderedDict()

    def arrive(self, program: str) -> bool:
        """True for an admitted program, or when there is a free place and nobody waits for it."""
        if program in self.admitted:
            return True
        if not self.waiting and len(self.admitted) < self.limit:
            self.admitted.add(program)
            return True
        self.waiting[program] = None
        return False

    def release(self, program: str) -> list[str]:
        """Free the program's place; the longest waiting ones take what is free."""
        self.admitted.discard(program)
        self.waiting.pop(program, None)
        admitted = []
        while self.waiting and len(self.admitted) < self.limit:
            following, _ = self.waiting.popitem(last=False)
            self.admitted.add(following)
            admitted.append(following)
        return admitted


POLICIES: dict[str, Callable[[int], Policy]] = {
    "passthrough": lambda _: Passthrough(),
    "cap": Cap,
}


def make_policy(name: str, limit: int) -> Policy:
    """The policy called `name`; `limit` is the most programs at once, for policies that have one.

    Raises KeyError for an unknown name and ValueError for a limit that makes no sense.
    """
    return POLICIES[name](limit)
