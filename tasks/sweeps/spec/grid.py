"""Suites with several benchmarks or models: one sweep, measured part by part.

In: a suite. Out: a part for each model and benchmark. A part's
cells are as those of a suite of its own; engines are started once for a model.
"""

from typing import Any

from tutti.tasks.benchmarks import benchmark_named, parse_benchmark
from tutti.tasks.scoring import SCORERS
from tutti.tasks.sweeps.spec.suite import STDLIB, Suite, SuiteError

PUBLIC = ("source", "split", "limit", "ids", "where", "prompt", "command", "mcp")


def parts(suite: Suite) -> tuple[Suite, ...]:
    """One suite for each model and benchmark, in the order they are measured: model by model.

    Of a part is dropped what its benchmark has no use for: a limit of stdlib, a judge where the
    scorer asks none, a user where nobody talks. Raises SuiteError where nothing has use for it.
    """
    if not suite.is_grid:
        return (suite,)
    models = suite.models or (suite.model,)
    benchmarks = suite.benchmarks or (suite.benchmark,)
    found = tuple(_part(suite, model, benchmark) for model in models for benchmark in benchmarks)
    for name in ("judge", "user", "search_url", *PUBLIC):
        if getattr(suite, name) is not None and all(getattr(each, name) is None for each in found):
            raise SuiteError(f"{name}: none of {', '.join(benchmarks)} has a use for it")
    return found


def _part(suite: Suite, model: str, benchmark: str) -> Suite:
    change: dict[str, Any] = {"model": model, "models": (), "benchmark": benchmark}
    change["benchmarks"] = ()
    if benchmark == STDLIB:
        change |= dict.fromkeys((*PUBLIC, "judge", "user", "search_url"))
    else:
        name = parse_benchmark(benchmark).name
        known = benchmark_named(name)
        if suite.source is not None:
            change["source"] = suite.source / name
        if SCORERS[known.scorer].needs != "judge":
            change["judge"] = None
        if not known.needs_user or suite.command is not None:
            change["user"] = None
        change["python"] = "once"
    return Suite.model_validate(suite.model_dump() | change)
