"""How much KV cache an engine has: what was estimated before its start, and what it reports.

In: a launch; the address of an engine that runs. Out: a `CacheSize` of each, kept in the detail of
the engine's artifact under `cache`. Tokens alone do not tell: vLLM's are those of sequences of the
whole context, which for hybrids change with the context, so that blocks and context stand beside.
"""

import json
import urllib.error
import urllib.request
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

import sqlalchemy as sa

from tutti.storage import Catalog, this_host
from tutti.storage import catalog as cat
from tutti.tasks.gpus import Inventory
from tutti.tasks.serving.engines.fitting import fit_of
from tutti.tasks.serving.engines.launch import Launch
from tutti.tasks.serving.engines.settings import BLOCK_TOKENS, EngineSettings
from tutti.tasks.serving.engines.vllm_flags import CPU_CACHE_GIB, CPU_CACHE_VARIABLE
from tutti.tasks.serving.errors import WeightsError
from tutti.tasks.serving.metering import engine_sample, read_page
from tutti.tasks.serving.weights import kv_need
from tutti.tasks.serving.weights.kv_cache import BLOCK_TOKENS as GPU_BLOCK_TOKENS

KEPT_AS = "cache"
"""In the detail of an engine's artifact."""
TIMEOUT_S = 10.0
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
    """What remains of this machine's smallest card."""
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
        page = read_page(_get(f"{url}/metrics"))
        listed = json.loads(_get(f"{url}/v1/models"))
    except (urllib.error.URLError, OSError, ValueError):
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


def _get(url: str) -> str:
    with urllib.request.urlopen(url, timeout=TIMEOUT_S) as answer:
        text: str = answer.read().decode()
        return text


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
