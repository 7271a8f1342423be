"""The world of a synthesized domain's task: its tools for the agent, a model as the customer.

In: a domain, a task, the customer's model. Out: a `World` with a database and an interpreter of its
own, which the first call starts. A call that never ends, or that ends the interpreter, is an error
of that call only: the next one starts another interpreter with the same database.
"""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from tutti.tasks.agents.tools import MALFORMED, ToolResult, ToolUnavailable
from tutti.tasks.benchmarks import CUSTOMER, CallRefused, SimulatedUser, carry_out
from tutti.tasks.sandbox import SandboxUnavailable
from tutti.tasks.synthesis.domains import source
from tutti.tasks.synthesis.domains.domain import Action, Domain, DomainTask
from tutti.tasks.synthesis.domains.toolkit import LIMITS, Act, Toolkit, ToolkitFailed

if TYPE_CHECKING:
    from tutti.tasks.agents.models import ChatModel

CALL_LIMITS = replace(LIMITS, seconds=10.0)
"""Limits of a call, which takes milliseconds in a database of some thousand records."""
PROGRAM = "attempt"


class DomainWorld:
    """One attempt at one task. The calls that changed its database are stored, so that a new
    interpreter can reach the same state. Without a user it is solo: the prompt has the scenario,
    and the dialogue ends with the agent's message."""

    def __init__(
        self, domain: Domain, task: DomainTask, user: "ChatModel | None", solo: bool = False
    ) -> None:
        """Raises BenchmarkError without a model for the user, unless `solo`."""
        self.schemas: Sequence[Mapping[str, Any]] = domain.schemas(task)
        self._call_usd = {} if task.world.offer is None else task.world.offer.call_usd
        self._domain, self._task = domain, task
        scenario = task.world.scenario
        told = CUSTOMER + "\n".join(filter(None, (scenario.persona, scenario.text)))
        self._customer = None if solo else SimulatedUser(user, told)
        self._toolkit: Toolkit | None = None
        self._changing: list[Action] = []
        self._hash = ""
        # A turn's calls arrive at once; they are carried out one after the other, in their order.
        self._lock = asyncio.Lock()

    async def use(self, name: str, arguments: str) -> ToolResult:
        """Run one call of the agent on this attempt's database, at the task's price; a malformed
        call reaches no tool and costs nothing. Raises ToolUnavailable if the toolkit cannot be
        loaded."""
        result = await carry_out(self._call, self.schemas, name, arguments)
        price = self._call_usd.get(name)
        if price is None or result.error_type == MALFORMED:
            return result
        return replace(result, cost_usd=price)

    async def begin(self) -> str | None:
        """Return the customer's first message; None if the prompt has the scenario."""
        return None if self._customer is None else await self._customer.say(None)

    async def reply(self, said: str) -> str | None:
        """Return the customer's answer; None when the dialogue is over."""
        return None if self._customer is None else await self._customer.say(said)

    def over(self) -> bool:
        """Whether the customer has ended the dialogue."""
        return self._customer is not None and self._customer.done

    def outcome(self) -> Mapping[str, Any]:
        """The database's `state_hash`, which the scorer ``dialogue`` compares."""
        if not self._hash:
            changed = self._task.world.changed
            self._hash = source.state_hash(source.first_state(self._domain.records, changed))
        return {"db": self._hash}

    async def close(self) -> None:
        """End the interpreter; waits for a running call."""
        async with self._lock:
            await self._end()

    async def _call(self, name: str, arguments: dict[str, Any]) -> str:
        """Return the tool's result. Raises CallRefused if the tool refuses or fails."""
        action = Action(name=name, arguments=arguments)
        async with self._lock:
            toolkit = self._toolkit or await self._start()
            try:
                (result,) = await toolkit.act([Act(PROGRAM, action)])
                if result.changes:
                    (self._hash,) = await toolkit.request([["hash", PROGRAM]])
                    self._changing.append(action)
            except ToolkitFailed as failed:
                await self._end()
                raise CallRefused(f"{name} did not work: {failed}") from failed
            except SandboxUnavailable as error:
                raise ToolUnavailable(str(error)) from error
        if result.status != "ok":
            raise CallRefused(str(result.value))
        return result.text

    async def _start(self) -> Toolkit:
        """Start an interpreter and bring its database to the attempt's state."""
        try:
            toolkit = self._toolkit = Toolkit(self._domain, limits=CALL_LIMITS)
            await toolkit.__aenter__()
            await toolkit.begin({PROGRAM: self._task})
            await toolkit.act([Act(PROGRAM, each) for each in self._changing])
            (now,) = await toolkit.request([["hash", PROGRAM]])
        except (ToolkitFailed, SandboxUnavailable) as error:
            await self._end()
            raise ToolUnavailable(str(error)) from error
        if self._hash not in ("", now):
            await self._end()
            what = f"{self._domain.name}: the same calls do not lead to the same database"
            raise ToolUnavailable(f"{what}: {self._hash[:12]} and {now[:12]}")
        self._hash = now
        return toolkit

    async def _end(self) -> None:
        toolkit, self._toolkit = self._toolkit, None
        if toolkit is not None:
            await toolkit.__aexit__()
