"""Weights: which files make a checkpoint, its content id, the Hub's cache, and whether it fits."""

from typing import TYPE_CHECKING

from tutti.face import lazy

if TYPE_CHECKING:
    from tutti.tasks.serving.weights.fit import Fit as Fit
    from tutti.tasks.serving.weights.fit import kv_need as kv_need
    from tutti.tasks.serving.weights.hub import HubId as HubId
    from tutti.tasks.serving.weights.hub import resolve_hub as resolve_hub
    from tutti.tasks.serving.weights.identity import HashBook as HashBook
    from tutti.tasks.serving.weights.identity import weights_id as weights_id
    from tutti.tasks.serving.weights.reading import Weights as Weights
    from tutti.tasks.serving.weights.reading import read_weights as read_weights

if not TYPE_CHECKING:  # with it, a type checker would accept any name of this package
    __getattr__ = lazy(__name__, __file__)
