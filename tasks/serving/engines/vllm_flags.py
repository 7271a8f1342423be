"""vLLM's command.

On a GPU what an entry leaves out is vLLM's own choice. On the CPU it is what was measured there,
for two cores.
"""

import os
from collections.abc import Mapping
from typing import Any

from tutti.tasks.serving.engines.launch import Flags, Launch, ServerCommand, merged
from tutti.tasks.serving.engines.settings import BLOCK_TOKENS, EngineSettings
from tutti.tasks.serving.new_weights import ADAPTER_RANK, MOST_ADAPTERS

MODULE = "vllm.entrypoints.launchers.api_server.entry"
EVERYWHERE = {
    "HF_HUB_OFFLINE": "1",
    "VLLM_NO_USAGE_STATS": "1",
    "DO_NOT_TRACK": "1",
    "VLLM_LOGGING_LEVEL": "INFO",
    "VLLM_SERVER_DEV_MODE": "1",  # for resetting the cache; the engine listens on loopback only
    "PYTHONUNBUFFERED": "1",
}
CPU_CACHE_VARIABLE, CPU_CACHE_GIB = "VLLM_CPU_KVCACHE_SPACE", 1
"""Memory for the KV cache on the CPU, where the entry does not give blocks or tokens."""
ON_CPU = {
    CPU_CACHE_VARIABLE: str(CPU_CACHE_GIB),
    "OMP_WAIT_POLICY": "PASSIVE",  # idle threads leave the cores to tools and training
    # A core is left for the API server, the gateway and the agents.
    "OMP_NUM_THREADS": os.environ.get("OMP_NUM_THREADS", str(max(1, (os.cpu_count() or 1) - 1))),
    # With it, the executor below runs in the engine's own process. By default vLLM uses a worker
    # process on a CPU, and both spin on shared memory: that alone takes two cores, and other
    # processes on the call's path are delayed by half a second at a time (docs/log.md).
    "VLLM_ENABLE_V1_MULTIPROCESSING": "0",
}
ADAPTERS_AT_RUN_TIME = {"VLLM_ALLOW_RUNTIME_LORA_UPDATING": "True"}
EXECUTOR = "uni"
CPU_SEQUENCES, CPU_BATCHED_TOKENS = 32, 2048


def vllm_command(launch: Launch) -> ServerCommand:
    """The command that serves `launch`. Raises RegistryError for a flag that is given twice."""
    settings = launch.settings
    ours = {
        "model": launch.weights,
        "served-model-name": launch.name,
        "host": "127.0.0.1",
        "port": None,  # given at the start
        "api-key": None,
        "enable-prompt-tokens-details": True,
        "disable-uvicorn-access-log": True,
        "enable-auto-tool-choice": True if launch.parsers.tools else None,
    }
    common: dict[str, tuple[str, Any]] = {
        "max-model-len": ("context_tokens", launch.context_tokens),
        "tool-call-parser": ("tool_parser", launch.parsers.tools),
        "reasoning-parser": ("reasoning_parser", launch.parsers.reasoning),
        "chat-template": ("chat_template", settings.chat_template),
        "quantization": ("quantization", settings.quantization),
        "speculative-config": ("speculative", settings.speculative),
        "enable-sleep-mode": ("sleep", settings.sleep or None),
        "kv-offloading-size": ("kv_offload_gb", settings.kv_offload_gb),
        "enable-lora": ("lora", settings.lora or None),
    }
    on_cpu = launch.device == "cpu"
    sized = _cpu_sizes(launch) if on_cpu else _gpu_sizes(launch)
    defaults: dict[str, Any] = {"generation-config": "vllm", "enable-prefix-caching": True}
    defaults |= _lora(settings) | dict(_CPU_DEFAULTS if on_cpu else {})
    flags = Flags(ours, common | sized, defaults)
    environment = {
        **EVERYWHERE,
        **(ON_CPU if on_cpu else {}),
        **(ADAPTERS_AT_RUN_TIME if settings.lora else {}),
        **settings.environment,
    }
    return ServerCommand(("-m", MODULE), merged(launch, flags, "no-"), environment)


_CPU_DEFAULTS: Mapping[str, Any] = {
    "block-size": BLOCK_TOKENS,
    "distributed-executor-backend": EXECUTOR,
    "enforce-eager": True,
    # On the CPU vLLM dies of a prompt that is read in parts and has a seed: a generator of
    # random numbers there has no offset to set back.
    "enable-chunked-prefill": False,
}


def _cpu_sizes(launch: Launch) -> dict[str, tuple[str, Any]]:
    settings = launch.settings
    tokens = settings.cache_tokens
    batched = max(settings.max_batched_tokens or CPU_BATCHED_TOKENS, launch.context_tokens)
    return {
        "dtype": ("dtype", settings.dtype or "bfloat16"),
        "kv-cache-dtype": ("kv_cache_dtype", settings.kv_cache_dtype),
        "num-gpu-blocks-override": ("kv_tokens", tokens and tokens // BLOCK_TOKENS),
        "max-num-seqs": ("max_sequences", settings.max_sequences or CPU_SEQUENCES),
        "max-num-batched-tokens": ("max_batched_tokens", batched),
    }


def _gpu_sizes(launch: Launch) -> dict[str, tuple[str, Any]]:
    settings = launch.settings
    return {
        "dtype": ("dtype", settings.dtype),
        "kv-cache-dtype": ("kv_cache_dtype", settings.kv_cache_dtype),
        "gpu-memory-utilization": ("memory_share", settings.memory_share),
        "kv-cache-memory-bytes": ("kv_tokens", launch.kv_bytes),
        "max-num-seqs": ("max_sequences", settings.max_sequences),
        "max-num-batched-tokens": ("max_batched_tokens", settings.max_batched_tokens),
        "tensor-parallel-size": ("tensor_parallel", settings.tensor_size),
        "pipeline-parallel-size": ("pipeline_parallel", settings.pipeline_parallel),
    }


def _lora(settings: EngineSettings) -> dict[str, Any]:
    if not settings.lora:
        return {}
    # One slot more than adapters: in a mixed batch the last slot's adapter answers for the
    # base too, on the CPU.
    return {"max-lora-rank": ADAPTER_RANK, "max-loras": MOST_ADAPTERS + 1}
