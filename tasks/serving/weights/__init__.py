"""Weights: the files of a checkpoint, its content id, the Hub's cache, and whether it fits."""

from typing import TYPE_CHECKING

from tutti.face import lazy

if TYPE_CHECKING:
    from tutti.tasks.serving.weights.fit import Fit as Fit
    from tutti.tasks.serving.weights.fit import kv_need as kv_need
    from tutti.tasks.serving.weights.hub import HubId as HubId
    from tutti.tasks.serving.weights.hub import hub_weights_here as hub_weights_here
    from tutti.tasks.serving.weights.hub import is_hub_name as is_hub_name
    from tutti.tasks.serving.weights.hub import resolve_hub as resolve_hub
    from tutti.tasks.serving.weights.identity import weights_id as weights_id
    from tutti.tasks.serving.weights.reading import read_weights as read_weights
    from tutti.tasks.serving.weights.reading import require_trainable as require_trainable
    from tutti.tasks.serving.weights.tensor_files import parameters_in as parameters_in
    from tutti.tasks.serving.weights.tensor_files import read_json as read_json
    from tutti.tasks.serving.weights.tensor_files import read_tensors as read_tensors

if not TYPE_CHECKING:  # with it, a type checker would accept any name of this package
    __getattr__ = lazy(__name__, __file__)
