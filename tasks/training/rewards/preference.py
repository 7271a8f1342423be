"""A reward from a user's preferences over tools, accuracy, cost and latency.

In: the features of the attempts of one group (one task). Out: a reward for each, 0 if unsolved.
M = [whether each tool served, outcome, -cost, -latency], each feature min-max normalised over the
group (0 where it is constant), R = M . P with weights P in [0, 1]. A tool may also weigh from -1 to
0: it is to be avoided, and fewer calls, failed ones included, earn more. Source: ToolOrchestra,
arXiv 2511.21689, section 3.2, which has no negative weights and counts all calls of a tool: there
30 refused calls earn 30 times what one good call does. So here a preferred tool counts once, if a
call of it succeeded. In the released code cost and latency have the sign reversed and accuracy,
cost and latency are added twice, so the dearer attempt earns more; the minimum of a tool's uses
leaves out the attempts that did not use it. Here each feature counts once, and attempts without a
use count 0.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from tutti.tasks.training.rewards.outcome import RewardError

ACCURACY, COST, LATENCY = "accuracy", "cost", "latency"


@dataclass(frozen=True)
class AttemptFeatures:
    """What an attempt used and reached."""

    solved: bool
    cost_usd: float | None
    """None where it is unknown, as of the latency: then no weight may be of it."""
    latency_s: float | None
    uses: Mapping[str, int]
    """Calls of each tool, failed ones too; a tool that is absent was not called."""
    served: Collection[str] = ()
    """Tools of which a call succeeded."""


def preference_rewards(
    group: Sequence[AttemptFeatures], weights: Mapping[str, float]
) -> list[float]:
    """The reward of each attempt of a group, 0 to the sum of the weights' sizes; 0 for the
    unsolved.

    `weights` are by tool, and by `accuracy`, `cost` and `latency`; what is not named weighs 0.
    Raises RewardError for a weight out of bounds, for a cost or latency that is negative, and for
    one that is unknown but has a weight.
    """
    for name, weight in weights.items():
        if why := weight_reason(name, weight):
            raise RewardError(f"weights.{name}: {why}")
    scaled = {name: _scaled(name, group, weight < 0) for name, weight in weights.items() if weight}
    return [
        sum(abs(weights[name]) * of_each[nth] for name, of_each in scaled.items())
        if each.solved
        else 0.0
        for nth, each in enumerate(group)
    ]


def weight_reason(name: str, weight: float) -> str:
    """Why a weight is out of bounds; empty if it is not."""
    least = 0.0 if name in (ACCURACY, COST, LATENCY) else -1.0
    return "" if least <= weight <= 1.0 else f"{weight!r} is not from {least:.0f} to 1"


def _scaled(name: str, group: Sequence[AttemptFeatures], is_avoided: bool) -> list[float]:
    values = [_feature(name, each, is_avoided) for each in group]
    low, high = min(values, default=0.0), max(values, default=0.0)
    if high <= low:
        return [0.0] * len(values)
    return [(value - low) / (high - low) for value in values]


def _feature(name: str, each: AttemptFeatures, is_avoided: bool) -> float:
    known = {ACCURACY: float(each.solved), COST: each.cost_usd, LATENCY: each.latency_s}
    if name not in known:
        return -float(each.uses.get(name, 0)) if is_avoided else float(name in each.served)
    value = known[name]
    if value is None:
        raise RewardError(f"{name}: it is unknown of an attempt; it can have no weight")
    if value < 0:
        raise RewardError(f"{name}: {value!r} is negative")
    return -value if name in (COST, LATENCY) else value
