"""Negotiation: rows in, tasks out; and the world of one, with the counterpart's answers.

Each row is a `Scenario`; tutti ships four splits. The score is the share of the surplus that the
measured party wins (scorer ``reward``), by the recorded deal. The counterpart is a program, or the
model of ``roles.user``. Without an agent the measured model writes the moves; with an agent that
has an actor (`act`), it writes strategies, and the actor makes the moves that they allow.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from tutti.storage import now
from tutti.tasks.agents import ToolResult, refused
from tutti.tasks.agents.orchestrator import Actor, MoveTask
from tutti.tasks.benchmarks.negotiation.bargain import Bargain
from tutti.tasks.benchmarks.negotiation.counterpart import KNOWN_KINDS, answer
from tutti.tasks.benchmarks.negotiation.scenario import SIDES, Scenario
from tutti.tasks.benchmarks.negotiation.self_play import ModelCounterpart
from tutti.tasks.benchmarks.negotiation.strategies import STRATEGIES
from tutti.tasks.benchmarks.negotiation.view import ALONE, View, facts
from tutti.tasks.benchmarks.rows import Row
from tutti.tasks.benchmarks.source import Files
from tutti.tasks.benchmarks.world import PlainWorld
from tutti.tasks.task_sets import Task

if TYPE_CHECKING:
    from tutti.tasks.agents import ChatModel

PASS = 0.75
"""The share of the surplus from which an attempt counts as correct."""
NUMBERS = ("limit", "other_limit", "low", "high", "opening", "rounds")


class NegotiationWorld(PlainWorld):
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


def world(task: Task, user: "ChatModel | None") -> NegotiationWorld:
    """The world of one attempt."""
    return NegotiationWorld(Scenario(**task.target["scenario"]), user)


def read(files: Files) -> Iterator[Task]:
    """One task per row. Raises BadRow."""
    for row in files.rows():
        made = _scenario(row)
        yield Task(
            key=made.id,
            inputs={"part": facts(made.own, made)},
            target={"pass": PASS, "scenario": asdict(made)},
            attributes={"side": made.side, "kind": made.kind, "rounds": str(made.rounds)},
        )


def _scenario(row: Row) -> Scenario:
    side, kind = row.text("side"), row.text("kind")
    if side not in SIDES:
        row.bad("side", f"{side!r} is not one of {', '.join(SIDES)}")
    if kind not in KNOWN_KINDS:
        row.bad("kind", f"{kind!r} is not one of {', '.join(KNOWN_KINDS)}")
    numbers = {name: row.whole(name) for name in NUMBERS}
    made = Scenario(id=row.name("id"), side=SIDES[SIDES.index(side)], kind=kind, **numbers)
    if (why := made.reason_invalid()) is not None:
        field, _, reason = why.partition(": ")
        row.bad(field, reason)
    return made
