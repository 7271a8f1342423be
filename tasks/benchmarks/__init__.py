"""Benchmarks: their tasks, prompts and scorers. Each is a YAML file in ``sets/``."""

from typing import TYPE_CHECKING

from tutti.face import lazy

if TYPE_CHECKING:
    from tutti.tasks.benchmarks.benchmark import PUBLISHED as PUBLISHED
    from tutti.tasks.benchmarks.benchmark import Benchmark as Benchmark
    from tutti.tasks.benchmarks.definition import BENCHMARKS as BENCHMARKS
    from tutti.tasks.benchmarks.definition import benchmark_named as benchmark_named
    from tutti.tasks.benchmarks.errors import BadRow as BadRow
    from tutti.tasks.benchmarks.errors import BenchmarkError as BenchmarkError
    from tutti.tasks.benchmarks.errors import SourceMissing as SourceMissing
    from tutti.tasks.benchmarks.own.python import OwnBenchmark as OwnBenchmark
    from tutti.tasks.benchmarks.prompt import Prompt as Prompt
    from tutti.tasks.benchmarks.prompt import first_prompt as first_prompt
    from tutti.tasks.benchmarks.prompt import load_prompt as load_prompt
    from tutti.tasks.benchmarks.selection import BenchmarkChoice as BenchmarkChoice
    from tutti.tasks.benchmarks.selection import open_benchmark as open_benchmark
    from tutti.tasks.benchmarks.selection import parse_benchmark as parse_benchmark
    from tutti.tasks.benchmarks.selection import select as select
    from tutti.tasks.benchmarks.source import Files as Files
    from tutti.tasks.benchmarks.source import Source as Source
    from tutti.tasks.benchmarks.user import CUSTOMER as CUSTOMER
    from tutti.tasks.benchmarks.user import SimulatedUser as SimulatedUser
    from tutti.tasks.benchmarks.world import CallRefused as CallRefused
    from tutti.tasks.benchmarks.world import MakeWorld as MakeWorld
    from tutti.tasks.benchmarks.world import World as World
    from tutti.tasks.benchmarks.world import carry_out as carry_out
    from tutti.tasks.task_sets import ExcludedRow as ExcludedRow
    from tutti.tasks.task_sets import Task as Task

if not TYPE_CHECKING:  # with it, a type checker would accept any name of this package
    __getattr__ = lazy(__name__, __file__)
