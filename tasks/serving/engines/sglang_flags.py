"""SGLang's command. What an entry leaves out is SGLang's own choice."""

from typing import Any

from tutti.tasks.serving.engines.launch import Flags, Launch, ServerCommand, merged
from tutti.tasks.serving.new_weights import ADAPTER_RANK, MOST_ADAPTERS

MODULE = "sglang.launch_server"
ENVIRONMENT = {"HF_HUB_OFFLINE": "1", "PYTHONUNBUFFERED": "1", "DO_NOT_TRACK": "1"}


def sglang_command(launch: Launch) -> ServerCommand:
    """The command that serves `launch`. Raises RegistryError for a flag that is given twice."""
    settings = launch.settings
    ours: dict[str, Any] = {
        "model-path": launch.weights,
        "served-model-name": launch.name,
        "host": "127.0.0.1",
        "port": None,  # given at the start
        "api-key": None,
        "enable-metrics": True,
        "enable-cache-report": True,
        "enable-hierarchical-cache": True if settings.kv_offload_gb else None,
    }
    given: dict[str, tuple[str, Any]] = {
        "device": ("device", "cpu" if launch.device == "cpu" else "cuda"),
        "context-length": ("context_tokens", launch.context_tokens),
        "tp-size": ("tensor_parallel", settings.tensor_size),
        "pp-size": ("pipeline_parallel", settings.pipeline_parallel),
        "dtype": ("dtype", settings.dtype),
        "quantization": ("quantization", settings.quantization),
        "kv-cache-dtype": ("kv_cache_dtype", settings.kv_cache_dtype),
        "mem-fraction-static": ("memory_share", settings.memory_share),
        "max-total-tokens": ("kv_tokens", settings.cache_tokens),
        "max-running-requests": ("max_sequences", settings.max_sequences),
        "chunked-prefill-size": ("max_batched_tokens", settings.max_batched_tokens),
        "tool-call-parser": ("tool_parser", launch.parsers.tools),
        "reasoning-parser": ("reasoning_parser", launch.parsers.reasoning),
        "chat-template": ("chat_template", settings.chat_template),
        "hicache-size": ("kv_offload_gb", _whole_gb(settings.kv_offload_gb)),
        "enable-memory-saver": ("sleep", settings.sleep or None),
        "enable-lora": ("lora", settings.lora or None),
    }
    defaults: dict[str, Any] = {}
    if settings.lora:
        defaults = {"max-lora-rank": ADAPTER_RANK, "max-loras-per-batch": MOST_ADAPTERS + 1}
    spoken = {f"speculative-{name}": value for name, value in (settings.speculative or {}).items()}
    given |= {name.replace("_", "-"): ("speculative", value) for name, value in spoken.items()}
    words = merged(launch, Flags(ours, given, defaults), None)
    return ServerCommand(("-m", MODULE), words, {**ENVIRONMENT, **settings.environment})


def _whole_gb(size: float | None) -> int | None:
    """SGLang takes whole GB for each rank."""
    return None if size is None else max(1, round(size))
