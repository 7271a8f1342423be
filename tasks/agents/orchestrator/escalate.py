"""Answers a problem; where the file asks for it, has the answer verified and asks a dearer expert.

In: the expert that the orchestrator chose, and the evidence so far. Out: an `AnswerOutcome`. The
verifier is the cheapest expert whose model is not the answer's own, if there is one. A refused
answer goes to the next dearer expert, which sees the answer and the reason. Verification and
escalation stop where the highest possible cost of the next call would exceed the budget; the last
answer then stands.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from tutti.tasks.agents.context import Message
from tutti.tasks.agents.models.model import ContextExceeded
from tutti.tasks.agents.orchestrator.agent_file import Expert, Tool
from tutti.tasks.agents.orchestrator.ask import (
    answer_messages,
    problem_text,
    read_verification,
    verify_messages,
)
from tutti.tasks.agents.orchestrator.consult import Consultation, TokenMeasures
from tutti.tasks.agents.orchestrator.evidence import Note, RefusedAnswer, evidence

ReadAnswer = Callable[[str], str | None]


@dataclass(frozen=True)
class AnswerOutcome:
    """The answer that stands, and those refused before it."""

    text: str | None
    """The answer's whole text; None where the last expert gave none that can be read."""
    alias: str
    """Who gave it."""
    refused: tuple[RefusedAnswer, ...]
    """Answers on the way to it that were not taken."""


class AnswerTool:
    """One use of `answer`."""

    def __init__(
        self,
        tool: Tool,
        problem: Sequence[Message],
        notes: Sequence[Note],
        read_answer: ReadAnswer,
        consultation: Consultation,
        measures: TokenMeasures,
    ) -> None:
        self._experts = sorted(tool.experts.values(), key=_price)
        self._problem, self._notes = problem, notes
        self._read, self._consultation, self._measures = read_answer, consultation, measures
        self._refused: list[RefusedAnswer] = []
        self._left_usd: float | None = None

    async def settle(self, expert: Expert, budget_usd: float | None) -> AnswerOutcome:
        """Ask `expert`, and go on while `budget_usd` allows; None asks nobody else.

        Raises ModelCallFailed; ContextExceeded where not even the first call fits.
        """
        self._left_usd = budget_usd
        text = await self._consultation.ask(expert, self._asked(expert))
        while not await self._stands(expert, text):
            dearer = next((e for e in self._experts if _price(e) > _price(expert)), None)
            more = await self._more(dearer, self._asked(dearer)) if dearer is not None else None
            if dearer is None or more is None:
                self._refused.pop()  # there is no other: the last one stands
                break
            expert, text = dearer, more
        return AnswerOutcome(text if self._read(text) else None, expert.alias, tuple(self._refused))

    async def _stands(self, expert: Expert, text: str) -> bool:
        """Whether the answer is taken; if not, it is entered among the refused."""
        answer = self._read(text)
        if self._left_usd is None:
            return True
        if not answer:
            self._refuse(expert, text, "no final answer can be read in it")
            return False
        others = [each for each in self._experts if each.model != expert.model]
        verifier = (others or self._experts)[0]
        problem = problem_text(self._problem)
        asked = verify_messages(problem, self._found(verifier), text)
        said = await self._more(verifier, asked)
        if said is None:
            return True  # nobody may look at it
        right, why = read_verification(said)
        if not right:
            self._refuse(expert, answer, f"{verifier.alias}: {why}")
        return right

    def _refuse(self, expert: Expert, answer: str, why: str) -> None:
        self._refused.append(RefusedAnswer(expert.alias, answer, why))

    async def _more(self, expert: Expert, messages: Sequence[Message]) -> str | None:
        """A further call, on the budget; None where it has no room, in money or in context."""
        assert self._left_usd is not None, "only on a budget is anybody else asked"
        if self._measures.most_usd(expert, messages) > self._left_usd:
            return None
        before = self._consultation.cost.known_usd
        try:
            return await self._consultation.ask(expert, messages)
        except ContextExceeded:
            return None
        finally:
            self._left_usd -= self._consultation.cost.known_usd - before

    def _asked(self, expert: Expert) -> list[Message]:
        return answer_messages(self._problem, self._found(expert))

    def _found(self, expert: Expert) -> str:
        tokens = self._measures.tokens(expert)
        notes = [*self._notes, *self._refused]
        return evidence(notes, expert.caps, problem_text(self._problem), tokens)


def _price(expert: Expert) -> tuple[float, float]:
    return expert.prices.completion, expert.prices.prompt
