"""Benchmarks: their tasks, prompts and scorers. To add one: a YAML file in ``sets/``."""

from collections.abc import Mapping
from difflib import get_close_matches

from tutti.tasks.benchmarks.benchmark import PUBLISHED, Benchmark
from tutti.tasks.benchmarks.definition import Definitions
from tutti.tasks.benchmarks.errors import (
    BadBenchmarkFile,
    BadPrompt,
    BadRow,
    BadSelection,
    BenchmarkError,
    SourceMissing,
    UnknownBenchmark,
)
from tutti.tasks.benchmarks.headline import MEAN_SCORE, SHARE_RIGHT, Headline
from tutti.tasks.benchmarks.own.jsonl import (
    ANSWER_FIELDS,
    QUESTION_FIELDS,
    SCORER_WORDS,
    generated_name,
    jsonl_benchmark,
)
from tutti.tasks.benchmarks.own.python import OwnBenchmark, python_benchmark
from tutti.tasks.benchmarks.own.reading import OwnReading
from tutti.tasks.benchmarks.prompt import Prompt, first_prompt, load_prompt
from tutti.tasks.benchmarks.select import BenchmarkChoice, parse_benchmark, select
from tutti.tasks.benchmarks.source import Files, Hub, Source
from tutti.tasks.benchmarks.user import CUSTOMER, SimulatedUser
from tutti.tasks.benchmarks.world import CallRefused, MakeWorld, World, carry_out
from tutti.tasks.task_sets import EXPERTS, ExcludedRow, Task

BENCHMARKS: Mapping[str, Benchmark] = Definitions()
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
