"""llama.cpp's command: its own server, a binary, with a GGUF file.

Its context is divided by its slots unless they share one cache, so they do: an entry's
`context_tokens` is what one call has.
"""

import os
import shutil
import tempfile
from pathlib import Path
from typing import Any

from tutti.tasks.serving.engines.launch import Flags, Launch, ServerCommand, merged
from tutti.tasks.serving.errors import ModelsEnvironmentMissing, RegistryError

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
