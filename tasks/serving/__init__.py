"""Serving: the model registry, engines, the gateway, and the processes they run in."""

from tutti.tasks.serving.engine import Engine, EngineAddress, models_python
from tutti.tasks.serving.errors import (
    EngineFailed,
    GatewayFailed,
    ModelsEnvironmentMissing,
    PortTaken,
    RegistryError,
    ServingError,
)
from tutti.tasks.serving.outside import Outside, engine_of
from tutti.tasks.serving.process import Child, claim_port, reap_stale
from tutti.tasks.serving.registry import (
    Model,
    checkpoint_id,
    pick_model,
    pick_models,
    read_registry,
)
from tutti.tasks.serving.services import GatewayClient, open_gateway, retrieval_service
from tutti.tasks.serving.wire.client import Origin
from tutti.tasks.serving.wire.messages import Headers
from tutti.tasks.serving.wire.whole import Answer, NoAnswer, Whole, ask

__all__ = [
    "Answer",
    "Child",
    "Engine",
    "EngineAddress",
    "EngineFailed",
    "GatewayClient",
    "GatewayFailed",
    "Headers",
    "Model",
    "ModelsEnvironmentMissing",
    "NoAnswer",
    "Origin",
    "Outside",
    "PortTaken",
    "RegistryError",
    "ServingError",
    "Whole",
    "ask",
    "checkpoint_id",
    "claim_port",
    "engine_of",
    "models_python",
    "open_gateway",
    "pick_model",
    "pick_models",
    "read_registry",
    "reap_stale",
    "retrieval_service",
]
