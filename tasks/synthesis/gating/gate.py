"""What a gate is: it judges candidates of one domain, a batch at a time, and says why.

A gate is one file in this folder and one line in `GATES`. Its examples belong to it: the tests run
every gate on its good and bad ones.
"""

import itertools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeVar

from tutti.tasks.agents import Oracle
from tutti.tasks.synthesis.domains import Domain, DomainTask, Replay, Toolkit
from tutti.tasks.synthesis.gating.seen import Seen
from tutti.tasks.task_sets import Verdict

Solver = Callable[[DomainTask], Oracle]
Fact = TypeVar("Fact")


@dataclass
class GateContext:
    """What gates may use. One serves an instance of a domain from first candidate to last."""

    domain: Domain
    toolkit: Toolkit
    """Running."""
    solver: Solver | None = None
    """Of the program that made the domain; None: a teacher made it."""
    benchmarks: Sequence[str] = ()
    """Texts of questions that a task must not repeat."""
    replays: dict[str, Replay] = field(default_factory=dict)
    """By task, filled by the gate `executes` for those after it."""
    ruled: dict[str, tuple[DomainTask, Replay]] = field(default_factory=dict)
    """By task, with what the rules said; filled by the gate `replay` for `policy`. With the task
    itself: its forbidden calls are not part of its id."""
    seen: Seen = field(default_factory=Seen)
    """The tasks that passed the gate `duplicates`; give several benches one to compare across."""
    facts: dict[Callable[..., Any], Any] = field(default_factory=dict)
    numbers: Iterator[int] = field(default_factory=itertools.count)
    """For names that are needed once."""

    def forget(self, task: DomainTask) -> Replay | None:
        """Drop what was kept of a task; returns its replay, if there is one."""
        self.ruled.pop(task.task_id, None)
        return self.replays.pop(task.task_id, None)

    def fact(self, find: Callable[[Domain], Fact]) -> Fact:
        """What `find` says of the domain; it is asked once."""
        if find not in self.facts:
            self.facts[find] = find(self.domain)
        found: Fact = self.facts[find]
        return found


class Gate(Protocol):
    """One gate."""

    name: str
    about: str
    """What it asks, as one sentence for the report."""

    async def judge(self, tasks: Sequence[DomainTask], context: GateContext) -> list[Verdict]:
        """A verdict on each task, in order. Raises ToolkitFailed where the domain's code fails as
        a whole."""
        ...

    def examples(self) -> "Examples":
        """Tasks that it must pass and reject."""
        ...


@dataclass(frozen=True)
class Examples:
    """A gate's own cases: each a domain and a task. Some gates look at those before, too: show it
    the good ones first, those of one domain in one context."""

    good: Sequence[tuple[Domain, DomainTask]]
    bad: Sequence[tuple[Domain, DomainTask]]
    benchmarks: Sequence[str] = ()
    """What their context's `benchmarks` must be."""
