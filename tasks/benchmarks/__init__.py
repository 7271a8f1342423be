"""Public benchmarks: their items, prompts and scorers. Adding one: a file here and a line below."""

from tasks.benchmarks.aime import AIME_24, AIME_25
from tasks.benchmarks.api_bank import API_BANK_1, API_BANK_2
from tasks.benchmarks.api_bank_session import API_BANK_SESSIONS
from tasks.benchmarks.benchmark import Benchmark
from tasks.benchmarks.bfcl import BFCL
from tasks.benchmarks.bird import BIRD
from tasks.benchmarks.errors import (
    BadPrompt,
    BadRow,
    BadSelection,
    BenchmarkError,
    SourceMissing,
    UnknownBenchmark,
)
from tasks.benchmarks.flowbench import FLOWBENCH
from tasks.benchmarks.flowbench_session import FLOWBENCH_SESSIONS
from tasks.benchmarks.frames import FRAMES
from tasks.benchmarks.gpqa import GPQA
from tasks.benchmarks.gsm8k import GSM8K
from tasks.benchmarks.harness import HARNESS
from tasks.benchmarks.hle import HLE, HLE_IMAGES
from tasks.benchmarks.humaneval import HUMANEVAL
from tasks.benchmarks.ifeval import IFEVAL
from tasks.benchmarks.item import Item, LeftOut
from tasks.benchmarks.livecodebench import LIVECODEBENCH
from tasks.benchmarks.math_500 import MATH_500
from tasks.benchmarks.mbpp import MBPP
from tasks.benchmarks.mmlu_pro import MMLU_PRO
from tasks.benchmarks.paced import PACED
from tasks.benchmarks.prompt import Prompt, first_prompt, load_prompt
from tasks.benchmarks.select import Asked, parse_asked, select
from tasks.benchmarks.simpleqa import SIMPLEQA
from tasks.benchmarks.sotopia import SOTOPIA
from tasks.benchmarks.source import Hub, Source
from tasks.benchmarks.tau2 import TAU2
from tasks.benchmarks.text_games import TEXT_GAMES
from tasks.benchmarks.webshop import WEBSHOP
from tasks.benchmarks.world import World

BENCHMARKS: dict[str, Benchmark] = {
    benchmark.name: benchmark
    for benchmark in (
        AIME_24,
        AIME_25,
        API_BANK_1,
        API_BANK_2,
        *API_BANK_SESSIONS,
        BFCL,
        BIRD,
        *FLOWBENCH,
        *FLOWBENCH_SESSIONS,
        FRAMES,
        GPQA,
        GSM8K,
        HARNESS,
        HLE,
        HLE_IMAGES,
        HUMANEVAL,
        IFEVAL,
        LIVECODEBENCH,
        MATH_500,
        MBPP,
        MMLU_PRO,
        PACED,
        SIMPLEQA,
        SOTOPIA,
        *TAU2,
        *TEXT_GAMES,
        WEBSHOP,
    )
}
"""Every benchmark by the name that users write."""


def benchmark_named(name: str) -> Benchmark:
    """The benchmark `name`. Raises UnknownBenchmark, which lists those there are."""
    if name not in BENCHMARKS:
        raise UnknownBenchmark(f"no benchmark {name!r}; there are {', '.join(sorted(BENCHMARKS))}")
    return BENCHMARKS[name]


__all__ = [
    "BENCHMARKS",
    "Asked",
    "BadPrompt",
    "BadRow",
    "BadSelection",
    "Benchmark",
    "BenchmarkError",
    "Hub",
    "Item",
    "LeftOut",
    "Prompt",
    "Source",
    "SourceMissing",
    "UnknownBenchmark",
    "World",
    "benchmark_named",
    "first_prompt",
    "load_prompt",
    "parse_asked",
    "select",
]
