"""Advantages of the attempts of one group from their rewards. All sum to 0 over a group.

`mean_std` GRPO, arXiv 2402.03300: (r - mean) / (sd + 1e-4), sd of the population less one.
`leave_one_out` RLOO, arXiv 2402.14740: r - mean of the others.
`centred` Dr. GRPO, arXiv 2503.20783: r - mean.
`whitened` REINFORCE++, arXiv 2501.03262: over the whole batch of groups, not group by group.
`decoupled` GDPO, arXiv 2601.05242: each part of the reward normalised by itself, then summed.
A group of equal rewards has advantages of exactly 0.
"""

import math
from collections.abc import Callable, Mapping, Sequence

from tutti.tasks.training.rewards.outcome import RewardError

EPSILON = 1e-4
Advantages = Callable[[Sequence[float]], list[float]]


def mean_std(rewards: Sequence[float]) -> list[float]:
    """GRPO's, by the group's mean and standard deviation."""
    centred_ones = centred(rewards)
    if len(rewards) < 2:
        return centred_ones
    deviation = math.sqrt(sum(a * a for a in centred_ones) / (len(rewards) - 1))
    return [a / (deviation + EPSILON) for a in centred_ones]


def leave_one_out(rewards: Sequence[float]) -> list[float]:
    """RLOO's: each against the mean of the others; 0 for a group of one."""
    n = len(rewards)
    return [0.0] * n if n < 2 else [a * n / (n - 1) for a in centred(rewards)]


def centred(rewards: Sequence[float]) -> list[float]:
    """Dr. GRPO's: each against the group's mean. Raises RewardError for what is no number."""
    for nth, reward in enumerate(rewards):
        if not math.isfinite(reward):
            raise RewardError(f"rewards[{nth}]: {reward!r} is not a number")
    if all(reward == rewards[0] for reward in rewards):
        return [0.0] * len(rewards)  # exactly: a mean of equal numbers may differ from them
    mean = math.fsum(rewards) / len(rewards)
    return [reward - mean for reward in rewards]


def whitened(groups: Sequence[Sequence[float]]) -> list[list[float]]:
    """REINFORCE++'s baseline form: centred by group, divided by the batch's deviation."""
    parts = [centred(group) for group in groups]
    every = [a for part in parts for a in part]
    if len(every) < 2:
        return parts
    deviation = math.sqrt(sum(a * a for a in every) / (len(every) - 1))
    return [[a / (deviation + EPSILON) for a in part] for part in parts]


def decoupled(parts: Mapping[str, Sequence[float]], weights: Mapping[str, float]) -> list[float]:
    """GDPO's: `mean_std` of each part of the reward, weighted and summed.

    Normalising the sum instead maps different mixes of parts to the same advantage. Raises
    RewardError where parts and weights have other names, or parts differ in length.
    """
    if parts.keys() != weights.keys() or len({len(part) for part in parts.values()}) > 1:
        raise RewardError(f"parts {sorted(parts)} and weights {sorted(weights)} do not match")
    normalised = {name: mean_std(part) for name, part in parts.items()}
    columns = zip(*normalised.values(), strict=True)
    scale = list(weights[name] for name in normalised)
    return [sum(w * a for w, a in zip(scale, row, strict=True)) for row in columns]


ADVANTAGES: dict[str, Advantages] = {
    "mean_std": mean_std,
    "leave_one_out": leave_one_out,
    "centred": centred,
}
"""By name; those of one group alone."""
