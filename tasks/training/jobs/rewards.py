"""Rewards of attempts and turns, advantages within groups, and filters of groups. Plain Python.

A group is all attempts of one task by the same weights. Advantages of the attempts of a group sum
to 0 over the group; a group of equal rewards has advantages of exactly 0.
"""

import math
import statistics
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from tutti.errors import TuttiError


class RewardError(TuttiError, ValueError):
    """A reward that is undefined for the given values."""


def overlong(tokens: int, most: int, buffer: int) -> float:
    """DAPO's soft punishment of long answers: 0 up to most - buffer, -1 above most, linear between.
    Source: arXiv 2503.14476, eq. 13. Raises RewardError for a buffer that is not in (0, most]."""
    if not 0 < buffer <= most:
        raise RewardError(f"buffer: {buffer} tokens of {most}; it must be from 1 to {most}")
    return max(-1.0, min(0.0, (most - buffer - tokens) / buffer))


EPSILON = 1e-4


def centred(rewards: Sequence[float]) -> list[float]:
    """Dr. GRPO's advantages, arXiv 2503.20783: r - mean. RewardError for a non-finite reward."""
    for nth, reward in enumerate(rewards):
        if not math.isfinite(reward):
            raise RewardError(f"rewards[{nth}]: {reward!r} is not a number")
    if all(reward == rewards[0] for reward in rewards):
        return [0.0] * len(rewards)  # exactly: a mean of equal numbers may differ from them
    mean = math.fsum(rewards) / len(rewards)
    return [reward - mean for reward in rewards]


def leave_one_out(rewards: Sequence[float]) -> list[float]:
    """RLOO's advantages, arXiv 2402.14740: r - mean of the others; 0 for a group of one."""
    n = len(rewards)
    return [0.0] * n if n < 2 else [a * n / (n - 1) for a in centred(rewards)]


def whitened(groups: Sequence[Sequence[float]]) -> list[list[float]]:
    """REINFORCE++'s advantages, arXiv 2501.03262: rewards centred by group, divided by the standard
    deviation of all groups (n - 1) + 1e-4."""
    parts = [centred(group) for group in groups]
    every = [a for part in parts for a in part]
    if len(every) < 2:
        return parts
    deviation = math.sqrt(sum(a * a for a in every) / (len(every) - 1))
    return [[a / (deviation + EPSILON) for a in part] for part in parts]


def mean_std(rewards: Sequence[float]) -> list[float]:
    """GRPO's advantages, arXiv 2402.03300: (r - mean) / (sd + 1e-4), with the sd of n - 1."""
    return whitened([rewards])[0]


def decoupled(parts: Mapping[str, Sequence[float]], weights: Mapping[str, float]) -> list[float]:
    """GDPO's advantages, arXiv 2601.05242: `mean_std` of each part of the reward, weighted and
    summed.

    Normalising the sum instead maps different mixes of parts to the same advantage. Raises
    RewardError if parts and weights have different names, or parts differ in length.
    """
    if parts.keys() != weights.keys() or len({len(part) for part in parts.values()}) > 1:
        raise RewardError(f"parts {sorted(parts)} and weights {sorted(weights)} do not match")
    scaled = [[weights[name] * a for a in mean_std(part)] for name, part in parts.items()]
    return [sum(row) for row in zip(*scaled, strict=True)]


ADVANTAGES: dict[str, Callable[[Sequence[float]], list[float]]] = {
    "mean_std": mean_std,
    "leave_one_out": leave_one_out,
    "centred": centred,
}
"""By name; those of one group alone."""
REASONS = ("infra", "unjudged", "invalid", "dead", "flat")


@dataclass(frozen=True)
class Rollout:
    """An attempt and its reward."""

    attempt_id: str
    reward: float | None
    """None: it failed for infrastructure reasons, and is in no group."""
    valid: bool = True
    """Whether a call of it could be read at all."""
    judged: bool = True
    """Whether all that its reward needs is known."""
    parts: Mapping[str, float] = field(default_factory=dict)
    """What the reward is the weighted sum of, by name."""


