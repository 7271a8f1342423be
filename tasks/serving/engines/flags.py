"""The commands of vLLM, SGLang and llama.cpp.

On a GPU an omitted setting is the server's own choice; vLLM on the CPU uses values measured there,
for two cores. The slots of llama.cpp share one cache, so that a call has the whole context. The
parsers of tool calls and reasoning are chosen by the model's family, from `parsers.yaml`.
"""

import json
import os
import re
import shutil
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

from tutti.tasks.platform import Strict, read_document
from tutti.tasks.serving.engines.control import ADAPTER_RANK, MOST_ADAPTERS
from tutti.tasks.serving.errors import ModelsEnvironmentMissing, RegistryError
from tutti.tasks.serving.registry.settings import BLOCK_TOKENS, Device, EngineSettings

TABLE = Path(__file__).with_name("parsers.yaml")
NO_PARSER = "none"
"""What an entry writes for a parser that must not be there."""


@dataclass(frozen=True)
class Parsers:
    """The parsers of one engine; None for none."""

    tools: str | None
    reasoning: str | None


class _Family(Strict):
    name: str | None = None
    """A pattern of models' names; a row has this or `type`."""
    type: str | None = None
    vllm: tuple[str | None, str | None]
    sglang: tuple[str | None, str | None]


class _Table(Strict):
    rows: tuple[_Family, ...]


@cache
def _families() -> tuple[_Family, ...]:
    return read_document(TABLE, RegistryError).check(_Table).rows


def parsers_of(settings: EngineSettings, name: str, config: Mapping[str, Any]) -> Parsers:
    """Return the parsers of an engine: those that its entry names, else those of the model's
    family. `name` is a hub id or a folder's name, which takes precedence over the `model_type` in
    its `config`. llama.cpp parses both by the chat template, and has no parser to choose."""
    if settings.server == "llama.cpp":
        return Parsers(None, None)
    plain = re.sub(r"[._]", "-", name.rsplit("/", 1)[-1].lower())
    by_name = [row for row in _families() if row.name and re.search(row.name, plain)]
    by_type = [row for row in _families() if row.type and row.type == config.get("model_type")]
    usual = getattr((by_name + by_type)[0], settings.server) if by_name or by_type else (None, None)
    chosen = (settings.tool_parser or usual[0], settings.reasoning_parser or usual[1])
    return Parsers(*(None if parser == NO_PARSER else parser for parser in chosen))


@dataclass(frozen=True)
class Launch:
    """Everything that determines a server's command, except its port."""

    name: str
    """Its entry's name, which it serves the model as."""
    weights: Path
    """A folder, or a GGUF file."""
    context_tokens: int
    settings: EngineSettings
    device: Device
    parsers: Parsers
    kv_bytes: int | None = None
    """The KV cache's size on each GPU, where the entry gives it in tokens."""
    weights_bytes: int = 0
    config: Mapping[str, Any] = field(default_factory=dict)

    @property
    def max_context(self) -> int | None:
        """The model's context in tokens, if its config.json states it."""
        config = self.config.get("text_config", self.config)
        limit = config.get("max_position_embeddings")
        return limit if isinstance(limit, int) else None


@dataclass(frozen=True)
class ServerCommand:
    """A server's command, to run with the models environment's Python or as a program."""

    program: tuple[str, ...]
    """``-m module`` for Python, or the path of a binary."""
    arguments: tuple[str, ...]
    environment: Mapping[str, str]
    by_python: bool = True


