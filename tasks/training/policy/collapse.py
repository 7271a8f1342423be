"""When a policy has collapsed: nothing that it samples differs any more, and it earns less for it.

In: the figures of a training's steps. Out: a diagnosis in words, or None. A pure rule.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class CollapseRule:
    """The bounds of the rule."""

    steps: int = 10
    """So many steps in a row without two different rewards in any group: single ones are usual."""
    entropy: float = 0.005
    """Nats a token. A small model of short answers that still learns has 0.01 to 0.1."""


def collapse(
    figures: Sequence[Mapping[str, Any]], rule: CollapseRule = CollapseRule()
) -> str | None:
    """Why the training should stop after these steps (in order); None where it should go on.

    The last `rule.steps` had dead groups only, the entropy was below the bound when it was last
    measured (such steps change no weights), and the attempts earn less than they did over as many
    steps before: a policy that solves every task has dead groups too, and is no failure.
    """
    last, before = figures[-rule.steps :], figures[: -rule.steps]
    if len(last) < rule.steps or any(each["dead_group_share"] < 1.0 for each in last):
        return None
    measured = [e for each in before if (e := each.get("entropy")) is not None]
    if not measured or measured[-1] >= rule.entropy:
        return None
    reward = _mean(last)
    best = max(_mean(before[max(0, n - rule.steps) : n]) for n in _ends(len(before), rule.steps))
    if reward >= best:
        return None
    return (
        f"collapsed: entropy {measured[-1]:.2g} nats, and no group with different rewards for "
        f"{rule.steps} steps; mean reward {reward:.3g}, at best {best:.3g} before"
    )


def _ends(n: int, window: int) -> range:
    """Where windows end, of whole ones alone if there are any: a single step's mean is noise."""
    return range(min(n, window), n + 1)


def _mean(figures: Sequence[Mapping[str, Any]]) -> float:
    return float(sum(each["reward"] for each in figures) / len(figures))
