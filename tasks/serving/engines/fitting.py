"""Whether engines' weights and caches have room on this machine's GPUs, and the size of each cache.

In: launches and the inventory. Out: the arithmetic of `weights.Fit`, with this machine's smallest
GPU; nothing for an engine on the CPU, for llama.cpp, which puts layers where there is room, and
where no GPU's memory is known. `place` gives GPUs to engines that run at the same time: a lease
waits for GPUs of other runs, and would wait without end for those of engines beside it.

A `CacheSize` is estimated before the start and reported by the running engine; both are kept in the
detail of the engine's artifact under `cache`. Tokens alone do not tell: vLLM's are those of
sequences of the whole context, which for hybrids change with the context.
"""

import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import sqlalchemy as sa

from tutti.storage import Catalog, this_host
from tutti.storage import catalog as cat
from tutti.tasks.gpus import Gpu, Inventory
from tutti.tasks.serving.engines.control import fetch
from tutti.tasks.serving.engines.flags import CPU_CACHE_GIB, CPU_CACHE_VARIABLE
from tutti.tasks.serving.engines.launch import Launch
from tutti.tasks.serving.errors import EngineFailed, RegistryError, WeightsError
from tutti.tasks.serving.metering.metrics import engine_sample, read_page
from tutti.tasks.serving.registry.settings import BLOCK_TOKENS, EngineSettings
from tutti.tasks.serving.weights import Fit, kv_need
from tutti.tasks.serving.weights.fit import BLOCK_TOKENS as GPU_BLOCK_TOKENS
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


KEPT_AS = "cache"
"""In the detail of an engine's artifact."""
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
    """Of one sequence."""
    blocks: int | None = None
    block_tokens: int | None = None
    groups: int | None = None
    """Of layers that take blocks together; None where the engine does not say."""
    sequences: float | None = None
    """Sequences of the whole context that the cache holds."""


@dataclass(frozen=True)
class CacheRecord:
    """What is known of an engine's cache."""

    estimated: CacheSize | None = None
    reported: CacheSize | None = None

    @property
    def difference(self) -> float | None:
        """What the engine has more than estimated, as a share of the estimate."""
        if self.estimated is None or self.reported is None or not self.estimated.tokens:
            return None
        return self.reported.tokens / self.estimated.tokens - 1

    @property
    def remark(self) -> str:
        """About a large difference; empty where there is none."""
        if self.difference is None or abs(self.difference) <= REMARKABLE:
            return ""
        less = "less" if self.difference < 0 else "more"
        return f"{abs(self.difference):.0%} {less} than estimated"

    @property
    def text(self) -> str:
        """For people; empty where nothing is known."""
        said = [] if self.estimated is None else [f"estimated {self.estimated.tokens:,} tokens"]
        if self.reported is not None:
            said.append(f"engine reported {self.reported.tokens:,}{' tokens' * (not said)}")
        said += [self.remark] * bool(self.remark)
        return f"KV cache: {', '.join(said)}" if said else ""


def estimated_cache(launch: Launch, inventory: Inventory) -> CacheSize | None:
    """What the engine's cache will hold, on this machine; None where that cannot be told before it
    runs, also for want of a field in config.json."""
    settings = launch.settings
    if settings.server == "llama.cpp" or SIZING_FLAGS & settings.args.keys():
        return None
    try:
        return _on_cpu(launch) if launch.device == "cpu" else _on_gpu(launch, inventory)
    except WeightsError:  # it may run all the same; what a GPU's fit needs is refused before
        return None


def _on_gpu(launch: Launch, inventory: Inventory) -> CacheSize | None:
    fit = fit_of(launch, inventory)
    if fit is None or fit.need.is_upper_bound or not fit.tokens:
        return None
    context = launch.context_tokens
    sequences = round(fit.tokens / context, 2)
    return CacheSize(fit.tokens, context, fit.blocks, GPU_BLOCK_TOKENS, 1, sequences)


def _on_cpu(launch: Launch) -> CacheSize | None:
    """The blocks that the entry gives, or those of the memory that is set aside for them."""
    settings, context = launch.settings, launch.context_tokens
    need = kv_need(
        launch.config,
        kv_cache_dtype=settings.kv_cache_dtype or "auto",
        block_tokens=BLOCK_TOKENS,
    )
    blocks, sequence = _blocks_on_cpu(settings, need.block_bytes), need.sequence_blocks(context)
    if blocks is None or not sequence or need.is_upper_bound:
        return None
    tokens, sequences = blocks * context // sequence, round(blocks / sequence, 2)
    return CacheSize(tokens, context, blocks, BLOCK_TOKENS, 1, sequences)


def _blocks_on_cpu(settings: EngineSettings, block_bytes: int) -> int | None:
    if settings.cache_tokens is not None:
        return settings.cache_tokens // BLOCK_TOKENS
    gib = settings.environment.get(CPU_CACHE_VARIABLE, str(CPU_CACHE_GIB))
    in_16_bits = settings.dtype in (None, "bfloat16", "float16")  # what `block_bytes` counts
    if settings.server != "vllm" or not in_16_bits or not gib.isdecimal() or not block_bytes:
        return None
    return (int(gib) << 30) // block_bytes


