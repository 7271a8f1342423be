"""Serving: the model registry, engines, the gateway, and the processes they run in."""

from typing import TYPE_CHECKING

from tutti.face import lazy

if TYPE_CHECKING:
    from tutti.tasks.serving.addresses import FirstAnswer as FirstAnswer
    from tutti.tasks.serving.addresses import announce_served as announce_served
    from tutti.tasks.serving.addresses import call_once as call_once
    from tutti.tasks.serving.addresses import served_page as served_page
    from tutti.tasks.serving.addresses import show_engines as show_engines
    from tutti.tasks.serving.control import asleep as asleep
    from tutti.tasks.serving.control import load_adapter as load_adapter
    from tutti.tasks.serving.control import swap_weights as swap_weights
    from tutti.tasks.serving.discovery import CONTEXT_TOKENS as CONTEXT_TOKENS
    from tutti.tasks.serving.discovery import DiscoveredEntry as DiscoveredEntry
    from tutti.tasks.serving.discovery import EndpointRequest as EndpointRequest
    from tutti.tasks.serving.discovery import ask_for_models as ask_for_models
    from tutti.tasks.serving.discovery import discover as discover
    from tutti.tasks.serving.discovery import is_url as is_url
    from tutti.tasks.serving.discovery import not_listed as not_listed
    from tutti.tasks.serving.discovery import short_name as short_name
    from tutti.tasks.serving.duration import EngineUse as EngineUse
    from tutti.tasks.serving.duration import serve_for as serve_for
    from tutti.tasks.serving.engine import Engine as Engine
    from tutti.tasks.serving.engine import EngineAddress as EngineAddress
    from tutti.tasks.serving.engine import ExternalEndpoint as ExternalEndpoint
    from tutti.tasks.serving.engine import check_engines as check_engines
    from tutti.tasks.serving.engine import engine_line as engine_line
    from tutti.tasks.serving.engine import engine_lines as engine_lines
    from tutti.tasks.serving.engine import engine_of as engine_of
    from tutti.tasks.serving.engine import models_python as models_python
    from tutti.tasks.serving.engine import place_engines as place_engines
    from tutti.tasks.serving.engine import require_engines as require_engines
    from tutti.tasks.serving.engines import CacheRecord as CacheRecord
    from tutti.tasks.serving.engines import CacheSize as CacheSize
    from tutti.tasks.serving.engines import keep_cache as keep_cache
    from tutti.tasks.serving.engines import known_cache as known_cache
    from tutti.tasks.serving.engines import needs_check as needs_check
    from tutti.tasks.serving.errors import EndpointFailed as EndpointFailed
    from tutti.tasks.serving.errors import EngineFailed as EngineFailed
    from tutti.tasks.serving.errors import GatewayFailed as GatewayFailed
    from tutti.tasks.serving.errors import ModelsEnvironmentMissing as ModelsEnvironmentMissing
    from tutti.tasks.serving.errors import PortTaken as PortTaken
    from tutti.tasks.serving.errors import PriceError as PriceError
    from tutti.tasks.serving.errors import RegistryError as RegistryError
    from tutti.tasks.serving.errors import ServingError as ServingError
    from tutti.tasks.serving.errors import WeightsError as WeightsError
    from tutti.tasks.serving.process import TOKEN as TOKEN
    from tutti.tasks.serving.process import Child as Child
    from tutti.tasks.serving.process import answers as answers
    from tutti.tasks.serving.process import claim_port as claim_port
    from tutti.tasks.serving.process import end_marked as end_marked
    from tutti.tasks.serving.process import reap_stale as reap_stale
    from tutti.tasks.serving.registry import Dialect as Dialect
    from tutti.tasks.serving.registry import Model as Model
    from tutti.tasks.serving.registry import checkpoint_id as checkpoint_id
    from tutti.tasks.serving.registry import hub_weights_here as hub_weights_here
    from tutti.tasks.serving.registry import is_hub_name as is_hub_name
    from tutti.tasks.serving.registry import pick_model as pick_model
    from tutti.tasks.serving.registry import pick_models as pick_models
    from tutti.tasks.serving.registry import read_registry as read_registry
    from tutti.tasks.serving.registry import require_trainable as require_trainable
    from tutti.tasks.serving.registry import require_weights as require_weights
    from tutti.tasks.serving.registry import weights_folder as weights_folder
    from tutti.tasks.serving.registry import weights_here as weights_here
    from tutti.tasks.serving.registry import weights_id as weights_id
    from tutti.tasks.serving.services import GatewayClient as GatewayClient
    from tutti.tasks.serving.services import open_gateway as open_gateway
    from tutti.tasks.serving.services import retrieval_service as retrieval_service
    from tutti.tasks.serving.weights import resolve_hub as resolve_hub
    from tutti.tasks.serving.weights.tensor_files import parameters_in as parameters_in
    from tutti.tasks.serving.weights.tensor_files import read_json as read_json
    from tutti.tasks.serving.weights.tensor_files import read_tensors as read_tensors
    from tutti.tasks.serving.wire.client import Answer as Answer
    from tutti.tasks.serving.wire.client import AnswerReceiver as AnswerReceiver
    from tutti.tasks.serving.wire.client import NoAnswer as NoAnswer
    from tutti.tasks.serving.wire.client import Origin as Origin
    from tutti.tasks.serving.wire.client import ask as ask
    from tutti.tasks.serving.wire.messages import Headers as Headers
    from tutti.tasks.serving.wire.server import stop_on_signals as stop_on_signals

if not TYPE_CHECKING:  # with it, a type checker would accept any name of this package
    __getattr__ = lazy(__name__, __file__)