@dataclass(frozen=True)
class Filtered:
    """The groups to train on, and the number of groups left out for each reason."""

    kept: dict[str, list[Rollout]]
    """By task; attempts without a reward are left out of them."""
    dropped: dict[str, str]

    @property
    def dead_share(self) -> float:
        """Share of groups with equal rewards among those with rewards; 0 without any."""
        counts = self.counts()
        rewarded = counts["kept"] + counts["dead"] + counts["flat"]
        return counts["dead"] / rewarded if rewarded else 0.0

    def counts(self) -> dict[str, int]:
        """Number of groups by reason, including the groups to train on."""
        reasons = [*self.dropped.values()]
        return {"kept": len(self.kept)} | {why: reasons.count(why) for why in REASONS}


def filtered(groups: Mapping[str, Iterable[Rollout]], least_deviation: float) -> Filtered:
    """Sort groups, by task, into those kept and those left out, by the first reason that applies:

    `infra` fewer than two attempts have a reward: those that failed for infrastructure reasons are
    never scored 0; `unjudged` a judge of turns gave no verdict on an attempt; `invalid` no attempt
    has a valid form; `dead` all rewards are equal, so that nothing can be learned (DAPO's dynamic
    sampling, arXiv 2503.14476, 3.2); `flat` their standard deviation (of the population) is below
    `least_deviation` (ToolOrchestra drops below 0.1).
    """
    result = Filtered({}, {})
    for task_id, rollouts in groups.items():
        group = [each for each in rollouts if each.reward is not None]
        rewards = [each.reward for each in group if each.reward is not None]
        if len(group) < 2:
            result.dropped[task_id] = "infra"
        elif not all(each.judged for each in group):
            result.dropped[task_id] = "unjudged"
        elif not any(each.valid for each in group):
            result.dropped[task_id] = "invalid"
        elif len(set(rewards)) == 1:
            result.dropped[task_id] = "dead"
        elif statistics.pstdev(rewards) < least_deviation:
            result.dropped[task_id] = "flat"
        else:
            result.kept[task_id] = group
    return result


ACCURACY, COST, LATENCY = "accuracy", "cost", "latency"


@dataclass(frozen=True)
class AttemptFeatures:
    """Tools, cost, latency and outcome of an attempt."""

    solved: bool
    cost_usd: float | None
    """None where it is unknown, as for the latency: then it can have no weight."""
    latency_s: float | None
    uses: Mapping[str, int]
    """Calls of each tool, failed ones too; a tool that is absent was not called."""
    served: Collection[str] = ()


def preference_rewards(
    group: Sequence[AttemptFeatures], weights: Mapping[str, float]
) -> list[float]:
    """The reward of each attempt of a group by a user's preferences over tools, accuracy, cost and
    latency: 0 to the sum of the weights' sizes; 0 for the unsolved.

    M = [whether each tool served, outcome, -cost, -latency], each feature min-max normalised over
    the group (0 where it is constant), R = M . P with weights P in [0, 1]. A tool may also weigh
    from -1 to 0: it is to be avoided, and fewer calls, failed ones included, earn more. Source:
    ToolOrchestra, arXiv 2511.21689, section 3.2, which has no negative weights and counts all calls
    of a tool: there 30 refused calls earn 30 times what one good call does. So here a preferred
    tool counts once, if a call of it succeeded. In the released code cost and latency have the sign
    reversed and accuracy, cost and latency are added twice, so the dearer attempt earns more; the
    minimum of a tool's uses leaves out the attempts that did not use it. Here each feature counts
    once, and attempts without a use count 0.

    Raises RewardError for a weight out of bounds, for a cost or latency that is negative, and for
    one that is unknown but has a weight.
    """
    for name, weight in weights.items():
        if why := weight_reason(name, weight):
            raise RewardError(f"weights.{name}: {why}")
    rewards = [0.0] * len(group)
    for name, weight in weights.items():
        values = [_feature(name, each, weight < 0) for each in group] if weight else []
        low, high = min(values, default=0.0), max(values, default=0.0)
        if high > low:
            for nth, value in enumerate(values):
                rewards[nth] += abs(weight) * ((value - low) / (high - low))
    return [r if each.solved else 0.0 for r, each in zip(rewards, group, strict=True)]


