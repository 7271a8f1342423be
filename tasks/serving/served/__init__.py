"""Serving of models: the gateway and its client, search, and how long they run."""

from typing import TYPE_CHECKING

from tutti.face import lazy

if TYPE_CHECKING:
    from tutti.tasks.serving.served.discovery import CONTEXT_TOKENS as CONTEXT_TOKENS
    from tutti.tasks.serving.served.discovery import EndpointRequest as EndpointRequest
    from tutti.tasks.serving.served.discovery import ask_for_models as ask_for_models
    from tutti.tasks.serving.served.discovery import discover as discover
    from tutti.tasks.serving.served.discovery import is_url as is_url
    from tutti.tasks.serving.served.discovery import not_listed as not_listed
    from tutti.tasks.serving.served.discovery import short_name as short_name
    from tutti.tasks.serving.served.services import EngineUse as EngineUse
    from tutti.tasks.serving.served.services import FirstAnswer as FirstAnswer
    from tutti.tasks.serving.served.services import GatewayClient as GatewayClient
    from tutti.tasks.serving.served.services import announce_served as announce_served
    from tutti.tasks.serving.served.services import call_once as call_once
    from tutti.tasks.serving.served.services import open_gateway as open_gateway
    from tutti.tasks.serving.served.services import retrieval_service as retrieval_service
    from tutti.tasks.serving.served.services import serve_for as serve_for
    from tutti.tasks.serving.served.services import served_page as served_page
    from tutti.tasks.serving.served.services import show_engines as show_engines

if not TYPE_CHECKING:  # with it, a type checker would accept any name of this package
    __getattr__ = lazy(__name__, __file__)
