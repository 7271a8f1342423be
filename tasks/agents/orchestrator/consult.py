"""Calls of experts during one use of a tool, with their cost.

In: an expert and its messages. Out: its text. Money and the time that the gateway held the calls
are added up for the attempt. The length of a token is learned for each model from the counts that
its engine reports.
"""

from collections.abc import Callable, Sequence

from tutti.storage import Cost
from tutti.tasks.agents.context import TEMPLATE_TOKENS, Message, PromptWindow
from tutti.tasks.agents.models.model import ChatModel
from tutti.tasks.agents.orchestrator.agent_file import Expert
from tutti.tasks.agents.orchestrator.evidence import Tokens

Experts = Callable[[Expert], ChatModel]
"""The model of an expert, for calls of role ``expert`` in one attempt's program."""


class TokenMeasures:
    """Token lengths by model, learned during one attempt."""

    def __init__(self) -> None:
        self._windows: dict[str, PromptWindow] = {}

    def of(self, expert: Expert) -> PromptWindow:
        """What was learned about the expert's tokens."""
        return self._windows.setdefault(expert.model, PromptWindow(None))

    def tokens(self, expert: Expert) -> Tokens:
        """Estimated number of the expert's tokens in a text."""
        window = self.of(expert)
        return lambda text: window.tokens({"content": text}) - TEMPLATE_TOKENS

    def most_usd(self, expert: Expert, messages: Sequence[Message]) -> float:
        """The highest possible cost of a call, by the file's prices: if all of its output tokens
        are used."""
        prompt = sum(map(self.of(expert).tokens, messages))
        return expert.prices.cost_usd(prompt, expert.max_tokens)


class Consultation:
    """The expert calls of one use of a tool."""

    def __init__(self, experts: Experts, measures: TokenMeasures, step: int) -> None:
        self._experts, self._measures, self._step = experts, measures, step
        self.cost = Cost()

    async def ask(self, expert: Expert, messages: Sequence[Message]) -> str:
        """The expert's answer. Raises ModelCallFailed, ContextExceeded."""
        reply = await self._experts(expert).complete(messages, (), self._step)
        if all(isinstance(message["content"], str) for message in messages):
            self._measures.of(expert).learn(messages, reply.prompt_tokens)  # images are not text
        self.cost.add(reply.cost_usd)
        text: str = reply.message["content"] or ""
        return text
