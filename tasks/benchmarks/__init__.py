"""Benchmarks: their tasks, prompts and scorers. To add one: a file here and a line below."""

from difflib import get_close_matches

from tutti.tasks.benchmarks.api_bank.level_3 import API_BANK_3
from tutti.tasks.benchmarks.api_bank.session import API_BANK_SESSIONS
from tutti.tasks.benchmarks.api_bank.single_call import (
    API_BANK_1,
    API_BANK_2,
    API_BANK_RESPONSES,
)
from tutti.tasks.benchmarks.benchmark import PUBLISHED, Benchmark
from tutti.tasks.benchmarks.bfcl_package import BFCL_PACKAGE
from tutti.tasks.benchmarks.bigcodebench.benchmark import BIGCODEBENCH
from tutti.tasks.benchmarks.errors import (
    BadBenchmarkFile,
    BadPrompt,
    BadRow,
    BadSelection,
    BenchmarkError,
    SourceMissing,
    UnknownBenchmark,
)
from tutti.tasks.benchmarks.evalplus.mbpp_plus import MBPP_PLUS
from tutti.tasks.benchmarks.flowbench.session import FLOWBENCH_SESSIONS
from tutti.tasks.benchmarks.flowbench.turn import FLOWBENCH
from tutti.tasks.benchmarks.games.sotopia import SOTOPIA
from tutti.tasks.benchmarks.games.text_games import TEXT_GAMES
from tutti.tasks.benchmarks.games.webshop import WEBSHOP
from tutti.tasks.benchmarks.harness import HARNESS
from tutti.tasks.benchmarks.headline import MEAN_SCORE, SHARE_RIGHT, Headline
from tutti.tasks.benchmarks.lean.theorems import LEAN_THEOREMS
from tutti.tasks.benchmarks.long_context.mrcr import MRCR
from tutti.tasks.benchmarks.mnms.benchmark import MNMS
from tutti.tasks.benchmarks.negotiation.benchmark import NEGOTIATION
from tutti.tasks.benchmarks.own.jsonl import (
    ANSWER_FIELDS,
    QUESTION_FIELDS,
    SCORER_WORDS,
    generated_name,
    jsonl_benchmark,
)
from tutti.tasks.benchmarks.own.python import OwnBenchmark, python_benchmark
from tutti.tasks.benchmarks.own.reading import OwnReading
from tutti.tasks.benchmarks.paced import PACED
from tutti.tasks.benchmarks.prompt import Prompt, first_prompt, load_prompt
from tutti.tasks.benchmarks.questions.arena_hard import ARENA_HARD
from tutti.tasks.benchmarks.questions.bfcl import BFCL
from tutti.tasks.benchmarks.questions.bird import BIRD
from tutti.tasks.benchmarks.questions.competitions import (
    AIME_24,
    AIME_25,
    AIME_26,
    HMMT_FEB_25,
    MATH_ODYSSEY,
    OMNI_MATH,
)
from tutti.tasks.benchmarks.questions.frames import FRAMES
from tutti.tasks.benchmarks.questions.gpqa import GPQA
from tutti.tasks.benchmarks.questions.gsm8k import GSM8K, MGSM
from tutti.tasks.benchmarks.questions.hle import HLE, HLE_IMAGES
from tutti.tasks.benchmarks.questions.humaneval import HUMANEVAL
from tutti.tasks.benchmarks.questions.humaneval_plus import HUMANEVAL_PLUS
from tutti.tasks.benchmarks.questions.ifeval import IFBENCH, IFEVAL
from tutti.tasks.benchmarks.questions.livecodebench import LIVECODEBENCH
from tutti.tasks.benchmarks.questions.math_500 import MATH_500
from tutti.tasks.benchmarks.questions.mbpp import MBPP
from tutti.tasks.benchmarks.questions.mmlu import MMLU, MMLU_REDUX, MMMLU
from tutti.tasks.benchmarks.questions.mmlu_pro import MMLU_PRO
from tutti.tasks.benchmarks.questions.simpleqa import SIMPLEQA
from tutti.tasks.benchmarks.questions.supergpqa import SUPERGPQA
from tutti.tasks.benchmarks.ruler.benchmark import RULER
from tutti.tasks.benchmarks.select import BenchmarkChoice, parse_benchmark, select
from tutti.tasks.benchmarks.source import Files, Hub, Source
from tutti.tasks.benchmarks.tau2.benchmark import TAU2
from tutti.tasks.benchmarks.user import CUSTOMER, SimulatedUser
from tutti.tasks.benchmarks.world import CallRefused, MakeWorld, World, carry_out
from tutti.tasks.task_sets import EXPERTS, ExcludedRow, Task

