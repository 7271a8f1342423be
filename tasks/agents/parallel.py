"""Parallel thinking: several solutions of one problem at once, then one answer made of them.

In: a model for each solution, and one that combines them. Out: a `ChatModel` whose reply is the
answer. `select` asks which solution is right and gives that one's text; `synthesis` asks for one
new solution. The reply's tokens and cost are those of all calls. Each solution and the combining
call is one of its `runs`, so that the store has every text with its cost and times.

What cannot be combined is not hidden: the run of the combining call then has an `error_type`, and
the answer is a solution that the sample's seed draws.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from tutti.storage import Cost, now
from tutti.tasks.agents.combination import Combination, Combine, Taken
from tutti.tasks.agents.context import Message
from tutti.tasks.agents.models.model import ChatModel, ContextExceeded, Reply
from tutti.tasks.agents.tools import ToolResult, run_together

SOLUTION = "solution"
"""The name of a solution's run."""
COMBINER_ROLES: Mapping[Combine, str] = {"select": "selector", "synthesis": "synthesizer"}
"""The roles of combining calls in `calls`; solutions have the measured model's own."""


@dataclass(frozen=True)
class ParallelSettings:
    """How solutions are combined."""

    combine: Combine
    most_chars: int
    """A longer solution is not given to the combining call, as one without text is not."""
    seed: int
    """Draws the order in which solutions are shown, so that no place is favoured."""


@dataclass(frozen=True)
class _Solution:
    number: int
    reply: Reply
    started_at: datetime
    ended_at: datetime

    @property
    def text(self) -> str:
        return self.reply.message["content"] or ""

    @property
    def run(self) -> tuple[str, str, ToolResult]:
        result = ToolResult(
            self.text, "ok", self.started_at, self.ended_at, cost_usd=self.reply.cost_usd
        )
        return SOLUTION, json.dumps({"number": self.number}), result


@dataclass(frozen=True)
class _Combined:
    """The answer's message and call, and what the combining call was."""

    message: Message
    call_id: str
    run: tuple[str, str, ToolResult]
    reply: Reply | None = None
    """None where nothing was asked."""


class ParallelThinker:
    """A model that answers by several solutions."""

    def __init__(
        self, solvers: Sequence[ChatModel], combiner: ChatModel, settings: ParallelSettings
    ) -> None:
        """`solvers` are one model with a seed each; `combiner` is the one that combines."""
        self._solvers, self._combiner, self._settings = solvers, combiner, settings

    async def complete(
        self,
        messages: Sequence[Message],
        tools: Sequence[Mapping[str, Any]],
        step: int,
        positions: Sequence[int] | None = None,
    ) -> Reply:
        """The answer. Raises ModelCallFailed, and ContextExceeded where no solution fits."""
        solutions = await self._solutions(messages, step, positions)
        combined = await self._combine(messages, solutions, step)
        asked = [each.reply for each in solutions]
        asked += [combined.reply] if combined.reply is not None else []
        cost = Cost()
        for each in asked:
            cost.add(each.cost_usd)
        return Reply(
            combined.message,
            combined.call_id,
            sum(each.prompt_tokens for each in asked),
            sum(each.cached_tokens for each in asked),
            sum(each.completion_tokens for each in asked),
            cost.usd,
            [*(each.run for each in solutions), combined.run],
        )

    async def _solutions(
        self, messages: Sequence[Message], step: int, positions: Sequence[int] | None
    ) -> list[_Solution]:
        """All solutions; if one fails, the others are cancelled."""
        return await run_together(
            _solved(solver, number, messages, step, positions)
            for number, solver in enumerate(self._solvers)
        )

    async def _combine(
        self, messages: Sequence[Message], solutions: Sequence[_Solution], step: int
    ) -> _Combined:
        settings, started_at = self._settings, now()
        texts = [each.text for each in solutions]
        combination = Combination(settings.combine, texts, settings.most_chars, settings.seed)
        taken = combination.without_asking
        if taken is not None:
            return _unasked(solutions, taken, settings.combine, started_at)
        try:
            reply = await self._combiner.complete(combination.prompt(messages), (), step)
        except ContextExceeded:
            taken = combination.draw("context_exceeded")
            return _unasked(solutions, taken, settings.combine, started_at)
        said = reply.message["content"] or ""
        taken = combination.read(said)
        status = "ok" if taken.error is None else "error"
        result = ToolResult(said, status, started_at, now(), taken.error, reply.cost_usd)
        run = _run_of(settings.combine, taken, result)
        answer = reply if taken.number is None else solutions[taken.number].reply
        return _Combined(answer.message, answer.call_id, run, reply)


async def _solved(
    solver: ChatModel,
    number: int,
    messages: Sequence[Message],
    step: int,
    positions: Sequence[int] | None,
) -> _Solution:
    started_at = now()
    reply = await solver.complete(messages, (), step, positions)
    return _Solution(number, reply, started_at, now())


def _unasked(
    solutions: Sequence[_Solution], taken: Taken, combine: Combine, started_at: datetime
) -> _Combined:
    """One solution, where nothing was asked or no reply came."""
    assert taken.number is not None, "without a reply the answer is a solution"
    why = "all solutions are alike" if taken.error is None else taken.error
    status = "ok" if taken.error is None else "error"
    result = ToolResult(why, status, started_at, now(), taken.error)
    answer = solutions[taken.number].reply
    return _Combined(answer.message, answer.call_id, _run_of(combine, taken, result))


def _run_of(combine: Combine, taken: Taken, result: ToolResult) -> tuple[str, str, ToolResult]:
    arguments = {} if taken.number is None else {"taken": taken.number}
    return combine, json.dumps(arguments), result
