"""Rewards of turns: EPO's discounted returns, with a baseline or as published.

In: for each assistant turn of a dialogue whether a process reward model (or a rule, or a judge)
picked it, and the dialogue's outcome. Out: a number for each turn.

As published (arXiv 2502.12486, released `preprocessing.py`): r_t = 1 if picked, else the outcome at
the last turn, else 0; G_t = r_t + gamma G_{t+1}; weight G_t / max |G|. That division by dialogue
cancels the outcome: a failure with two picks weighs as much as a success, and nothing is negative.

Ours: the outcome is added at the last turn whether or not it was picked, a pick counts
`process` and not 1, and from each return the mean of the other dialogues' returns at the same turn
is taken away. So with equal picks a failure never weighs more than a success, equal dialogues and
equal outcomes without picks weigh exactly 0 whatever their lengths, and failures are pushed down.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from tutti.tasks.training.rewards.outcome import RewardError

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


def published_weights(dialogue: Dialogue, gamma: float = GAMMA) -> list[float]:
    """The released weights of one dialogue's turns, 0 to 1."""
    last = len(dialogue.picked) - 1
    rewards = [
        1.0 if picked else dialogue.outcome * (nth == last)
        for nth, picked in enumerate(dialogue.picked)
    ]
    found = returns(rewards, gamma)
    most = max((abs(value) for value in found), default=0.0)
    return [value / most if most else 0.0 for value in found]


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
