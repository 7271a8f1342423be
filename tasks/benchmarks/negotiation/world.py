"""Negotiation: rows in, tasks out; and the world of one, with the counterpart's answers.

The score is the share of the surplus that the measured party wins (scorer ``reward``).
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from typing import Any

from pydantic import TypeAdapter, ValidationError

from tutti.storage import now
from tutti.tasks.agents.models import ChatModel, restricted
from tutti.tasks.agents.orchestrator import Actor, MoveTask
from tutti.tasks.agents.tools import ToolResult, ToolUnavailable
from tutti.tasks.benchmarks.negotiation.bargain import Bargain, answer
from tutti.tasks.benchmarks.negotiation.scenario import Scenario
from tutti.tasks.benchmarks.negotiation.view import ALONE, STRATEGIES, View, facts
from tutti.tasks.benchmarks.source import Files
from tutti.tasks.benchmarks.world import PlainWorld
from tutti.tasks.task_sets import Task


class ModelCounterpart:
    """The counterpart of one negotiation."""

    def __init__(self, bargain: Bargain, model: ChatModel) -> None:
        self._bargain, self._model = bargain, model
        self._view = View(bargain, "other")
        self._actor: Actor | None = None
        self._messages: list[dict[str, Any]] = []
        self._step = 0

    def direct(self, actor: Actor, structured: bool) -> None:
        """Make the counterpart name strategies from now on; `actor` makes the moves."""
        self._actor = actor
        if structured:
            self._model = restricted(self._model, tuple(STRATEGIES))

    async def move(self) -> None:
        """Make its next move. Raises its models' errors, and ToolUnavailable if all of its moves
        are illegal, which is not the measured party's fault."""
        heard = self._view.last_moves
        if not self._messages:
            self._messages.append({"role": "system", "content": self._view.facts})
            heard = f"{ALONE if self._actor is None else self._view.strategies} {heard}"
        self._messages.append({"role": "user", "content": heard})
        while self._bargain.ended is None:
            self._step += 1
            reply = await self._model.complete(self._messages, (), self._step)
            self._messages.append(reply.message)
            said: str = reply.message["content"] or ""
            try:
                await self._play(said)
                return
            except ValueError as error:
                text = f"Not a legal move: {error}. {self._view.status}"
                self._messages.append({"role": "user", "content": text})
        raise ToolUnavailable(f"the counterpart's model made no legal move: {said[:80]!r}")

    async def _play(self, said: str) -> None:
        if self._actor is None:
            self._bargain.play("other", said)
            return
        task = self._view.task(said)
        self._bargain.play("other", await self._actor(task), task.moves)


PASS = 0.75
"""The share of the surplus from which an attempt counts as correct."""
SCENARIO = TypeAdapter(Scenario)


class NegotiationWorld(PlainWorld):
    """One attempt at a negotiation (`tutti.tasks.benchmarks.World`)."""

    def __init__(self, scenario: Scenario, user: ChatModel | None = None) -> None:
        """`user` plays the counterpart; if None, the scenario's program does."""
        self.bargain = Bargain(scenario)
        self._view = View(self.bargain, "own")
        self._counterpart = None if user is None else ModelCounterpart(self.bargain, user)
        self._is_directed = False
        self._allowed: Sequence[str] | None = None  # by the strategy; None: any legal move

    def direct(self, actor: Actor, structured: bool) -> Sequence[str]:
        """Make the agent name strategies from now on, and an actor make its moves and those of a
        counterpart that a model plays. Return the strategies. `structured`: restrict a model that
        plays the counterpart to decoding known strategies."""
        self._is_directed = True
        if self._counterpart is not None:
            self._counterpart.direct(actor, structured)
        return tuple(STRATEGIES)

    def move_task(self, strategy: str) -> MoveTask:
        """Return the actor's task under a strategy; its move must be one of the task's."""
        task = self._view.task(strategy)
        self._allowed = task.moves
        return task

    async def begin(self) -> str:
        how = self._view.strategies if self._is_directed else ALONE
        return f"{how} {self._view.status}"

    async def reply(self, said: str) -> ToolResult:
        """Run the measured party's move and the counterpart's answer to it."""
        started_at, status, kind = now(), "ok", None
        try:
            self.bargain.play("own", said, self._allowed)
        except ValueError as error:
            ended = "No deal." if self.over() else self._view.status
            text = f"Not a legal move: {error}. {ended}"
            status, kind = "error", "illegal_move"
        else:
            if not self.over():
                await self._answer()
            text = self._view.last_moves
        finally:
            self._allowed = None
        final = text if self.over() else None
        return ToolResult(text, status, started_at, now(), kind, final=final)

    def over(self) -> bool:
        return self.bargain.ended is not None

    def outcome(self) -> Mapping[str, Any]:
        return self.bargain.state

    async def _answer(self) -> None:
        if self._counterpart is not None:
            await self._counterpart.move()
        else:
            self.bargain.play("other", answer(self.bargain.scenario, self.bargain.offers).move)


def world(task: Task, user: ChatModel | None) -> NegotiationWorld:
    """The world of one attempt."""
    return NegotiationWorld(Scenario(**task.target["scenario"]), user)


def read(files: Files) -> Iterator[Task]:
    """One task per row. Raises BadRow."""
    for row in files.rows():
        try:
            scenario = SCENARIO.validate_python({**row.data, "id": row.name("id")})
        except ValidationError as error:
            first = error.errors()[0]
            row.bad(".".join(map(str, first["loc"])), first["msg"])
        if (why := scenario.reason_invalid()) is not None:
            field, _, reason = why.partition(": ")
            row.bad(field, reason)
        yield Task(
            key=scenario.id,
            inputs={"part": facts(scenario.own, scenario)},
            target={"pass": PASS, "scenario": asdict(scenario)},
            attributes={
                "side": scenario.side,
                "kind": scenario.kind,
                "rounds": str(scenario.rounds),
            },
        )
