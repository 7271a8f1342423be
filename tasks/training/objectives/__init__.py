"""Objectives: log probabilities of the tokens that a model wrote, to a loss. One file each.

In: `Tokens` (flat, of a micro-batch) and `StepSizes` (of its step). Out: a `Loss`. Needs torch.
"""

from collections.abc import Mapping
from dataclasses import fields
from functools import partial
from typing import Any

from tutti.tasks.training.objectives.cispo import CISPO, cispo
from tutti.tasks.training.objectives.dapo import DAPO, dapo
from tutti.tasks.training.objectives.dpo import dpo
from tutti.tasks.training.objectives.dr_grpo import DR_GRPO, dr_grpo
from tutti.tasks.training.objectives.epo import EPO, epo
from tutti.tasks.training.objectives.epo_published import epo_published
from tutti.tasks.training.objectives.grpo import GRPO, grpo
from tutti.tasks.training.objectives.gspo import GSPO, gspo
from tutti.tasks.training.objectives.kto import kto
from tutti.tasks.training.objectives.preference import PREFERENCE
from tutti.tasks.training.objectives.ratios import Clipping
from tutti.tasks.training.objectives.reinforce import REINFORCE, reinforce
from tutti.tasks.training.objectives.sdpo import sdpo
from tutti.tasks.training.objectives.sft import sft
from tutti.tasks.training.objectives.tokens import Loss, Objective, StepSizes, Tokens

__all__ = ["OBJECTIVES", "Clipping", "Loss", "Objective", "StepSizes", "Tokens", "objective"]

OBJECTIVES: dict[str, tuple[Any, Any]] = {
    "sft": (sft, None),
    "grpo": (grpo, GRPO),
    "dapo": (dapo, DAPO),
    "dr_grpo": (dr_grpo, DR_GRPO),
    "gspo": (gspo, GSPO),
    "cispo": (cispo, CISPO),
    "reinforce": (reinforce, REINFORCE),
    "epo": (epo, EPO),
    "epo_published": (epo_published, None),
    "dpo": (dpo, PREFERENCE),
    "sdpo": (sdpo, PREFERENCE),
    "kto": (kto, PREFERENCE),
}
"""By name: the function, and its settings where it has any."""


def objective(name: str, settings: Mapping[str, Any]) -> Objective:
    """An objective with its published settings but for those given.

    Raises ValueError for an unknown objective or setting.
    """
    if name not in OBJECTIVES:
        raise ValueError(f"objective: {name!r} is none of {', '.join(OBJECTIVES)}")
    function, published = OBJECTIVES[name]
    if published is None:
        if settings:
            raise ValueError(f"objective {name}: has no setting {min(settings)!r}")
        return function  # type: ignore[no-any-return]
    known = {each.name: getattr(published, each.name) for each in fields(published)}
    if unknown := settings.keys() - known.keys():
        raise ValueError(f"objective {name}: {min(unknown)!r} is none of {', '.join(known)}")
    return partial(function, **{_argument(published): type(published)(**known | dict(settings))})


def _argument(published: Any) -> str:
    return "clip" if isinstance(published, Clipping) else "how"