Values = Mapping[str, Any]
"""Values of flags (or settings) by name: text or a number, a list for several values, True for a
switch, a dictionary for JSON. None and, where the server has no form of it, False leave it out."""

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
# A core is left for the API server, the gateway and the agents.
THREADS = max(1, (os.cpu_count() or 1) - 1)
ON_CPU = {
    CPU_CACHE_VARIABLE: str(CPU_CACHE_GIB),
    "OMP_WAIT_POLICY": "PASSIVE",  # idle threads leave the cores to tools and training
    "OMP_NUM_THREADS": os.environ.get("OMP_NUM_THREADS", str(THREADS)),
    # With it, the executor below runs in the engine's own process. By default vLLM uses a worker
    # process on a CPU, and both spin on shared memory: that alone takes two cores, and other
    # processes on the call's path are delayed by half a second at a time (docs/log.md).
    "VLLM_ENABLE_V1_MULTIPROCESSING": "0",
}
EXECUTOR = "uni"
CPU_SEQUENCES, CPU_BATCHED_TOKENS = 32, 2048
CPU_DEFAULTS: Values = {
    "block-size": BLOCK_TOKENS,
    "distributed-executor-backend": EXECUTOR,
    "enforce-eager": True,
    # On the CPU vLLM dies of a prompt that is read in parts and has a seed: a generator of
    # random numbers there has no offset to set back.
    "enable-chunked-prefill": False,
}
VLLM = {
    "context_tokens": "max-model-len",
    "tool_parser": "tool-call-parser",
    "reasoning_parser": "reasoning-parser",
    "chat_template": "chat-template",
    "quantization": "quantization",
    "speculative": "speculative-config",
    "sleep": "enable-sleep-mode",
    "kv_offload_gb": "kv-offloading-size",
    "lora": "enable-lora",
    "dtype": "dtype",
    "kv_cache_dtype": "kv-cache-dtype",
    "max_sequences": "max-num-seqs",
    "max_batched_tokens": "max-num-batched-tokens",
}
"""Settings of an entry, each with its flag; here of vLLM on any device."""
VLLM_ON_CPU = VLLM | {"kv_tokens": "num-gpu-blocks-override"}
VLLM_ON_GPU = VLLM | {
    "memory_share": "gpu-memory-utilization",
    "kv_tokens": "kv-cache-memory-bytes",
    "tensor_parallel": "tensor-parallel-size",
    "pipeline_parallel": "pipeline-parallel-size",
}


def vllm_command(launch: Launch) -> ServerCommand:
    """The command that serves `launch`. Raises RegistryError for a flag that is given twice."""
    settings, on_cpu = launch.settings, launch.device == "cpu"
    ours = _address(launch, "model", "served-model-name") | {
        "enable-prompt-tokens-details": True,
        "disable-uvicorn-access-log": True,
        "enable-auto-tool-choice": True if launch.parsers.tools else None,
    }
    values = _values(launch) | {"kv_tokens": launch.kv_bytes}
    defaults: dict[str, Any] = {"generation-config": "vllm", "enable-prefix-caching": True}
    if settings.lora:
        # One slot more than adapters: in a mixed batch the last slot's adapter answers for the
        # base too, on the CPU.
        defaults |= {"max-lora-rank": ADAPTER_RANK, "max-loras": MOST_ADAPTERS + 1}
    if on_cpu:
        tokens = settings.cache_tokens
        batched = max(settings.max_batched_tokens or CPU_BATCHED_TOKENS, launch.context_tokens)
        values |= {
            "dtype": settings.dtype or "bfloat16",
            "kv_tokens": tokens and tokens // BLOCK_TOKENS,
            "max_sequences": settings.max_sequences or CPU_SEQUENCES,
            "max_batched_tokens": batched,
        }
        defaults |= CPU_DEFAULTS
    flags = VLLM_ON_CPU if on_cpu else VLLM_ON_GPU
    environment = {
        **EVERYWHERE,
        **(ON_CPU if on_cpu else {}),
        **({"VLLM_ALLOW_RUNTIME_LORA_UPDATING": "True"} if settings.lora else {}),
        **settings.environment,
    }
    arguments = _arguments(launch, ours, _given(flags, values), defaults, "no-")
    return ServerCommand(("-m", VLLM_MODULE), arguments, environment)