def reported_cache(url: str) -> CacheSize | None:
    """What the engine at `url` (without /v1) says of its cache: vLLM and SGLang do on /metrics, and
    name the context beside the model. None for other servers, and where it does not answer."""
    try:
        page = read_page(fetch(f"{url}/metrics"))
        listed = json.loads(fetch(f"{url}/v1/models"))
    except (EngineFailed, ValueError):
        return None
    sample = engine_sample(page, 0.0)
    if sample.capacity_tokens is None:
        return None
    labels: Mapping[str, str] = page.configs[0] if page.configs else {}
    blocks, sequences = _number(labels.get("num_gpu_blocks")), None
    if blocks is None and sample.block_tokens:  # SGLang tells tokens and the size of a page
        blocks = sample.capacity_tokens // sample.block_tokens
    if (most := _number(labels.get("kv_cache_max_concurrency"))) is not None:
        sequences = round(most, 2)
    return CacheSize(
        sample.capacity_tokens,
        _context_of(listed),
        None if blocks is None else int(blocks),
        sample.block_tokens,
        sequences=sequences,
    )


def _context_of(listed: Any) -> int | None:
    models = listed.get("data") if isinstance(listed, Mapping) else None
    first = models[0] if isinstance(models, list) and models else {}
    told = first.get("max_model_len") if isinstance(first, Mapping) else None
    return told if isinstance(told, int) else None


def _number(label: str | None) -> float | None:
    try:
        return float(label) if label is not None else None
    except ValueError:  # vLLM writes None
        return None


def keep_cache(catalog: Catalog, engine_id: str, record: CacheRecord) -> None:
    """Keep what is known of an engine's cache, in place of what was known before."""
    row = cat.artifacts.c.artifact_id == engine_id
    told = {"host": this_host(), "at": cat.now().isoformat(), **asdict(record)}
    with catalog.transaction() as connection:
        detail = sa.select(cat.artifacts.c.detail).where(row).with_for_update()
        known = json.loads(connection.execute(detail).scalar_one())
        text = json.dumps(known | {KEPT_AS: told}, sort_keys=True)
        connection.execute(sa.update(cat.artifacts).where(row).values(detail=text))


def known_cache(catalog: Catalog, engine_id: str) -> CacheRecord:
    """What is known of the cache of an engine that ran in this store; empty for one that did
    not."""
    artifact = catalog.artifact(engine_id)
    told = (artifact["detail"] if artifact else {}).get(KEPT_AS, {})
    sizes = {name: told.get(name) for name in ("estimated", "reported")}
    return CacheRecord(**{name: size and CacheSize(**size) for name, size in sizes.items()})


WantedGpus = int | tuple[int | str, ...] | None
"""So many GPUs, these by index or uuid, or none."""


@dataclass(frozen=True)
class Place:
    """The GPUs of one engine; none where its entry asks for none, or on the CPU."""

    name: str
    gpus: tuple[Gpu, ...]

    @property
    def text(self) -> str:
        """``judge on GPU 1, 2``."""
        cards = ", ".join(str(gpu.index) for gpu in self.gpus)
        return f"{self.name} on {f'GPU {cards}' if cards else 'no GPU of its own'}"


def place(engines: Sequence[tuple[str, WantedGpus]], inventory: Inventory) -> list[Place]:
    """GPUs for each engine, all at the same time: named ones first, then the lowest that are left.

    It says that they fit, and which they take where no other run holds one; the lease decides.
    Raises RegistryError with what each asks for, and what to do, where they do not fit.
    """
    here = list(inventory.here)
    named = {
        index: _named(name, gpus, here)
        for index, (name, gpus) in enumerate(engines)
        if isinstance(gpus, tuple)
    }
    _refuse_twice([(engines[index][0], gpus) for index, gpus in named.items()])
    free = [gpu for gpu in here if not any(gpu in gpus for gpus in named.values())]
    wanted = sum(_count(gpus) for _, gpus in engines)
    if wanted > len(here):
        raise RegistryError(_too_many(engines, wanted, inventory))
    places = []
    for index, (name, gpus) in enumerate(engines):
        taken = named.get(index)
        if taken is None:
            count = _count(gpus)
            taken, free = tuple(free[:count]), free[count:]
        places.append(Place(name, taken))
    return places


def _count(gpus: WantedGpus) -> int:
    return len(gpus) if isinstance(gpus, tuple) else gpus or 0


def _named(name: str, gpus: tuple[int | str, ...], here: Sequence[Gpu]) -> tuple[Gpu, ...]:
    found = []
    for asked in gpus:
        fits = [gpu for gpu in here if _is(gpu, asked)]
        if len(fits) != 1:
            known = ", ".join(f"{gpu.index} ({gpu.uuid or gpu.name})" for gpu in here)
            raise RegistryError(
                f"models.{name}.engine.gpus: {asked!r} names {len(fits)} of this machine's GPUs; "
                f"it has {known or 'none'}"
            )
        found.append(fits[0])
    return tuple(found)


def _is(gpu: Gpu, asked: int | str) -> bool:
    if isinstance(asked, int) or asked.isdecimal():
        return gpu.index == int(asked)
    return gpu.uuid is not None and gpu.uuid.startswith(asked)


def _refuse_twice(named: Sequence[tuple[str, tuple[Gpu, ...]]]) -> None:
    times = Counter(gpu.index for _, gpus in named for gpu in gpus)
    for index, count in times.items():
        if count > 1:
            who = ", ".join(name for name, gpus in named for gpu in gpus if gpu.index == index)
            raise RegistryError(
                f"models: {who} are to run at the same time, each on GPU {index}; name another, or "
                "a number of GPUs"
            )


def _too_many(engines: Sequence[tuple[str, WantedGpus]], wanted: int, inventory: Inventory) -> str:
    asked = " + ".join(f"{name} {_count(gpus)}" for name, gpus in engines if gpus)
    has = f"{len(inventory.here)} by {inventory.source}"
    if not inventory.here:
        has = f"none ({inventory.absent})"
    return (
        f"{wanted} GPUs are needed at the same time ({asked}) and this machine has {has}; take "
        "fewer replicas or a smaller judge, or measure first and judge later with `tutti score`"
    )
