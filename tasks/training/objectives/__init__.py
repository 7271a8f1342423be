"""Objectives: log probabilities of the tokens that a model wrote, to a loss. One function each.

In: `Tokens` (flat, of a micro-batch) and `StepSizes` (of its step). Out: a `Loss`. Their names and
settings need no torch, all else does.
"""

from collections.abc import Mapping
from functools import partial
from importlib import import_module
from typing import TYPE_CHECKING, Any

from tutti.face import lazy

if TYPE_CHECKING:
    from tutti.tasks.training.objectives.losses import Loss as Loss
    from tutti.tasks.training.objectives.losses import Objective as Objective
    from tutti.tasks.training.objectives.losses import StepSizes as StepSizes
    from tutti.tasks.training.objectives.losses import Tokens as Tokens
    from tutti.tasks.training.objectives.settings import BY_TURNS as BY_TURNS
    from tutti.tasks.training.objectives.settings import OBJECTIVES as OBJECTIVES
    from tutti.tasks.training.objectives.settings import ON_POLICY as ON_POLICY
    from tutti.tasks.training.objectives.settings import PAIRS as PAIRS
    from tutti.tasks.training.objectives.settings import SUPERVISED as SUPERVISED
    from tutti.tasks.training.objectives.settings import Clipping as Clipping
    from tutti.tasks.training.objectives.settings import check_name as check_name
    from tutti.tasks.training.objectives.settings import reads_reference as reads_reference
    from tutti.tasks.training.objectives.settings import settings_with as settings_with

if not TYPE_CHECKING:  # with it, a type checker would accept any name of this package
    __getattr__ = lazy(__name__, __file__)


def objective(name: str, given: Mapping[str, Any]) -> "Objective":
    """An objective with its published settings but for those given.

    Raises ValueError for an unknown objective or setting.
    """
    from tutti.tasks.training.objectives.settings import check_name, settings_with

    check_name(name)
    function: Any = getattr(import_module(f"{__name__}.losses"), name)
    settings = settings_with(name, given)
    found: Objective = function if settings is None else partial(function, how=settings)
    return found