BENCHMARKS: dict[str, Benchmark] = {
    benchmark.name: benchmark
    for benchmark in (
        AIME_24,
        AIME_25,
        AIME_26,
        API_BANK_1,
        API_BANK_2,
        *API_BANK_RESPONSES,
        *API_BANK_SESSIONS,
        *API_BANK_3,
        ARENA_HARD,
        BFCL,
        *BFCL_PACKAGE,
        *BIGCODEBENCH,
        BIRD,
        *FLOWBENCH,
        *FLOWBENCH_SESSIONS,
        FRAMES,
        GPQA,
        GSM8K,
        HARNESS,
        HLE,
        HLE_IMAGES,
        HMMT_FEB_25,
        HUMANEVAL,
        HUMANEVAL_PLUS,
        IFBENCH,
        IFEVAL,
        *LEAN_THEOREMS,
        LIVECODEBENCH,
        MATH_500,
        MATH_ODYSSEY,
        MBPP,
        MBPP_PLUS,
        MGSM,
        MMLU,
        MMLU_PRO,
        MMLU_REDUX,
        MMMLU,
        *MNMS,
        MRCR,
        *NEGOTIATION,
        OMNI_MATH,
        PACED,
        RULER,
        SIMPLEQA,
        SOTOPIA,
        SUPERGPQA,
        *TAU2,
        *TEXT_GAMES,
        WEBSHOP,
    )
}
"""Every benchmark by the name that users write."""


def benchmark_named(name: str) -> Benchmark:
    """The benchmark `name`. Raises UnknownBenchmark, which lists the known ones."""
    if name not in BENCHMARKS:
        near = "".join(f", did you mean {each}?" for each in get_close_matches(name, BENCHMARKS, 1))
        known = ", ".join(sorted(BENCHMARKS))
        raise UnknownBenchmark(f"no benchmark {name!r}{near or ';'} there are {known}")
    return BENCHMARKS[name]


def open_benchmark(choice: BenchmarkChoice, reading: OwnReading | None = None) -> Benchmark:
    """The benchmark that was chosen; `reading` is for one of the user's own files.

    Raises UnknownBenchmark, SourceMissing, BadBenchmarkFile, BenchmarkError.
    """
    reading = reading or OwnReading()
    if choice.path is None:
        return benchmark_named(choice.name)
    if choice.path.suffix == ".py":
        return python_benchmark(choice.name, choice.path, reading.source)
    return jsonl_benchmark(choice.name, choice.path, reading)


__all__ = [
    "ANSWER_FIELDS",
    "BENCHMARKS",
    "CUSTOMER",
    "EXPERTS",
    "MEAN_SCORE",
    "PUBLISHED",
    "QUESTION_FIELDS",
    "SCORER_WORDS",
    "SHARE_RIGHT",
    "BadBenchmarkFile",
    "BadPrompt",
    "BadRow",
    "BadSelection",
    "Benchmark",
    "BenchmarkChoice",
    "BenchmarkError",
    "CallRefused",
    "ExcludedRow",
    "Files",
    "Headline",
    "Hub",
    "MakeWorld",
    "OwnBenchmark",
    "OwnReading",
    "Prompt",
    "SimulatedUser",
    "Source",
    "SourceMissing",
    "Task",
    "UnknownBenchmark",
    "World",
    "benchmark_named",
    "carry_out",
    "first_prompt",
    "generated_name",
    "load_prompt",
    "open_benchmark",
    "parse_benchmark",
    "python_benchmark",
    "select",
]
