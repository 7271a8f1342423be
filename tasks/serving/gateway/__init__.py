"""The gateway: the program-aware proxy every model call passes through."""

from typing import TYPE_CHECKING

from tutti.face import lazy

if TYPE_CHECKING:
    from tutti.tasks.serving.gateway.access import Access as Access
    from tutti.tasks.serving.gateway.app import Gateway as Gateway
    from tutti.tasks.serving.gateway.command import read_engines as read_engines
    from tutti.tasks.serving.gateway.command import read_policy as read_policy
    from tutti.tasks.serving.gateway.command import read_prices as read_prices
    from tutti.tasks.serving.gateway.command import serve as serve
    from tutti.tasks.serving.gateway.endpoint import Endpoint as Endpoint
    from tutti.tasks.serving.gateway.endpoint import EndpointConfig as EndpointConfig
    from tutti.tasks.serving.gateway.endpoint import ProbeFailed as ProbeFailed
    from tutti.tasks.serving.gateway.settings import Settings as Settings

__getattr__ = lazy(__name__, __file__)
