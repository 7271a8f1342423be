"""Answers a problem; if the file requires it, verifies the answer and escalates.

The verifier is the cheapest expert whose model differs from the answer's, if there is one. A
refused answer goes to the next more expensive expert, with the reason. Both stop when the highest
possible cost of the next call exceeds the budget; the last answer is then final.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from tutti.storage import Cost
from tutti.tasks.agents.models.context import TEMPLATE_TOKENS, Message, PromptWindow
from tutti.tasks.agents.models.model import ChatModel, ContextExceeded
from tutti.tasks.agents.orchestrator.agent_file import Expert, Tool
from tutti.tasks.agents.orchestrator.evidence import (
    Note,
    RefusedAnswer,
    Tokens,
    answer_messages,
    evidence,
    problem_text,
    read_verification,
    verify_messages,
)

Experts = Callable[[Expert], ChatModel]
"""The model of an expert, for calls of role ``expert`` in one attempt's program."""


class TokenMeasures:
    """Token lengths by model, learned during one attempt."""

    def __init__(self) -> None:
        self._windows: dict[str, PromptWindow] = {}

    def of(self, expert: Expert) -> PromptWindow:
        """Return the token measures of the expert."""
        return self._windows.setdefault(expert.model, PromptWindow(None))

    def tokens(self, expert: Expert) -> Tokens:
        """Estimated number of the expert's tokens in a text."""
        window = self.of(expert)
        return lambda text: window.tokens({"content": text}) - TEMPLATE_TOKENS

    def most_usd(self, expert: Expert, messages: Sequence[Message]) -> float:
        """Return the highest possible cost of a call, by the file's prices, with all of its output
        tokens used."""
        prompt = sum(map(self.of(expert).tokens, messages))
        return expert.prices.cost_usd(prompt, expert.max_tokens)


class Consultation:
    """The expert calls of one use of a tool."""

    def __init__(self, experts: Experts, measures: TokenMeasures, step: int) -> None:
        self._experts, self._measures, self._step = experts, measures, step
        self.cost = Cost()

    async def ask(self, expert: Expert, messages: Sequence[Message]) -> str:
        """Return the expert's answer. Raises ModelCallFailed, ContextExceeded."""
        reply = await self._experts(expert).complete(messages, (), self._step)
        if all(isinstance(message["content"], str) for message in messages):
            self._measures.of(expert).learn(messages, reply.prompt_tokens)  # images are not text
        self.cost.add(reply.cost_usd)
        text: str = reply.message["content"] or ""
        return text


ReadAnswer = Callable[[str], str | None]


@dataclass(frozen=True)
class AnswerOutcome:
    """The final answer, and those refused before it."""

    text: str | None
    """The answer's whole text; None if the last expert's answer cannot be read."""
    alias: str
    refused: tuple[RefusedAnswer, ...]


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
        """Ask `expert`, and escalate while `budget_usd` allows; None asks no other expert. Raises
        ModelCallFailed; ContextExceeded if not even the first call fits."""
        self._left_usd = budget_usd
        text = await self._consultation.ask(expert, self._asked(expert))
        while not await self._stands(expert, text):
            dearer = next((e for e in self._experts if _price(e) > _price(expert)), None)
            more = await self._more(dearer, self._asked(dearer)) if dearer is not None else None
            if dearer is None or more is None:
                self._refused.pop()  # there is no other expert: the last answer is final
                break
            expert, text = dearer, more
        return AnswerOutcome(text if self._read(text) else None, expert.alias, tuple(self._refused))

    async def _stands(self, expert: Expert, text: str) -> bool:
        """Whether the answer is accepted; if not, it is added to the refused ones."""
        answer = self._read(text)
        if self._left_usd is None:
            return True
        if not answer:
            why = "no final answer can be read in it"
            self._refused.append(RefusedAnswer(expert.alias, text, why))
            return False
        others = [each for each in self._experts if each.model != expert.model]
        verifier = (others or self._experts)[0]
        problem = problem_text(self._problem)
        verdict = await self._more(verifier, verify_messages(problem, self._found(verifier), text))
        if verdict is None:
            return True  # there is no verifier
        right, why = read_verification(verdict)
        if not right:
            self._refused.append(RefusedAnswer(expert.alias, answer, f"{verifier.alias}: {why}"))
        return right

    async def _more(self, expert: Expert, messages: Sequence[Message]) -> str | None:
        """Make a further call within the budget; None if the money or the context does not
        suffice."""
        assert self._left_usd is not None, "only on a budget is anybody else asked"
        most_usd = self._measures.most_usd(expert, messages)
        if most_usd > self._left_usd:
            return None
        cost = self._consultation.cost
        before, unknown = cost.known_usd, cost.unknown
        try:
            return await self._consultation.ask(expert, messages)
        except ContextExceeded:
            return None
        finally:
            self._left_usd -= most_usd if cost.unknown > unknown else cost.known_usd - before

    def _asked(self, expert: Expert) -> list[Message]:
        return answer_messages(self._problem, self._found(expert))

    def _found(self, expert: Expert) -> str:
        tokens = self._measures.tokens(expert)
        notes = [*self._notes, *self._refused]
        return evidence(notes, expert.caps, problem_text(self._problem), tokens)


def _price(expert: Expert) -> tuple[float, float]:
    return expert.prices.completion, expert.prices.prompt
