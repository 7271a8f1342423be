"""The plan of a task set: time, calls and cost."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class SetPlan:
    """The plan of a request. Calls are counted as if every answer were right at once; tokens and
    seconds of models are estimates."""

    seconds: float
    calls: int = 0
    """Calls of models; 0: a program makes the tasks."""
    prompt_tokens: int = 0
    completion_tokens: int = 0
    usd: float | None = 0.0
    """None: a price is unknown."""
    sample: int = 0
    """Candidates that were judged for it."""
    passed: int = 0
    dropped: Mapping[str, int] = field(default_factory=dict)
    """Rejected candidates of the sample, by gate."""
    candidates: int = 0
    """That can be proposed, or must be, to have the size."""
    notes: Sequence[str] = ()
    """Further sentences for people."""

    @property
    def lines(self) -> list[str]:
        """Return the plan as lines of text."""
        if not self.calls:
            drops = ", ".join(f"{gate} {n}" for gate, n in self.dropped.items()) or "none"
            return [
                f"sample: {self.passed} of {self.sample} candidates passed the gates; "
                f"dropped: {drops}",
                *self.notes,
                f"{self.seconds:,.0f} s by one process",
                "calls of models: 0, tokens: 0, USD: 0 (a program makes them)",
            ]
        usd = "price unknown" if self.usd is None else f"about {self.usd:.2f} USD"
        return [
            f"{self.calls} calls if no answer must be corrected; estimates: {self.prompt_tokens} + "
            f"{self.completion_tokens} tokens, {usd}, {self.seconds / 60:.0f} minutes",
            *self.notes,
        ]

    @property
    def figures(self) -> dict[str, Any]:
        """Return the plan as JSON-able values."""
        return {name: value for name, value in vars(self).items() if name != "notes"}
