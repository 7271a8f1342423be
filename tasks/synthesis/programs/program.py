"""What a program that makes domains provides: records, candidates, and a solver of its own."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from random import Random
from typing import Any, Protocol

from tutti.tasks.agents import Oracle
from tutti.tasks.synthesis.domains import Domain, DomainTask

Tables = dict[str, dict[str, dict[str, Any]]]
"""Records by table and key."""
Knobs = Mapping[str, int]
"""How hard and how large: by the names of a program's `knobs`, all of them."""


@dataclass(frozen=True)
class Knob:
    """A number that a user may set."""

    value: int
    """The default."""
    least: int
    most: int
    about: str


class Program(Protocol):
    """Makes instances of one domain, and tasks in them. All random draws use the given `rng`, so
    that a seed gives the same bytes."""

    name: str
    version: str
    about: str
    knobs: Mapping[str, Knob]
    held_out: frozenset[str]
    """Templates whose tasks are all in the test split."""

    def build(self, rng: Random, knobs: Knobs) -> Domain:
        """An instance: about as many records as 500 tasks need, so that a call stays cheap."""
        ...

    def propose(self, domain: Domain, rng: Random, knobs: Knobs) -> Iterator[DomainTask]:
        """Candidates until the instance has no more; `expected` is empty, the pipeline fills it.

        A candidate's split follows from its entities (`split_of`) and its template (`held_out`).
        """
        ...

    def solve(self, task: DomainTask) -> Oracle:
        """Solve a task by its tools from `slots` and the scenario, as somebody would who does not
        know the golden calls: each argument is given in `slots` or read from a result. Returns what
        it says to the user. Raises LookupError if the results lack what it needs.
        """
        ...


def split_of(entity: str, shares: tuple[int, int] = (60, 20)) -> str:
    """The split of an entity by its hash: so many per cent train and validation, the rest test."""
    place = Random(f"split {entity}").randrange(100)
    if place < shares[0]:
        return "train"
    return "validation" if place < sum(shares) else "test"
