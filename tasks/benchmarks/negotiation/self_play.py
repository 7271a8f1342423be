"""A counterpart played by a model, which is itself a strategist with an actor, or acts alone."""

from typing import Any

from tutti.tasks.agents.models import ChatModel, restricted
from tutti.tasks.agents.orchestrator import Actor
from tutti.tasks.agents.tools import ToolUnavailable
from tutti.tasks.benchmarks.negotiation.bargain import Bargain
from tutti.tasks.benchmarks.negotiation.view import ALONE, STRATEGIES, View


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
