"""Whether engines' weights and caches fit on this machine's GPUs, and the size of each cache.

In: launches and the inventory. Out: the arithmetic of `weights.Fit` with this machine's smallest
GPU; nothing for the CPU and for llama.cpp, which distributes layers itself. `place` assigns GPUs to
engines that run at the same time. A `CacheSize` is estimated before the start and reported by the
running engine; both are stored in the detail of the engine's artifact.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from typing import Any

import sqlalchemy as sa

from tutti.storage import Catalog, this_host
from tutti.storage import catalog as cat
from tutti.tasks.platform.gpus import Gpu, GpuClaim, Inventory, NoSuchGpu, candidates
from tutti.tasks.serving.engines.control import fetch
from tutti.tasks.serving.engines.flags import CPU_CACHE_GIB, CPU_CACHE_VARIABLE, Launch
from tutti.tasks.serving.errors import EngineFailed, RegistryError, WeightsError
from tutti.tasks.serving.metering.metrics import engine_sample, read_page
from tutti.tasks.serving.registry.settings import BLOCK_TOKENS, EngineSettings
from tutti.tasks.serving.weights import Fit, kv_need
from tutti.tasks.serving.weights.fit import BLOCK_TOKENS as GPU_BLOCK_TOKENS
from tutti.tasks.serving.weights.fit import MEMORY_SHARE

MIB = 1 << 20


def kv_bytes_of(settings: EngineSettings, config: Mapping[str, Any]) -> int | None:
    """Return the bytes per GPU of the KV cache that an entry gives in tokens; None if it does not.
    Raises WeightsError if config.json lacks what the arithmetic needs."""
    if settings.cache_tokens is None:
        return None
    across = (settings.tensor_size, settings.pipeline_parallel)
    need = kv_need(config, *across, settings.kv_cache_dtype or "auto")
    return need.sequence_blocks(settings.cache_tokens) * need.block_bytes


def fit_of(launch: Launch, inventory: Inventory) -> Fit | None:
    """Return the engine's memory on each GPU against this machine's smallest; None if that cannot
    be computed, also because of a missing field in config.json."""
    settings = launch.settings
    memories = [gpu.memory_mb for gpu in inventory.here if gpu.memory_mb is not None]
    if launch.device == "cpu" or settings.server == "llama.cpp" or not memories:
        return None
    fit = Fit(
        launch.weights_bytes,
        launch.config,
        gpu_memory_bytes=min(memories) * MIB,
        context_tokens=launch.context_tokens,
        tensor_parallel=settings.tensor_size,
        pipeline_parallel=settings.pipeline_parallel,
        kv_cache_dtype=settings.kv_cache_dtype or "auto",
        memory_share=settings.memory_share or MEMORY_SHARE,
        kv_tokens=settings.cache_tokens,
    )
    try:
        return fit if fit.need else None
    except WeightsError:  # it may run all the same
        return None


def refuse_what_does_not_fit(launches: Iterable[Launch], inventory: Inventory) -> dict[str, Fit]:
    """Return the fit of each launch by name, if known. Raises RegistryError with the arithmetic of
    every one that does not fit."""
    fits = {each.name: fit for each in launches if (fit := fit_of(each, inventory)) is not None}
    if wrong := {name: fit for name, fit in fits.items() if not fit.fits}:
        raise RegistryError("\n".join(f"models.{name}: {fit.text}" for name, fit in wrong.items()))
    return fits


KEPT_AS = "cache"
REMARKABLE = 0.1
"""Of the estimate. What the engine's own work takes of a GPU is known only once it runs; a larger
difference has another reason, such as a foreign process or a wrong estimate."""
SIZING_FLAGS = frozenset(
    ("block-size", "num-gpu-blocks-override", "kv-cache-memory-bytes", "gpu-memory-utilization")
)
"""Of vLLM: an entry that gives one in `args` sizes the cache itself."""


@dataclass(frozen=True)
class CacheSize:
    """An engine's KV cache."""

    tokens: int
    """In sequences of the whole context."""
    context_tokens: int | None
    blocks: int | None = None
    block_tokens: int | None = None


@dataclass(frozen=True)
class CacheRecord:
    """The known sizes of an engine's cache."""

    estimated: CacheSize | None = None
    reported: CacheSize | None = None

    @property
    def remark(self) -> str:
        """Return a remark on a large difference; empty if there is none."""
        if self.estimated is None or self.reported is None or not self.estimated.tokens:
            return ""
        difference = self.reported.tokens / self.estimated.tokens - 1
        if abs(difference) <= REMARKABLE:
            return ""
        return f"{abs(difference):.0%} {'less' if difference < 0 else 'more'} than estimated"

    @property
    def text(self) -> str:
        """Return the sizes as text; empty if nothing is known."""
        parts = [] if self.estimated is None else [f"estimated {self.estimated.tokens:,} tokens"]
        if self.reported is not None:
            parts.append(f"engine reported {self.reported.tokens:,}{' tokens' * (not parts)}")
        parts += [self.remark] * bool(self.remark)
        return f"KV cache: {', '.join(parts)}" if parts else ""


