"""The commands of vLLM, SGLang and llama.cpp.

On a GPU what an entry leaves out is the server's own choice; vLLM on the CPU has what was measured
there, for two cores. llama.cpp divides its context by its slots unless they share one cache, so
they do: an entry's `context_tokens` is what one call has.
"""

import os
import shutil
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tutti.tasks.serving.engines.control import ADAPTER_RANK, MOST_ADAPTERS
from tutti.tasks.serving.engines.launch import Flags, Launch, ServerCommand, merged
from tutti.tasks.serving.errors import ModelsEnvironmentMissing, RegistryError
from tutti.tasks.serving.registry.settings import BLOCK_TOKENS, EngineSettings

VLLM_MODULE = "vllm.entrypoints.launchers.api_server.entry"
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
    return ServerCommand(("-m", VLLM_MODULE), merged(launch, flags, "no-"), environment)


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


SGLANG_MODULE = "sglang.launch_server"
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
    return ServerCommand(("-m", SGLANG_MODULE), words, {**ENVIRONMENT, **settings.environment})


def _whole_gb(size: float | None) -> int | None:
    """SGLang takes whole GB for each rank."""
    return None if size is None else max(1, round(size))


VARIABLE = "TUTTI_LLAMA_SERVER"
BINARY = "llama-server"
SLOTS = 8
ALL_LAYERS = 999
ALIASES = ("m", "c", "np", "ngl", "b", "ctk", "ctv", "a")
"""Its short names of flags that tutti gives; `args` takes long names."""


def llama_server(python: Path) -> Path:
    """The binary: TUTTI_LLAMA_SERVER, or beside the models environment's Python, or on the PATH.

    Raises ModelsEnvironmentMissing with what to do.
    """
    beside = python.parent / BINARY
    named = os.environ.get(VARIABLE)
    found = Path(named) if named else beside if beside.is_file() else shutil.which(BINARY)
    if found is None or not Path(found).is_file():
        raise ModelsEnvironmentMissing(
            f"no {BINARY} {f'at {named}' if named else 'on the PATH'}; install llama.cpp, or set "
            f"{VARIABLE} to its server"
        )
    return Path(found)


def llama_command(launch: Launch, server: Path) -> ServerCommand:
    """The command that serves `launch`. Raises RegistryError for a flag that is given twice, and
    for a setting that llama.cpp does not have."""
    settings = launch.settings
    _refuse_what_it_lacks(launch)
    cache = max(settings.cache_tokens or 0, launch.context_tokens)
    if settings.cache_tokens is None:
        cache = launch.context_tokens * (settings.max_sequences or SLOTS)
    ours: dict[str, Any] = {
        "model": launch.weights,
        "alias": launch.name,
        "host": "127.0.0.1",
        "port": None,  # given at the start
        "api-key": None,
        "kv-unified": True,
        "slot-save-path": tempfile.gettempdir(),  # without it, no slot can be emptied
        "metrics": True,
        "jinja": True,
    }
    given: dict[str, tuple[str, Any]] = {
        "ctx-size": ("kv_tokens", cache),
        "parallel": ("max_sequences", settings.max_sequences or SLOTS),
        "batch-size": ("max_batched_tokens", settings.max_batched_tokens),
        "cache-type-k": ("kv_cache_dtype", settings.kv_cache_dtype),
        "cache-type-v": ("kv_cache_dtype", settings.kv_cache_dtype),
        "chat-template-file": ("chat_template", settings.chat_template),
        "n-gpu-layers": ("device", 0 if launch.device == "cpu" else ALL_LAYERS),
    }
    if launch.device == "cpu":
        # One core is left for the gateway and the agents.
        given["threads"] = ("device", max(1, (os.cpu_count() or 1) - 1))
    words = merged(launch, Flags(ours, given, {"no-webui": True}), None)
    return ServerCommand((str(server),), words, dict(settings.environment), by_python=False)


def _refuse_what_it_lacks(launch: Launch) -> None:
    settings = launch.settings
    lacking = {
        "dtype": settings.dtype,
        "quantization": settings.quantization,
        "memory_share": settings.memory_share,
        "tool_parser": settings.tool_parser,
        "reasoning_parser": settings.reasoning_parser,
        "speculative": settings.speculative,
        "kv_offload_gb": settings.kv_offload_gb,
        "lora": settings.lora or None,
        "sleep": settings.sleep or None,
    }
    for name, value in lacking.items():
        if value is not None:
            where = f"models.{launch.name}.engine.{name}"
            raise RegistryError(f"{where}: llama.cpp's server has no such setting; remove it")
    for name in settings.args:
        if name in ALIASES:
            raise RegistryError(
                f"models.{launch.name}.engine.args.{name}: write the flag's long name"
            )
