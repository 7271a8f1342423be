"""A suite's benchmark as a file of the user's own, or as a synthesized set: its location, and the
suite's fields for it.

In: `benchmark` and `data` of a suite. Out: the opened benchmark. Checking a suite opens no file.
"""

from pathlib import Path

from tutti.storage import open_catalog
from tutti.tasks.benchmarks import (
    BENCHMARKS,
    PUBLISHED,
    Benchmark,
    BenchmarkChoice,
    BenchmarkError,
    SourceMissing,
    benchmark_named,
    open_benchmark,
    parse_benchmark,
)
from tutti.tasks.benchmarks.own import SCORER_WORDS, OwnReading
from tutti.tasks.scoring import UNSCORED
from tutti.tasks.sweeps.spec.groups import DataSelection, HarnessSettings
from tutti.tasks.synthesis import (
    document_benchmark,
    domain_benchmark,
    has_questions,
    searched_index,
)

RULE_FIELDS = ("rule",)
"""Fields of `data` that only a public benchmark has a use for."""
JSONL_FIELDS = ("scorer", "question_field", "answer_field")
"""Fields of `data` that only a JSONL file of the user's own has a use for."""
DOMAIN_FIELDS = ("solo",)
"""Fields of `data` that only a synthesized domain has a use for."""


def open_named(benchmark: str, data: DataSelection) -> Benchmark:
    """The benchmark that a suite names, with the requested scoring rule. Raises BenchmarkError."""
    choice = parse_benchmark(benchmark)
    if is_domain(benchmark):
        folder = _folder_of(choice)
        if not has_questions(folder):
            return domain_benchmark(choice.name, folder, data.split, bool(data.solo))
        if data.solo is not None:
            raise BenchmarkError(f"data.solo: {benchmark} has questions and no simulated user")
        return document_benchmark(choice.name, folder, data.split)
    reading = OwnReading(
        data.scorer, data.question_field, data.answer_field, data.prompt, data.source
    )
    return open_benchmark(choice, reading).by_rule(data.rule)


def registered(benchmark: str) -> Benchmark | None:
    """Return tutti's benchmark of that name; None for a file of the user's and a stored set."""
    choice = parse_benchmark(benchmark)
    is_own = choice.path is not None or choice.task_set is not None
    return None if is_own else BENCHMARKS.get(choice.name)


def own_command(benchmark: str) -> str | None:
    """Return the harness that tutti ships for a benchmark that needs one; None for any other."""
    entry = registered(benchmark)
    return None if entry is None else entry.command


def is_made(benchmark: str) -> bool:
    """Whether tutti generates its tasks, instead of reading them."""
    entry = registered(benchmark)
    return entry is not None and entry.is_made


def index_of(benchmark: str) -> str | None:
    """Return the id of the index of a set of questions about documents; None for any other
    benchmark. Raises BenchmarkError if there is no such set."""
    return searched_index(_folder_of(parse_benchmark(benchmark))) if is_domain(benchmark) else None


def _folder_of(choice: BenchmarkChoice) -> Path:
    if choice.path is not None:
        return choice.path
    assert choice.task_set is not None, f"{choice.name} is no domain"
    with open_catalog() as catalog:
        entry = catalog.artifact(choice.task_set)
    if entry is None or entry["path"] is None:
        raise SourceMissing(
            f"benchmark: there is no task set {choice.task_set!r} of a synthesized domain; "
            "`tutti synth` makes one and prints its id and folder"
        )
    return Path(entry["path"])


def known_name(benchmark: str, folder: Path | None) -> str:
    """Return a benchmark as a suite stores it: a relative path of a file starts at `folder`.

    Raises BenchmarkError for an unknown one.
    """
    choice = parse_benchmark(benchmark)
    if choice.path is None and choice.task_set is None:
        benchmark_named(choice.name)
    if choice.path is None or folder is None or choice.path.is_absolute():
        return benchmark
    return str((folder / benchmark.strip()).absolute())


def is_jsonl(benchmark: str) -> bool:
    """Whether it is a JSONL file of the user's own."""
    path = parse_benchmark(benchmark).path
    return path is not None and path.suffix == ".jsonl"


def is_domain(benchmark: str) -> bool:
    """Whether it is a synthesized domain: its folder, or a stored task set."""
    choice = parse_benchmark(benchmark)
    is_folder = choice.path is not None and choice.path.suffix not in (".jsonl", ".py")
    return is_folder or choice.task_set is not None


def stored_name(benchmark: str) -> str:
    """Its name in ids and tables: with its revision, without its trials; for a file its name."""
    choice = parse_benchmark(benchmark)
    named = choice.path is None and choice.task_set is None
    return benchmark.partition(":")[0] if named else choice.name


def check_reading(benchmark: str, data: DataSelection) -> None:
    """Check that the fields of `data` belong to the benchmark, and that a scored file does not have
    another benchmark's name. Raises ValueError."""
    choice = parse_benchmark(benchmark)
    taken = choice.path is not None and choice.name in BENCHMARKS
    if taken and data.scorer != UNSCORED.name:
        raise ValueError(f"{choice.name} is a benchmark of tutti's: rename {choice.path}")
    if data.rule is not None:
        if choice.path is not None or choice.task_set is not None:
            raise ValueError(f"data.rule: for a public benchmark, and {choice.name} is none")
        benchmark_named(choice.name).by_rule(data.rule)
    if data.solo is not None and not is_domain(benchmark):
        raise ValueError(f"data.solo: for a synthesized domain, and {benchmark} is none")
    if not is_jsonl(benchmark):
        given = [f"data.{name}" for name in JSONL_FIELDS if getattr(data, name) is not None]
        if given:
            name = stored_name(benchmark)
            raise ValueError(f"{', '.join(given)}: for a .jsonl file, and {name} is none")
        return
    if data.scorer is None:
        raise ValueError(f"`data.scorer`: {benchmark} needs one: {SCORER_WORDS}")
    if data.source is not None:
        raise ValueError(f"`data.source`: {benchmark} is the data itself; leave it out")


def has_rule(benchmark: str, rule: str) -> bool:
    """Whether a public benchmark has another rule of that name, or it is its published one."""
    entry = registered(benchmark)
    rules = {} if entry is None else entry.rules
    return rule in rules or (rule == PUBLISHED and bool(rules))


def check_parallel(
    benchmark: str, harness: HarnessSettings, agent: str | None, temperature: float
) -> None:
    """Check that parallel thinking has single messages and a temperature. Raises ValueError."""
    others = ("command", "mcp", "search_index", "python")
    given = [f"harness.{name}" for name in others if getattr(harness, name) is not None]
    given += ["roles.agent"] if agent is not None else []
    entry = registered(benchmark)
    if entry is not None and entry.platform_tools:
        raise ValueError(f"`harness.parallel`: {entry.name} needs tools, and a solution has none")
    if given:
        raise ValueError(f"`harness.parallel`: a solution is one message; leave out {given[0]}")
    if temperature == 0:
        raise ValueError("`harness.parallel`: temperature 0 gives equal solutions; use 0.7, say")


def without_path(benchmark: str) -> str:
    """The benchmark and its trials; a file by its name, so that ids do not depend on its folder."""
    choice = parse_benchmark(benchmark)
    return benchmark if choice.path is None else f"{choice.name}:{choice.trials}"
