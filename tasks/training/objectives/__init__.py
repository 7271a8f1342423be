"""Objectives by name, with their published settings; the functions are in `losses`. Needs no torch,
so that the platform can refuse a wrong name or value before a training starts."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from typing import Any


@dataclass(frozen=True)
class Clipping:
    """Settings of ratio clipping and of the penalty for departing from the reference."""

    low: float = 0.2
    """Ratios below 1 - low are clipped where the advantage is negative."""
    high: float = 0.2
    """Ratios above 1 + high are clipped where the advantage is positive."""
    dual: float | None = None
    """Largest ratio where the advantage is negative (dual clip, arXiv 1912.09729); None: any."""
    truncate: float = 2.0
    """Largest weight of the correction from the recorded log probabilities to the trainer's."""
    kl: float = 0.0
    """Coefficient of the KL to the reference model; above 0 it needs `Tokens.reference`."""


@dataclass(frozen=True)
class Preference:
    """Settings of the strength of a preference."""

    beta: float = 0.1
    wanted: float = 1.0
    """KTO's weight of wanted answers."""
    unwanted: float = 1.0
    """KTO's weight of the others."""


Settings = Clipping | Preference | None

OBJECTIVES: dict[str, Settings] = {
    "sft": None,
    "grpo": Clipping(),
    "dapo": Clipping(low=0.2, high=0.28),
    "dr_grpo": Clipping(),
    "gspo": Clipping(low=3e-4, high=4e-4),
    "cispo": Clipping(high=4.0),
    "reinforce": Clipping(),
    "epo": Clipping(low=0.2, high=0.28),
    "epo_published": None,
    "dpo": Preference(),
    "sdpo": Preference(),
    "kto": Preference(),
}
"""By name, which is also that of its function: its published settings where it has any."""
PAIRS = ("dpo", "sdpo")
SUPERVISED = ("sft", "epo_published", *PAIRS, "kto")
"""They read no log probabilities of the weights that sampled."""
ON_POLICY = tuple(name for name in OBJECTIVES if name not in SUPERVISED)
"""They learn from groups of a policy's own attempts."""
BY_TURNS = ("epo",)


def settings_with(name: str, given: Mapping[str, Any]) -> Settings:
    """Return the settings of an objective: the published ones, overridden by `given`. Raises
    ValueError for an unknown objective or setting, and for a value that is not a number."""
    if name not in OBJECTIVES:
        raise ValueError(f"{name!r} is none of {', '.join(OBJECTIVES)}")
    published = OBJECTIVES[name]
    known = [] if published is None else [each.name for each in fields(published)]
    if unknown := given.keys() - set(known):
        has = ", ".join(known) or "none"
        raise ValueError(f"{name} has no setting {min(unknown)!r}; it has {has}")
    for setting, value in given.items():
        number = isinstance(value, int | float) and not isinstance(value, bool)
        if not (number and math.isfinite(value)) and not (value is None and setting == "dual"):
            raise ValueError(f"{name}: {setting} is {value!r}, which is no number")
    return None if published is None else replace(published, **given)


def reads_reference(name: str, given: Mapping[str, Any]) -> bool:
    """Whether an objective with the given settings reads the base's log probabilities."""
    return name in (*PAIRS, "kto") or getattr(settings_with(name, given), "kl", 0.0) > 0