def estimated_cache(launch: Launch, inventory: Inventory) -> CacheSize | None:
    """Return the estimated cache of the engine on this machine; None if that is unknown before it
    runs, also because of a missing field in config.json."""
    settings, context = launch.settings, launch.context_tokens
    if settings.server == "llama.cpp" or SIZING_FLAGS & settings.args.keys():
        return None
    if launch.device != "cpu":
        fit = fit_of(launch, inventory)
        if fit is None or fit.need.is_upper_bound or not fit.tokens:
            return None
        return CacheSize(fit.tokens, context, fit.blocks, GPU_BLOCK_TOKENS)
    dtype = settings.kv_cache_dtype or "auto"
    try:
        need = kv_need(launch.config, kv_cache_dtype=dtype, block_tokens=BLOCK_TOKENS)
    except WeightsError:  # it may run all the same
        return None
    blocks, sequence = _blocks_on_cpu(settings, need.block_bytes), need.sequence_blocks(context)
    if blocks is None or not sequence or need.is_upper_bound:
        return None
    return CacheSize(blocks * context // sequence, context, blocks, BLOCK_TOKENS)


def _blocks_on_cpu(settings: EngineSettings, block_bytes: int) -> int | None:
    if settings.cache_tokens is not None:
        return settings.cache_tokens // BLOCK_TOKENS
    gib = settings.environment.get(CPU_CACHE_VARIABLE, str(CPU_CACHE_GIB))
    in_16_bits = settings.dtype in (None, "bfloat16", "float16")  # what `block_bytes` counts
    if settings.server != "vllm" or not in_16_bits or not gib.isdecimal() or not block_bytes:
        return None
    return (int(gib) << 30) // block_bytes


def reported_cache(url: str) -> CacheSize | None:
    """Return the cache that the engine at `url` (without /v1) reports: vLLM and SGLang do on
    /metrics, and list the context with the model. None for other servers, and without an answer."""
    try:
        sample = engine_sample(read_page(fetch(f"{url}/metrics")), 0.0)
        listed = json.loads(fetch(f"{url}/v1/models"))
        context = listed["data"][0].get("max_model_len") if listed["data"] else None
    except (EngineFailed, ValueError, KeyError, TypeError, AttributeError):
        return None
    tokens, block = sample.capacity_tokens, sample.block_tokens
    return None if tokens is None else CacheSize(tokens, context, block and tokens // block, block)


def keep_cache(catalog: Catalog, engine_id: str, record: CacheRecord) -> None:
    """Store the sizes of an engine's cache, replacing earlier ones."""
    row = cat.artifacts.c.artifact_id == engine_id
    kept = {"host": this_host(), "at": cat.now().isoformat(), **asdict(record)}
    with catalog.transaction() as connection:
        detail = sa.select(cat.artifacts.c.detail).where(row).with_for_update()
        known = json.loads(connection.execute(detail).scalar_one())
        text = json.dumps(known | {KEPT_AS: kept}, sort_keys=True)
        connection.execute(sa.update(cat.artifacts).where(row).values(detail=text))


def known_cache(catalog: Catalog, engine_id: str) -> CacheRecord:
    """Return the known sizes of the cache of an engine that ran in this store; none for others."""
    artifact = catalog.artifact(engine_id)
    kept = (artifact["detail"] if artifact else {}).get(KEPT_AS, {})
    names = [each.name for each in fields(CacheSize)]
    sizes = {
        which: size and CacheSize(**{name: size[name] for name in names})
        for which in ("estimated", "reported")
        for size in [kept.get(which)]
    }
    return CacheRecord(**sizes)


WantedGpus = int | tuple[int | str, ...] | None
"""A number of GPUs, GPUs by index or uuid, or none."""


@dataclass(frozen=True)
class Place:
    """The GPUs of one engine; none if its entry has none, or on the CPU."""

    name: str
    gpus: tuple[Gpu, ...]

    @property
    def text(self) -> str:
        """The placement as text: ``judge on GPU 1, 2``."""
        cards = ", ".join(str(gpu.index) for gpu in self.gpus)
        return f"{self.name} on {f'GPU {cards}' if cards else 'no GPU of its own'}"


def place(engines: Sequence[tuple[str, WantedGpus]], inventory: Inventory) -> list[Place]:
    """Assign GPUs to each engine, all at the same time: named ones first, then the lowest free
    ones. The result is valid if no other run holds a GPU; the lease decides. Raises RegistryError
    with the needs of each engine, and what to do, if they do not fit."""
    free = list(inventory.here)
    places: dict[int, tuple[Gpu, ...]] = {}
    for index, (name, gpus) in enumerate(engines):
        if isinstance(gpus, tuple):
            try:
                places[index] = tuple(candidates(GpuClaim(gpus), inventory)[0])
            except NoSuchGpu as error:
                raise RegistryError(f"models.{name}.engine.{error}") from None
            if twice := [gpu.index for gpu in places[index] if gpu not in free]:
                raise RegistryError(
                    f"models.{name}.engine.gpus: another engine that runs at the same time is on "
                    f"GPU {twice[0]}; name another, or a number of GPUs"
                )
            free = [gpu for gpu in free if gpu not in places[index]]
    counts = [len(gpus) if isinstance(gpus, tuple) else gpus or 0 for _, gpus in engines]
    if sum(counts) > len(inventory.here):
        asked = " + ".join(f"{name} {n}" for (name, _), n in zip(engines, counts, strict=True) if n)
        has = f"{len(inventory.here)} by {inventory.source}"
        has = has if inventory.here else f"none ({inventory.absent})"
        raise RegistryError(
            f"{sum(counts)} GPUs are needed at the same time ({asked}) and this machine has {has}; "
            "take fewer replicas or a smaller judge, or measure first and judge later with `tutti "
            "score`"
        )
    for index, count in enumerate(counts):
        if index not in places:
            places[index], free = tuple(free[:count]), free[count:]
    return [Place(name, places[index]) for index, (name, _) in enumerate(engines)]
