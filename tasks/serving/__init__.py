"""Serving: the model registry, endpoints by their URL, and the errors of all its parts."""

from typing import TYPE_CHECKING

from tutti.face import lazy

if TYPE_CHECKING:
    from tutti.tasks.serving.errors import EndpointFailed as EndpointFailed
    from tutti.tasks.serving.errors import EngineFailed as EngineFailed
    from tutti.tasks.serving.errors import GatewayFailed as GatewayFailed
    from tutti.tasks.serving.errors import ModelsEnvironmentMissing as ModelsEnvironmentMissing
    from tutti.tasks.serving.errors import PriceError as PriceError
    from tutti.tasks.serving.errors import RegistryError as RegistryError
    from tutti.tasks.serving.errors import ServingError as ServingError
    from tutti.tasks.serving.errors import WeightsError as WeightsError
    from tutti.tasks.serving.registry.models import Dialect as Dialect
    from tutti.tasks.serving.registry.models import Model as Model
    from tutti.tasks.serving.registry.models import checkpoint_id as checkpoint_id
    from tutti.tasks.serving.registry.models import pick_model as pick_model
    from tutti.tasks.serving.registry.models import pick_models as pick_models
    from tutti.tasks.serving.registry.models import read_registry as read_registry
    from tutti.tasks.serving.registry.models import weights_folder as weights_folder
    from tutti.tasks.serving.registry.models import weights_here as weights_here
    from tutti.tasks.serving.served.discovery import CONTEXT_TOKENS as CONTEXT_TOKENS
    from tutti.tasks.serving.served.discovery import EndpointRequest as EndpointRequest
    from tutti.tasks.serving.served.discovery import ask_for_models as ask_for_models
    from tutti.tasks.serving.served.discovery import discover as discover
    from tutti.tasks.serving.served.discovery import is_url as is_url
    from tutti.tasks.serving.served.discovery import not_listed as not_listed
    from tutti.tasks.serving.served.discovery import short_name as short_name

if not TYPE_CHECKING:  # with it, a type checker would accept any name of this package
    __getattr__ = lazy(__name__, __file__)
