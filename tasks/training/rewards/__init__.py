"""Rewards of attempts and turns, advantages within groups, and filters of groups. Plain Python."""

from tutti.tasks.training.rewards.advantages import (
    ADVANTAGES,
    centred,
    decoupled,
    leave_one_out,
    mean_std,
    whitened,
)
from tutti.tasks.training.rewards.filters import Filtered, Rollout, filtered
from tutti.tasks.training.rewards.outcome import RewardError, overlong
from tutti.tasks.training.rewards.preference import AttemptFeatures, preference_rewards
from tutti.tasks.training.rewards.turns import (
    Dialogue,
    aligned,
    published_weights,
    turn_advantages,
    turn_returns,
)

__all__ = [
    "ADVANTAGES",
    "AttemptFeatures",
    "Dialogue",
    "Filtered",
    "RewardError",
    "Rollout",
    "aligned",
    "centred",
    "decoupled",
    "filtered",
    "leave_one_out",
    "mean_std",
    "overlong",
    "preference_rewards",
    "published_weights",
    "turn_advantages",
    "turn_returns",
    "whitened",
]
