"""The world of a tau2 task: the domain's tools for the agent, a model as the customer."""

from collections.abc import Mapping, Sequence
from functools import cache, partial
from pathlib import Path
from typing import Any

from tutti.tasks.agents.models import ChatModel
from tutti.tasks.agents.tools import ToolResult
from tutti.tasks.benchmarks.tau2.domain import SIDES, Domain, Tau2Task, read_domain
from tutti.tasks.benchmarks.tau2.world import Session, Toolset
from tutti.tasks.benchmarks.user import CUSTOMER, SimulatedUser
from tutti.tasks.benchmarks.world import PlainWorld, World, carry_out
from tutti.tasks.task_sets import Task

ENDED = "ended"
"""Key of an outcome: whether the customer ended the dialogue. If a limit ended it, tau2's reward is
0, whatever was done."""
domain_at = cache(read_domain)


class Tau2World(PlainWorld):
    """One attempt at one task."""

    def __init__(self, domain: Domain, toolset: Toolset, task: Task, user: ChatModel | None):
        own: Tau2Task = next(each for each in domain.tasks if each.id == task.key)
        self.schemas: Sequence[Mapping[str, Any]] = toolset.schemas(SIDES[0])
        self._session = Session(domain, toolset, own)
        self._past = task.given
        self._said: list[str] = []
        self._customer = SimulatedUser(
            user,
            CUSTOMER + own.scenario,
            task.given,
            toolset.schemas(SIDES[1]),
            partial(self._call, SIDES[1]),
        )

    async def use(self, name: str, arguments: str) -> ToolResult:
        return await carry_out(partial(self._call, SIDES[0]), self.schemas, name, arguments)

    async def begin(self) -> str | None:
        """The customer's first message; None if the task's dialogue waits for the agent."""
        if self._past and self._past[-1]["role"] != SIDES[0]:
            return None
        return await self._customer.say(None)

    async def reply(self, said: str) -> str | None:
        self._said.append(said)
        return await self._customer.say(said)

    def over(self) -> bool:
        return self._customer.done

    def outcome(self) -> Mapping[str, Any]:
        return self._session.outcome("\n".join(self._said)) | {ENDED: self._customer.done}

    async def _call(self, side: str, name: str, arguments: dict[str, Any]) -> str:
        return self._session.call(side, name, arguments)


def tau2_world(toolset: Toolset, task: Task, user: ChatModel | None) -> World:
    """The world of a task. Raises BadRow, BenchmarkError."""
    return Tau2World(domain_at(Path(task.target["database"])), toolset, task, user)
