"""Rewards of attempts and turns, advantages within groups, and filters of groups. Plain Python.

Advantages of the attempts of one group sum to 0 over the group:

- `mean_std` GRPO, arXiv 2402.03300: (r - mean) / (sd + 1e-4), sd of the population less one.
- `leave_one_out` RLOO, arXiv 2402.14740: r - mean of the others.
- `centred` Dr. GRPO, arXiv 2503.20783: r - mean.
- `whitened` REINFORCE++, arXiv 2501.03262: over the whole batch of groups, not group by group.
- `decoupled` GDPO, arXiv 2601.05242: each part of the reward normalised by itself, then summed.

A group of equal rewards has advantages of exactly 0. A group is all attempts of one task by the
same weights. Reasons to leave one out, the first that applies: `infra` too few attempts are left
without those that failed for infrastructure reasons, which are never scored 0; `unjudged` a judge
of turns gave no verdict on an attempt; `invalid` no attempt has a valid form; `dead` all rewards
are equal, so that nothing can be learned (DAPO's dynamic sampling, arXiv 2503.14476, section 3.2);
`flat` they differ by less than `least_deviation` (ToolOrchestra drops below 0.1).

A user's preferences over tools, accuracy, cost and latency: M = [whether each tool served, outcome,
-cost, -latency], each feature min-max normalised over the group (0 where it is constant), R = M . P
with weights P in [0, 1]. A tool may also weigh from -1 to 0: it is to be avoided, and fewer calls,
failed ones included, earn more. Source: ToolOrchestra, arXiv 2511.21689, section 3.2, which has no
negative weights and counts all calls of a tool: there 30 refused calls earn 30 times what one good
call does. So here a preferred tool counts once, if a call of it succeeded. In the released code
cost and latency have the sign reversed and accuracy, cost and latency are added twice, so the
dearer attempt earns more; the minimum of a tool's uses leaves out the attempts that did not use it.
Here each feature counts once, and attempts without a use count 0.

Turns (EPO, arXiv 2502.12486): a process reward model, a rule or a judge picks assistant turns of a
dialogue. As published (released `preprocessing.py`): r_t = 1 if picked, else the outcome at the
last turn, else 0; G_t = r_t + gamma G_{t+1}; weight G_t / max |G|. That division by dialogue
cancels the outcome: a failure with two picks weighs as much as a success, and nothing is negative.
Ours: the outcome is added at the last turn whether or not it was picked, a pick counts `process`
and not 1, and from each return the mean of the other dialogues' returns at the same turn is taken
away. So with equal picks a failure never weighs more than a success, equal dialogues and equal
outcomes without picks weigh exactly 0 whatever their lengths, and failures are pushed down.
"""

import math
import statistics
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from tutti.errors import TuttiError


class RewardError(TuttiError, ValueError):
    """A reward was asked of values that it is not defined for."""


def overlong(tokens: int, most: int, buffer: int) -> float:
    """DAPO's soft punishment of long answers: 0 up to most - buffer, -1 above most, linear between.

    Source: arXiv 2503.14476, eq. 13. Raises RewardError for a buffer that is not in (0, most].
    """
    if not 0 < buffer <= most:
        raise RewardError(f"buffer: {buffer} tokens of {most}; it must be from 1 to {most}")
    if tokens <= most - buffer:
        return 0.0
    return max(-1.0, (most - buffer - tokens) / buffer)


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


LEAST = 2
"""Fewest attempts of a group with a reward."""
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
    """The groups kept, and how many were left out for each reason."""

    kept: dict[str, list[Rollout]]
    """By task; attempts without a reward are left out of them."""
    dropped: dict[str, str]
    """Task to reason."""

    @property
    def dead_share(self) -> float:
        """Share of groups with equal rewards among those with rewards; 0 without any."""
        rewarded = len(self.kept) + sum(why in ("dead", "flat") for why in self.dropped.values())
        return sum(why == "dead" for why in self.dropped.values()) / rewarded if rewarded else 0.0

    def counts(self) -> dict[str, int]:
        """Groups by reason, those kept included."""
        whys = [*self.dropped.values()]
        return {"kept": len(self.kept)} | {why: whys.count(why) for why in REASONS}


def filtered(groups: Mapping[str, Iterable[Rollout]], least_deviation: float) -> Filtered:
    """Sort groups, by task, into those kept and those left out.

    `least_deviation` is the least standard deviation of the rewards (of the population).
    """
    kept: dict[str, list[Rollout]] = {}
    dropped: dict[str, str] = {}
    for task_id, rollouts in groups.items():
        group = list(rollouts)
        if (why := _reason(group, least_deviation)) is not None:
            dropped[task_id] = why
        else:
            kept[task_id] = [each for each in group if each.reward is not None]
    return Filtered(kept, dropped)


def _reason(group: Sequence[Rollout], least_deviation: float) -> str | None:
    """Why a group is left out; None if it is kept."""
    rewards = [each.reward for each in group if each.reward is not None]
    if len(rewards) < LEAST:
        return "infra"
    if not all(each.judged for each in group if each.reward is not None):
        return "unjudged"
    if not any(each.valid for each in group):
        return "invalid"
    if len(set(rewards)) == 1:
        return "dead"
    return "flat" if statistics.pstdev(rewards) < least_deviation else None


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


GAMMA = 0.99
PROCESS = 0.2


@dataclass(frozen=True)
class Dialogue:
    """One attempt by its assistant turns."""

    outcome: float
    """0 to 1."""
    picked: tuple[bool, ...]
    """One for each assistant turn, in order."""


def returns(rewards: Sequence[float], gamma: float = GAMMA) -> list[float]:
    """G_t = r_t + gamma G_{t+1}."""
    found: list[float] = []
    after = 0.0
    for reward in reversed(rewards):
        after = reward + gamma * after
        found.append(after)
    return found[::-1]


def turn_returns(dialogue: Dialogue, gamma: float = GAMMA, process: float = PROCESS) -> list[float]:
    """Each turn's return: picks count `process`, the outcome counts at the last turn.

    Raises RewardError for an outcome outside [0, 1].
    """
    if not 0.0 <= dialogue.outcome <= 1.0:
        raise RewardError(f"outcome: {dialogue.outcome!r} is not from 0 to 1")
    rewards = [process * picked for picked in dialogue.picked]
    if rewards:
        rewards[-1] += dialogue.outcome
    return returns(rewards, gamma)


def turn_advantages(
    group: Sequence[Dialogue], gamma: float = GAMMA, process: float = PROCESS
) -> list[list[float]]:
    """Each turn's return less the mean of the group's other dialogues at that turn.

    Turns are matched from the end, where the outcome is: so dialogues of different lengths compare
    equally discounted outcomes.
    """
    every = [turn_returns(each, gamma, process) for each in aligned(group)]
    advantages = [
        [
            _mean([own - other[nth] for other in _others(every, place)])
            for nth, own in enumerate(turns)
        ]
        for place, turns in enumerate(every)
    ]
    return [
        found[len(found) - len(each.picked) :]
        for each, found in zip(group, advantages, strict=True)
    ]


def aligned(group: Sequence[Dialogue]) -> list[Dialogue]:
    """The dialogues as if all had begun as early as the longest, with turns that nobody picked."""
    most = max((len(each.picked) for each in group), default=0)
    return [
        Dialogue(each.outcome, (False,) * (most - len(each.picked)) + each.picked)
        if each.picked
        else each
        for each in group
    ]


def _others(every: Sequence[list[float]], place: int) -> list[list[float]]:
    return [turns for nth, turns in enumerate(every) if nth != place and turns]


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values) if values else 0.0