def weight_reason(name: str, weight: float) -> str:
    """Return why a weight is out of bounds, or an empty string."""
    least = 0.0 if name in (ACCURACY, COST, LATENCY) else -1.0
    return "" if least <= weight <= 1.0 else f"{weight!r} is not from {least:.0f} to 1"


def _feature(name: str, each: AttemptFeatures, is_avoided: bool) -> float:
    if name == ACCURACY:
        return float(each.solved)
    if name not in (COST, LATENCY):
        return -float(each.uses.get(name, 0)) if is_avoided else float(name in each.served)
    value = each.cost_usd if name == COST else each.latency_s
    if value is None:
        raise RewardError(f"{name}: it is unknown of an attempt; it can have no weight")
    if value < 0:
        raise RewardError(f"{name}: {value!r} is negative")
    return -value


GAMMA = 0.99
PROCESS = 0.2


@dataclass(frozen=True)
class Dialogue:
    """One attempt as its assistant turns."""

    outcome: float
    """0 to 1."""
    picked: tuple[bool, ...]
    """One for each assistant turn, in order."""


def returns(rewards: Sequence[float], gamma: float = GAMMA) -> list[float]:
    """Discounted returns: G_t = r_t + gamma G_{t+1}."""
    values, after = [0.0] * len(rewards), 0.0
    for nth in reversed(range(len(rewards))):
        values[nth] = after = rewards[nth] + gamma * after
    return values


def turn_returns(dialogue: Dialogue, gamma: float = GAMMA, process: float = PROCESS) -> list[float]:
    """Return of each turn: a picked turn earns `process`, the last turn also the outcome. Raises
    RewardError for an outcome outside [0, 1]."""
    if not 0.0 <= dialogue.outcome <= 1.0:
        raise RewardError(f"outcome: {dialogue.outcome!r} is not from 0 to 1")
    rewards = [process * picked for picked in dialogue.picked]
    if rewards:
        rewards[-1] += dialogue.outcome
    return returns(rewards, gamma)


def turn_advantages(
    group: Sequence[Dialogue], gamma: float = GAMMA, process: float = PROCESS
) -> list[list[float]]:
    """Return of each turn minus the mean of the group's other dialogues at that turn.

    A process reward model, a rule or a judge picks assistant turns (EPO, arXiv 2502.12486). In the
    released `preprocessing.py`, r_t is 1 if the turn is picked, else the outcome at the last turn,
    else 0, and the weight is G_t / max |G|. That division by dialogue cancels the outcome: a
    failure with two picks weighs as much as a success, and no weight is negative. Here the outcome
    is added at the last turn whether or not it was picked, and a baseline is subtracted. With equal
    picks a failure never weighs more than a success; dialogues with equal outcomes and no picks
    weigh exactly 0 at any length; failures get negative weights.

    Turns are matched from the end, where the outcome is, so that dialogues of different lengths
    compare equally discounted outcomes.
    """
    every = [turn_returns(each, gamma, process) for each in aligned(group)]
    advantages = []
    for place, (dialogue, turns) in enumerate(zip(group, every, strict=True)):
        others = [other for nth, other in enumerate(every) if nth != place and other]
        gains = [
            sum(own - other[nth] for other in others) / max(1, len(others))
            for nth, own in enumerate(turns)
        ]
        advantages.append(gains[len(gains) - len(dialogue.picked) :])
    return advantages


def aligned(group: Sequence[Dialogue]) -> list[Dialogue]:
    """Pad the dialogues at the front with unpicked turns to the length of the longest."""
    most = max((len(each.picked) for each in group), default=0)
    return [
        Dialogue(each.outcome, (False,) * (most - len(each.picked)) + each.picked)
        if each.picked
        else each
        for each in group
    ]