SGLANG_MODULE = "sglang.launch_server"
SGLANG = {
    "device": "device",
    "context_tokens": "context-length",
    "tensor_parallel": "tp-size",
    "pipeline_parallel": "pp-size",
    "dtype": "dtype",
    "quantization": "quantization",
    "kv_cache_dtype": "kv-cache-dtype",
    "memory_share": "mem-fraction-static",
    "kv_tokens": "max-total-tokens",
    "max_sequences": "max-running-requests",
    "max_batched_tokens": "chunked-prefill-size",
    "tool_parser": "tool-call-parser",
    "reasoning_parser": "reasoning-parser",
    "chat_template": "chat-template",
    "kv_offload_gb": "hicache-size",
    "sleep": "enable-memory-saver",
    "lora": "enable-lora",
}


def sglang_command(launch: Launch) -> ServerCommand:
    """The command that serves `launch`. Raises RegistryError for a flag that is given twice."""
    settings, offload_gb = launch.settings, launch.settings.kv_offload_gb
    ours = _address(launch, "model-path", "served-model-name") | {
        "enable-metrics": True,
        "enable-cache-report": True,
        "enable-hierarchical-cache": True if offload_gb else None,
    }
    values = _values(launch) | {
        "device": "cpu" if launch.device == "cpu" else "cuda",
        # It takes whole GB for each rank.
        "kv_offload_gb": None if offload_gb is None else max(1, round(offload_gb)),
    }
    given = _given(SGLANG, values)
    for name, value in (settings.speculative or {}).items():
        given[f"speculative-{name}".replace("_", "-")] = ("speculative", value)
    defaults: Values = {}
    if settings.lora:
        defaults = {"max-lora-rank": ADAPTER_RANK, "max-loras-per-batch": MOST_ADAPTERS + 1}
    environment = {"HF_HUB_OFFLINE": "1", "PYTHONUNBUFFERED": "1", "DO_NOT_TRACK": "1"}
    return ServerCommand(
        ("-m", SGLANG_MODULE),
        _arguments(launch, ours, given, defaults, None),
        environment | settings.environment,
    )


VARIABLE = "TUTTI_LLAMA_SERVER"
BINARY = "llama-server"
SLOTS = 8
ALL_LAYERS = 999
LACKING = (
    *("dtype", "quantization", "memory_share", "tool_parser", "reasoning_parser", "speculative"),
    *("kv_offload_gb", "lora", "sleep"),
)
ALIASES = ("m", "c", "np", "ngl", "b", "ctk", "ctv", "a")
"""Its short names of flags that tutti gives; `args` takes long names."""


def llama_server(python: Path) -> Path:
    """The binary: TUTTI_LLAMA_SERVER, or beside the models environment's Python, or on the PATH.
    Raises ModelsEnvironmentMissing with what to do."""
    beside = python.parent / BINARY
    named = os.environ.get(VARIABLE) or (str(beside) if beside.is_file() else shutil.which(BINARY))
    if not named or not Path(named).is_file():
        raise ModelsEnvironmentMissing(
            f"no {BINARY} {f'at {named}' if named else 'on the PATH'}; install llama.cpp, or set "
            f"{VARIABLE} to its server"
        )
    return Path(named)


