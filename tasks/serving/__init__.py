"""Engines, the model registry, the gateway and its policies, the simulator; here are its errors."""

from typing import TYPE_CHECKING

from tutti.face import lazy

if TYPE_CHECKING:
    from tutti.tasks.serving.errors import EndpointFailed as EndpointFailed
    from tutti.tasks.serving.errors import EngineFailed as EngineFailed
    from tutti.tasks.serving.errors import GatewayFailed as GatewayFailed
    from tutti.tasks.serving.errors import PortTaken as PortTaken
    from tutti.tasks.serving.errors import PriceError as PriceError
    from tutti.tasks.serving.errors import RegistryError as RegistryError
    from tutti.tasks.serving.errors import ServingError as ServingError
    from tutti.tasks.serving.errors import WeightsError as WeightsError

if not TYPE_CHECKING:  # with it, a type checker would accept any name of this package
    __getattr__ = lazy(__name__, __file__)
