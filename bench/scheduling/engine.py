"""The engines of the scheduling bench: a random model behind a real vLLM, on this CPU.

In: a set-up. Out: `Engine`, started once a set-up, with its counters and its cache's reset. KV
space is given in blocks, so it is exact and the same on every machine.
"""

import re
import subprocess
import urllib.request
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from bench.scheduling.work import Sizes
from tutti.storage import Catalog
from tutti.tasks.platform.project import PROJECT
from tutti.tasks.serving.engines.control import reset_prefix_cache
from tutti.tasks.serving.engines.engine import models_python
from tutti.tasks.serving.engines.flags import EVERYWHERE, EXECUTOR, ON_CPU, VLLM_MODULE
from tutti.tasks.serving.processes.process import Child, answers, claim_port
from tutti.tasks.serving.registry.settings import BLOCK_TOKENS

SERVED_NAME = "bench"
CONTEXT_TOKENS = 4096
START_TIMEOUT_S = 240.0
MAKE_TIMEOUT_S = 300.0
ASK_TIMEOUT_S = 20.0

COUNTER = re.compile(r"^vllm:(\w+)(?:\{[^}]*\})? ([0-9.eE+-]+)$", re.MULTILINE)
COUNTED = {
    "prefix_cache_queries_total": "queried_tokens",
    "prefix_cache_hits_total": "hit_tokens",
    "prompt_tokens_total": "prompt_tokens",
    "generation_tokens_total": "completion_tokens",
    "num_preemptions_total": "preemptions",
    "num_requests_running": "running",
    "num_requests_waiting": "waiting",
}


@dataclass(frozen=True)
class ModelSizes:
    """Of the random Qwen3."""

    hidden: int
    intermediate: int
    layers: int
    heads: int
    kv_heads: int
    head_dim: int
    context: int = CONTEXT_TOKENS


@dataclass(frozen=True)
class Setup:
    """A model, an engine and the programs of its workload."""

    name: str
    model: ModelSizes
    kv_blocks: int
    max_sequences: int
    fit: int
    """Programs offered at load 1. small: about what fits with every program at its largest
    (32,768 / 2,200); mid: capacity over mean context (10,240 / 1,150), rounded down."""
    sizes: Sizes
    least_programs: int
    """Least number of programs of a cell, for few sessions."""
    cell_limit_s: float
    """A cell that takes longer is aborted and counts as failed."""

    @property
    def kv_tokens(self) -> int:
        """The engine's capacity."""
        return self.kv_blocks * BLOCK_TOKENS


SETUPS = {
    "small": Setup(
        name="small",
        model=ModelSizes(128, 384, 4, 4, 2, 32),
        kv_blocks=1024,
        max_sequences=64,
        fit=16,
        sizes=Sizes(10, 400, 2200, 24, 0.02, 0.2, 0.11),
        least_programs=32,
        cell_limit_s=240.0,
    ),
    "mid": Setup(
        name="mid",
        model=ModelSizes(512, 1536, 12, 8, 4, 64),
        kv_blocks=320,
        max_sequences=32,
        fit=8,
        sizes=Sizes(6, 400, 1900, 24, 0.0, 0.0, 2.0),
        least_programs=12,
        cell_limit_s=480.0,
    ),
}


def with_pauses(setup: Setup, mean_s: float) -> Setup:
    """The same set-up with other tool runs, of the same form."""
    share = mean_s / setup.sizes.pause_mean_s
    low, high = setup.sizes.pause_low_s * share, setup.sizes.pause_high_s * share
    sizes = replace(setup.sizes, pause_low_s=low, pause_high_s=high, pause_mean_s=mean_s)
    return replace(setup, sizes=sizes)


def make_model(setup: Setup, folder: Path) -> Path:
    """The set-up's model, made if it does not exist yet."""
    out = folder / f"model-{setup.name}"
    done = out / "complete"
    wanted = repr(setup.model)
    if done.is_file() and done.read_text() == wanted:
        return out
    command = [str(models_python()), "-m", "bench.scheduling.model", "--out", str(out)]
    for name, value in asdict(setup.model).items():
        command += [f"--{name.replace('_', '-')}", str(value)]
    subprocess.run(
        command, cwd=PROJECT, check=True, timeout=MAKE_TIMEOUT_S, stdout=subprocess.DEVNULL
    )
    done.write_text(wanted)
    return out


class Engine:
    """One vLLM, for the block's duration."""

    def __init__(self, setup: Setup, folder: Path, catalog: Catalog) -> None:
        self.setup, self.port = setup, claim_port(None)
        self._model, self._catalog = make_model(setup, folder), catalog
        self._child: Child | None = None

    @property
    def url(self) -> str:
        """Where it answers, without /v1."""
        return f"http://127.0.0.1:{self.port}"

    def __enter__(self) -> "Engine":
        child = Child("bench-vllm", self._command(), EVERYWHERE | ON_CPU, self._catalog)
        self._child = child
        try:
            child.wait_ready(lambda: answers(f"{self.url}/health"), START_TIMEOUT_S)
        except BaseException:
            child.stop()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        assert self._child is not None, "an engine is left that was never entered"
        self._child.stop()

    def check(self) -> None:
        """Return while it runs. Raises ServingError with its last words."""
        assert self._child is not None, "the engine was not started"
        self._child.check()

    def counters(self) -> dict[str, float]:
        """The engine's own counters, by our names."""
        with urllib.request.urlopen(f"{self.url}/metrics", timeout=ASK_TIMEOUT_S) as answer:
            text = answer.read().decode()
        return read_counters(text)

    def reset(self) -> None:
        """Wait until nothing runs, then empty the prefix cache."""
        reset_prefix_cache(self.url)

    def _command(self) -> list[str]:
        setup = self.setup
        options = {
            "model": self._model,
            "served-model-name": SERVED_NAME,
            "host": "127.0.0.1",
            "port": self.port,
            "dtype": "bfloat16",
            "max-model-len": setup.model.context,
            "block-size": BLOCK_TOKENS,
            "num-gpu-blocks-override": setup.kv_blocks,
            "max-num-seqs": setup.max_sequences,
            "max-num-batched-tokens": 2048,
            "distributed-executor-backend": EXECUTOR,
            "generation-config": "vllm",
        }
        flags = ["enforce-eager", "enable-prefix-caching", "enable-prompt-tokens-details"]
        flags += ["disable-uvicorn-access-log"]
        command = [str(models_python()), "-m", VLLM_MODULE]
        for name, value in options.items():
            command += [f"--{name}", str(value)]
        return command + [f"--{flag}" for flag in flags]


def read_counters(text: str) -> dict[str, float]:
    """The counters in /metrics, by our names; series of the same name are summed."""
    found = dict.fromkeys(COUNTED.values(), 0.0)
    for name, value in COUNTER.findall(text):
        if name in COUNTED:
            found[COUNTED[name]] += float(value)
    return found


def counted_between(before: dict[str, float], after: dict[str, float]) -> dict[str, float]:
    """The increase of the counters; states (running, waiting) are left out."""
    return {
        name: after[name] - before[name]
        for name in COUNTED.values()
        if name not in ("running", "waiting")
    }