def llama_command(launch: Launch, server: Path) -> ServerCommand:
    """The command that serves `launch`. Raises RegistryError for a flag that is given twice, and
    for a setting that llama.cpp does not have."""
    settings, entry = launch.settings, f"models.{launch.name}.engine"
    if lacking := [name for name in LACKING if getattr(settings, name) not in (None, False)]:
        raise RegistryError(
            f"{entry}.{lacking[0]}: llama.cpp's server has no such setting; remove it"
        )
    if short := sorted(settings.args.keys() & ALIASES):
        raise RegistryError(f"{entry}.args.{short[0]}: write the flag's long name")
    slots, on_cpu = settings.max_sequences or SLOTS, launch.device == "cpu"
    cache = max(settings.cache_tokens or launch.context_tokens * slots, launch.context_tokens)
    ours = _address(launch, "model", "alias") | {
        "kv-unified": True,
        "slot-save-path": tempfile.gettempdir(),  # without it, no slot can be emptied
        "metrics": True,
        "jinja": True,
    }
    given: dict[str, tuple[str, Any]] = {
        "ctx-size": ("kv_tokens", cache),
        "parallel": ("max_sequences", slots),
        "batch-size": ("max_batched_tokens", settings.max_batched_tokens),
        "cache-type-k": ("kv_cache_dtype", settings.kv_cache_dtype),
        "cache-type-v": ("kv_cache_dtype", settings.kv_cache_dtype),
        "chat-template-file": ("chat_template", settings.chat_template),
        "n-gpu-layers": ("device", 0 if on_cpu else ALL_LAYERS),
    }
    if on_cpu:
        given["threads"] = ("device", THREADS)
    arguments = _arguments(launch, ours, given, {"no-webui": True}, None)
    return ServerCommand((str(server),), arguments, dict(settings.environment), by_python=False)


def _address(launch: Launch, model: str, name: str) -> dict[str, Any]:
    """Return the flags that tutti sets itself; the port is set at the start."""
    ours = {model: launch.weights, name: launch.name, "host": "127.0.0.1"}
    return {**ours, "port": None, "api-key": None}


def _values(launch: Launch) -> dict[str, Any]:
    """Return the values of an entry's settings by name; None for omitted ones."""
    settings = launch.settings
    return {name: getattr(settings, name) or None for name in type(settings).model_fields} | {
        "context_tokens": launch.context_tokens,
        "tool_parser": launch.parsers.tools,
        "reasoning_parser": launch.parsers.reasoning,
        "tensor_parallel": settings.tensor_size,
        "kv_tokens": settings.cache_tokens,
    }


def _given(flags: Mapping[str, str], values: Values) -> dict[str, tuple[str, Any]]:
    return {flag: (setting, values[setting]) for setting, flag in flags.items()}


def _arguments(
    launch: Launch,
    ours: Values,
    given: Mapping[str, tuple[str, Any]],
    defaults: Values,
    negation: str | None,
) -> tuple[str, ...]:
    """Return the flags as arguments, each once.

    `ours`: tutti's own; `given`: by flag, the setting that sets it, and its value; `defaults`:
    those that the entry's `args` override. `negation`: the prefix of a switch that is off
    (``no-``); None if the server has none. Raises RegistryError that names the field for a flag in
    `args` that is set elsewhere.
    """
    where, args = f"models.{launch.name}.engine.args", launch.settings.args
    values = {**ours, **{name: value for name, (_, value) in given.items()}}
    for name, value in args.items():
        plain = name.removeprefix("no-")
        if plain in ours:
            raise RegistryError(f"{where}.{name}: tutti sets --{plain} itself; remove it")
        if plain in given:
            raise RegistryError(f"{where}.{name}: give it as `engine.{given[plain][0]}`, not here")
        if value is False and negation is None:
            raise RegistryError(f"{where}.{name}: this server has no form of it that is off")
        if name != plain and plain in args:
            raise RegistryError(f"{where}: {name} and {plain} contradict each other")
        values[name] = value
    plain_names = {name.removeprefix("no-") for name in args}
    values |= {name: value for name, value in defaults.items() if name not in plain_names}
    return tuple(word for name, value in values.items() for word in _words(name, value, negation))


def _words(name: str, value: Any, negation: str | None) -> list[str]:
    if value is None or (value is False and negation is None):
        return []
    if isinstance(value, bool):
        return [f"--{name}" if value else f"--{negation}{name}"]
    if isinstance(value, Mapping):
        return [f"--{name}", json.dumps(value, sort_keys=True)]
    if isinstance(value, list | tuple):
        return [f"--{name}", *map(str, value)]
    return [f"--{name}", str(value)]
