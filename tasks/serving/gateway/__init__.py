"""The gateway: the program-aware proxy of all model calls."""

from typing import TYPE_CHECKING

from tutti.face import lazy

if TYPE_CHECKING:
    from tutti.tasks.serving.gateway.app import Gateway as Gateway
    from tutti.tasks.serving.gateway.calls.access import Access as Access
    from tutti.tasks.serving.gateway.command import access_of as access_of
    from tutti.tasks.serving.gateway.command import check_settings as check_settings
    from tutti.tasks.serving.gateway.command import journal_path as journal_path
    from tutti.tasks.serving.gateway.command import read_engines as read_engines
    from tutti.tasks.serving.gateway.command import serve as serve
    from tutti.tasks.serving.gateway.command import without_pandas as without_pandas
    from tutti.tasks.serving.gateway.endpoints.endpoint import Endpoint as Endpoint
    from tutti.tasks.serving.gateway.endpoints.endpoint import EndpointConfig as EndpointConfig
    from tutti.tasks.serving.gateway.endpoints.endpoint import ProbeFailed as ProbeFailed
    from tutti.tasks.serving.gateway.settings import GatewaySettings as GatewaySettings
    from tutti.tasks.serving.gateway.settings import OptionInfo as OptionInfo
    from tutti.tasks.serving.gateway.settings import flag_of as flag_of

if not TYPE_CHECKING:  # with it, a type checker would accept any name of this package
    __getattr__ = lazy(__name__, __file__)
