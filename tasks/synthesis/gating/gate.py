"""Gates of domain tasks: what they share, and how a rule becomes a gate.

A gate is a function in this folder and a line in `GATES`. Tasks that it must pass and reject are in
`tests/synthesis/gating/examples.py`.
"""

import itertools
from collections.abc import Callable, Coroutine, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

from tutti.tasks import task_sets
from tutti.tasks.agents import Oracle
from tutti.tasks.synthesis.domains import Domain, DomainTask, Replay, Toolkit
from tutti.tasks.synthesis.gating.seen import Seen
from tutti.tasks.task_sets import Verdict, verdict

Fact = TypeVar("Fact")


@dataclass
class GateContext:
    """Shared state of the gates for one domain instance."""

    domain: Domain
    toolkit: Toolkit
    """Running."""
    solver: Callable[[DomainTask], Oracle] | None = None
    """Solver of the program that made the domain; None: a teacher made it."""
    benchmarks: Sequence[str] = ()
    """Texts of questions that a task must not repeat."""
    replays: dict[str, Replay] = field(default_factory=dict)
    """Replays by task id; the gate `executes` fills it for those after it."""
    ruled: dict[str, tuple[DomainTask, Replay]] = field(default_factory=dict)
    """Replays with the verdicts of the rules; the gate `replay` fills it for `policy`. It has
    the task itself, because its forbidden calls are not part of its id."""
    seen: Seen = field(default_factory=Seen)
    """The tasks that passed the gate `duplicates`."""
    facts: dict[Callable[..., Any], Any] = field(default_factory=dict)
    """Results of `fact`."""
    numbers: Iterator[int] = field(default_factory=itertools.count)
    """For unique names."""
    _shown: dict[tuple[str, ...], str] = field(default_factory=dict)

    def forget(self, task: DomainTask) -> Replay | None:
        """Drop the stored data of a task; return its replay, if there is one."""
        self.ruled.pop(task.task_id, None)
        return self.replays.pop(task.task_id, None)

    def replay(self, task: DomainTask) -> Replay:
        """Return a task's replay. Raises LookupError if the gate `executes` has not run."""
        if task.task_id not in self.replays:
            raise LookupError(f"{task.task_id} was not replayed: ask the gate `executes` first")
        return self.replays[task.task_id]

    def fact(self, find: Callable[[Domain], Fact]) -> Fact:
        """Return the value of a function of the domain; it is computed once."""
        if find not in self.facts:
            self.facts[find] = find(self.domain)
        found: Fact = self.facts[find]
        return found

    def shown(self, task: DomainTask) -> str:
        """The policy and the descriptions of the tools, as the agent reads them."""
        tools = task.world.tools
        if tools not in self._shown:
            lines = [self.domain.policy]
            for tool in self.domain.offered(task):
                lines += [tool.name, tool.about]
                lines += [f"{each.name} : {each.about}" for each in tool.parameters]
            self._shown[tools] = "\n".join(lines)
        return self._shown[tools]


Gate = task_sets.Gate[DomainTask, GateContext]
Judge = Callable[[Sequence[DomainTask], GateContext], Coroutine[Any, Any, list[Verdict]]]
"""A verdict on each task, in order. Raises ToolkitFailed where the domain's code fails as a
whole."""


@dataclass
class FunctionGate:
    """A gate that is a function."""

    name: str
    judge: Judge


def each_task(fault: Callable[[DomainTask, GateContext], str]) -> Judge:
    """A gate's function from `fault`, which returns why a task is wrong, or an empty string."""

    async def judge(tasks: Sequence[DomainTask], context: GateContext) -> list[Verdict]:
        return [verdict(fault(task, context)) for task in tasks]

    return judge
