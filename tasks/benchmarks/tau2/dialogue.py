"""A task of tau2 acted out: the domain's tools for the agent, a model as the customer.

In: a task of a domain whose tools are at hand, and the customer's model. Out: a `World` whose
outcome is what the task's reward asks for. The customer speaks first, where the task does not begin
in the middle of a dialogue, and has the domain's tools of its own side.
"""

import functools
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tutti.tasks.agents import ToolResult
from tutti.tasks.benchmarks.tau2.domain import SIDES, Domain, Tau2Task, read_domain
from tutti.tasks.benchmarks.tau2.world import Session, ToolRefused, Toolset
from tutti.tasks.benchmarks.user import CUSTOMER, SimulatedUser
from tutti.tasks.benchmarks.world import CallRefused, PlainWorld, World, carry_out
from tutti.tasks.task_sets import Task

if TYPE_CHECKING:
    from tutti.tasks.agents import ChatModel

ENDED = "ended"
"""Key of an outcome: whether the customer ended the dialogue. If a limit ended it, tau2's reward is
0, whatever was done."""
domain_at = functools.cache(read_domain)


class Tau2World(PlainWorld):
    """One attempt at one task."""

    def __init__(self, domain: Domain, toolset: Toolset, task: Task, user: "ChatModel | None"):
        own: Tau2Task = next(each for each in domain.tasks if each.id == task.key)
        self.schemas: Sequence[Mapping[str, Any]] = toolset.schemas(SIDES[0])
        self._session = Session(domain, toolset, own)
        self._past = task.given
        self._said: list[str] = []
        self._customer = SimulatedUser(
            user, CUSTOMER + own.scenario, task.given, toolset.schemas(SIDES[1]), self._for_user
        )

    async def use(self, name: str, arguments: str) -> ToolResult:
        """One call of the agent on this attempt's databases."""
        return await carry_out(self._for_agent, self.schemas, name, arguments)

    async def begin(self) -> str | None:
        """The customer's first message; None if the task's dialogue waits for the agent."""
        if self._past and self._past[-1]["role"] != SIDES[0]:
            return None
        return await self._customer.say(None)

    async def reply(self, said: str) -> str | None:
        """The customer's answer; None when the customer is done."""
        self._said.append(said)
        return await self._customer.say(said)

    def over(self) -> bool:
        """Whether the customer has ended the dialogue."""
        return self._customer.done

    def outcome(self) -> Mapping[str, Any]:
        """The outcome that the task's reward is based on."""
        return self._session.outcome("\n".join(self._said)) | {ENDED: self._customer.done}

    async def _for_agent(self, name: str, arguments: dict[str, Any]) -> str:
        return self._call(SIDES[0], name, arguments)

    async def _for_user(self, name: str, arguments: dict[str, Any]) -> str:
        return self._call(SIDES[1], name, arguments)

    def _call(self, side: str, name: str, arguments: dict[str, Any]) -> str:
        try:
            return self._session.call(side, name, arguments)
        except ToolRefused as refused:
            raise CallRefused(str(refused)) from refused


def tau2_world(toolset: Toolset, task: Task, user: "ChatModel | None") -> World:
    """The world of `task`, whose domain's folder the target names.

    Raises BadRow, BenchmarkError.
    """
    return Tau2World(domain_at(Path(task.target["database"])), toolset, task, user)
