"""The world of one negotiation: the measured party's moves in, the counterpart's answers out.

In: a task, and a model where one plays the counterpart. Out: a `World`. Without an agent the
measured model writes the moves; with an agent that has an actor (`act`), it writes strategies, and
the actor makes the moves that they allow.
"""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from tutti.storage import now
from tutti.tasks.agents import ToolResult, refused
from tutti.tasks.agents.orchestrator import Actor, MoveTask
from tutti.tasks.benchmarks.negotiation.bargain import Bargain
from tutti.tasks.benchmarks.negotiation.counterpart import answer
from tutti.tasks.benchmarks.negotiation.scenario import Scenario
from tutti.tasks.benchmarks.negotiation.self_play import ModelCounterpart
from tutti.tasks.benchmarks.negotiation.strategies import STRATEGIES
from tutti.tasks.benchmarks.negotiation.view import ALONE, View

if TYPE_CHECKING:
    from tutti.tasks.agents import ChatModel
    from tutti.tasks.task_sets import Task


class NegotiationWorld:
    """One attempt at a negotiation (`tutti.tasks.benchmarks.World`)."""

    schemas: Sequence[Mapping[str, Any]] = ()

    def __init__(self, scenario: Scenario, user: "ChatModel | None" = None) -> None:
        """`user` plays the counterpart; None: the scenario's program does."""
        self.bargain = Bargain(scenario)
        self._view = View(self.bargain, "own")
        self._counterpart = None if user is None else ModelCounterpart(self.bargain, user)
        self._is_directed = False
        self._allowed: Sequence[str] | None = None  # by the strategy; None: any legal move

    def direct(self, actor: Actor, structured: bool) -> Sequence[str]:
        """From now on the agent names strategies, and an actor makes its moves; also those of a
        counterpart that a model plays. Returns the strategies.

        `structured`: a model that plays the counterpart is to decode known strategies only.
        """
        self._is_directed = True
        if self._counterpart is not None:
            self._counterpart.direct(actor, structured)
        return tuple(STRATEGIES)

    def move_task(self, strategy: str) -> MoveTask:
        """What the actor is asked under a strategy; its move must be one of the task's."""
        task = self._view.task(strategy)
        self._allowed = task.moves
        return task

    async def begin(self) -> str:
        """How to act, and the counterpart's first offer."""
        how = self._view.strategies if self._is_directed else ALONE
        return f"{how} {self._view.status}"

    async def use(self, name: str, arguments: str) -> ToolResult:
        """There are no tools."""
        return refused(f"there is no tool {name!r}: say what you want to say")

    async def reply(self, said: str) -> ToolResult:
        """Carry out the measured party's move and the counterpart's answer to it."""
        started_at = now()
        error = self._play(said)
        if error is None and not self.over():
            await self._answer()
        if error is not None:
            ended = "No deal." if self.over() else self._view.status
            text, status = f"Not a legal move: {error}. {ended}", "error"
        else:
            text, status = self._view.last_moves, "ok"
        kind = None if error is None else "illegal_move"
        final = text if self.over() else None
        return ToolResult(text, status, started_at, now(), kind, final=final)

    def over(self) -> bool:
        """Whether the negotiation has ended."""
        return self.bargain.ended is not None

    def outcome(self) -> Mapping[str, Any]:
        """The score, the deal and the moves."""
        return self.bargain.state

    async def close(self) -> None:
        """Do nothing: no resources are held."""

    def _play(self, said: str) -> str | None:
        """The reason why the move is not legal; None if it was made."""
        try:
            self.bargain.play("own", said, self._allowed)
        except ValueError as error:
            return str(error)
        finally:
            self._allowed = None
        return None

    async def _answer(self) -> None:
        if self._counterpart is not None:
            await self._counterpart.move()
        else:
            self.bargain.play("other", answer(self.bargain.scenario, self.bargain.offers).move)


def world(task: "Task", user: "ChatModel | None") -> NegotiationWorld:
    """The world of one attempt."""
    return NegotiationWorld(Scenario(**task.target["scenario"]), user)
