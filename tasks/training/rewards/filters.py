"""Which groups of attempts are trained on, and why the others are not.

A group is all attempts of one task by the same weights. Reasons, the first that applies:
`infra` too few attempts are left without those that failed for infrastructure reasons, which are
never scored 0; `unjudged` a judge of turns gave no verdict on an attempt; `invalid` no attempt has
a valid form; `dead` all rewards are equal, so that nothing can be learned (DAPO's dynamic sampling,
arXiv 2503.14476, section 3.2); `flat` they differ by less than `least_deviation` (ToolOrchestra
drops below 0.1).
"""

import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

LEAST = 2
"""Fewest attempts of a group with a reward."""
REASONS = ("infra", "unjudged", "invalid", "dead", "flat")


@dataclass(frozen=True)
class Rollout:
    """An attempt as the filters see it."""

    attempt_id: str
    reward: float | None
    """None: it failed for infrastructure reasons."""
    valid: bool = True
    judged: bool = True
    """Whether all that its reward needs is known."""


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
