"""The budget of a teacher: a call is sent only if its worst case fits the rest of the budget.

In the worst case the completion has the most tokens requested, and the prompt as many tokens as
bytes (a byte-level tokenizer makes no more). A call of unknown cost, which was answered without
usage or timed out, counts as its worst case.
"""

from dataclasses import dataclass
from typing import NamedTuple

from tutti.errors import UsageError
from tutti.storage import Cost
from tutti.tasks.serving.registry import Model
from tutti.tasks.synthesis.teacher.faults import BudgetSpent


@dataclass(frozen=True)
class TeacherPrices:
    """USD per million tokens."""

    prompt: float
    completion: float

    def usd(self, prompt_tokens: int, completion_tokens: int) -> float:
        """Return the cost without discounts."""
        return (prompt_tokens * self.prompt + completion_tokens * self.completion) / 1e6


def prices_of(model: Model) -> TeacherPrices | None:
    """Return the prices in a model's entry; None if it has none. The gateway has the price book,
    and reports its costs with each answer."""
    if model.prices is None:
        return None
    return TeacherPrices(model.prices.prompt, model.prices.completion)


class AnswerTokens(NamedTuple):
    """Tokens of a call, as its endpoint reports them."""

    prompt: int
    completion: int


@dataclass(frozen=True)
class TeacherBudget:
    """Limits of one run; None means no limit. Answers that were paid for before are free."""

    usd: float | None = None
    calls: int | None = None


class Meter:
    """Counter of one run's calls, tokens and USD against its budget."""

    def __init__(self, budget: TeacherBudget, prices: TeacherPrices | None) -> None:
        """Raises UsageError for a budget in USD only if the price is unknown, because nothing would
        be counted."""
        if budget.usd is not None and prices is None and budget.calls is None:
            raise UsageError(
                f"budget.usd: {budget.usd:g}: the model has no `prices` in the registry, so USD "
                "cannot be counted; add them, or give a limit of calls"
            )
        self.budget, self._prices = budget, prices
        self.calls = self.prompt_tokens = self.completion_tokens = 0
        self.cost, self.worst_usd = Cost(), 0.0
        """What is known of the cost, and the worst case of what is not."""
        self._reserved_usd, self._in_flight = 0.0, 0

    def reserve(self, prompt_bytes: int, max_tokens: int) -> float:
        """Reserve a call's worst case in USD until `settle`. Raises BudgetSpent."""
        calls, usd = self.budget.calls, self.budget.usd
        if calls is not None and self.calls + self._in_flight >= calls:
            raise BudgetSpent(f"the budget of {calls} calls is spent")
        worst = 0.0 if self._prices is None else self._prices.usd(prompt_bytes, max_tokens)
        held = self.cost.known_usd + self.worst_usd + self._reserved_usd
        if usd is not None and held + worst > usd:
            raise BudgetSpent(
                f"the budget of {usd:g} USD has {max(usd - held, 0):.4f} left and the next call "
                f"may cost {worst:.4f}"
            )
        self._reserved_usd += worst
        self._in_flight += 1
        return worst

    def settle(self, worst: float, tokens: AnswerTokens | None, usd: float | None) -> None:
        """Count an answered call, with `tokens` if the endpoint reports them. `usd`: its cost as
        the gateway reports it, otherwise by the prices."""
        if tokens is not None:
            self.prompt_tokens += tokens.prompt
            self.completion_tokens += tokens.completion
            if usd is None and self._prices is not None:
                usd = self._prices.usd(tokens.prompt, tokens.completion)
        self._charge(worst, usd)

    def fail(self, worst: float, may_be_charged: bool) -> None:
        """Count a call without an answer; if it timed out, its cost is unknown."""
        if may_be_charged:
            self._charge(worst, None)
        else:
            self._free(worst)

    @property
    def text(self) -> str:
        """Return the sums as one line for people, with what is unknown."""
        tokens = f"{self.prompt_tokens} + {self.completion_tokens} tokens"
        text = f"{self.calls} calls, {tokens}, {self.cost:.4f} USD"
        if self.cost.unknown:
            most = "" if self._prices is None else f", {self.worst_usd:.4f} more at most"
            text += f" ({self.cost.unknown} calls of unknown cost{most})"
        return text

    def _charge(self, worst: float, usd: float | None) -> None:
        self._free(worst)
        self.calls += 1
        self.cost.add(usd)
        self.worst_usd += worst if usd is None else 0.0

    def _free(self, worst: float) -> None:
        self._reserved_usd -= worst
        self._in_flight -= 1
