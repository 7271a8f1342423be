"""Whether an engine's weights and cache have room on the GPUs of this machine.

In: a launch and the inventory. Out: the arithmetic of `weights.Fit`, with this machine's smallest
card. Nothing for an engine on the CPU, for llama.cpp, which puts layers where there is
room, and where no card's memory is known.
"""

from collections.abc import Iterable, Mapping
from typing import Any

from tutti.tasks.gpus import Inventory
from tutti.tasks.serving.engines.launch import Launch
from tutti.tasks.serving.engines.settings import EngineSettings
from tutti.tasks.serving.errors import RegistryError
from tutti.tasks.serving.weights import Fit, kv_need
from tutti.tasks.serving.weights.fit import MEMORY_SHARE

MIB = 1 << 20


def kv_bytes_of(settings: EngineSettings, config: Mapping[str, Any]) -> int | None:
    """The bytes on each GPU of the KV cache that an entry gives in tokens; None where it does not.

    Raises WeightsError where config.json lacks what the arithmetic needs.
    """
    if settings.cache_tokens is None:
        return None
    across = (settings.tensor_size, settings.pipeline_parallel)
    need = kv_need(config, *across, settings.kv_cache_dtype or "auto")
    return need.sequence_bytes(settings.cache_tokens)


def fit_of(launch: Launch, inventory: Inventory) -> Fit | None:
    """What the engine takes of each GPU, beside this machine's smallest. Raises WeightsError."""
    memories = [gpu.memory_mb for gpu in inventory.here if gpu.memory_mb is not None]
    if launch.device == "cpu" or launch.settings.server == "llama.cpp" or not memories:
        return None
    settings = launch.settings
    return Fit(
        launch.weights_bytes,
        launch.config,
        gpu_memory_bytes=min(memories) * MIB,
        context_tokens=launch.context_tokens,
        tensor_parallel=settings.tensor_size,
        pipeline_parallel=settings.pipeline_parallel,
        kv_cache_dtype=settings.kv_cache_dtype or "auto",
        memory_share=MEMORY_SHARE if settings.memory_share is None else settings.memory_share,
        kv_tokens=settings.cache_tokens,
    )


def refuse_what_does_not_fit(launches: Iterable[Launch], inventory: Inventory) -> dict[str, Fit]:
    """The fit of each launch by its name, where it can be told. Raises RegistryError with the
    arithmetic of every one that does not fit."""
    fits = {each.name: fit for each in launches if (fit := fit_of(each, inventory)) is not None}
    if wrong := {name: fit for name, fit in fits.items() if not fit.fits}:
        raise RegistryError("\n".join(f"models.{name}: {fit.text}" for name, fit in wrong.items()))
    return fits
