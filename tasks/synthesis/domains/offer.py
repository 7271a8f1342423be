"""The offer of a task: a preference, drawn prices, and measured descriptions.

A task with an offer is made by `tasks.synthesis.preferences`. When it is run, its instruction is
appended to what the agent reads, its tools are shown with their prices, and a call costs its price.
"""

from pydantic import BaseModel, ConfigDict, Field

ACCURACY, COST, LATENCY = "accuracy", "cost", "latency"
AIMS = (ACCURACY, COST, LATENCY)
"""Weights beside those of tools; the names of the training's preference reward."""


class _Frozen(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)


class Preference(_Frozen):
    """An instruction and the weights that it expresses."""

    instruction: str
    weights: dict[str, float]
    """Weights by tool, and of accuracy, cost and latency; an absent one is 0. A tool's weight is
    negative where it is to be avoided."""
    wording: str = ""
    """The wording that it was made from; ``teacher``: a model wrote it."""


class ExpertPrices(_Frozen):
    """USD per million tokens of an expert."""

    prompt: float = Field(gt=0)
    completion: float = Field(gt=0)


class TaskOffer(_Frozen):
    """A task's own preference and prices. Its tools are in the task's `tools`."""

    preference: Preference
    call_usd: dict[str, float] = Field(default_factory=dict)
    """USD of a call, by tool."""
    experts: dict[str, ExpertPrices] = Field(default_factory=dict)
    """The experts offered, by alias; empty: those of the agent's file, at its prices."""
    vendors: dict[str, str] = Field(default_factory=dict)
    """Names of the vendors, by tool or alias."""
    measured: dict[str, str] = Field(default_factory=dict)
    """Texts from measured runs that are added to the description of a tool."""

    def about(self, tool: str, about: str) -> str:
        """Return a tool's description as this task shows it."""
        parts = [about, self.measured.get(tool, "")]
        if tool in self.call_usd:
            parts.append(f"A call costs {self.call_usd[tool]:.4g} USD.")
        return " ".join(filter(None, parts))
