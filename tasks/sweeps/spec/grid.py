"""Suites with several benchmarks or models: one sweep, measured part by part.

In: a suite. Out: a part for each model and benchmark. A part's
cells are as those of a suite of its own; engines are started once for a model.
"""

from pathlib import Path
from typing import Any

from tutti.tasks.sweeps.spec.marks import value_of
from tutti.tasks.sweeps.spec.own import (
    DOMAIN_FIELDS,
    JSONL_FIELDS,
    has_rule,
    is_domain,
    is_jsonl,
    open_named,
    own_command,
    stored_name,
)
from tutti.tasks.sweeps.spec.suite import (
    PLACES,
    PUBLIC_ONLY,
    STDLIB,
    Suite,
    SuiteError,
    with_values,
)


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
    for name in PUBLIC_ONLY:
        given = value_of(suite, name) is not None
        if given and all(value_of(each, name) is None for each in found):
            place, every = ".".join(PLACES[name]), ", ".join(benchmarks)
            raise SuiteError(f"{place}: none of {every} has a use for it")
    return found


def _part(suite: Suite, model: str, benchmark: str) -> Suite:
    change: dict[str, Any] = {"model": model, "models": (), "benchmark": benchmark}
    change["benchmarks"] = ()
    if benchmark == STDLIB:
        change |= dict.fromkeys(PUBLIC_ONLY)
    else:
        if is_jsonl(benchmark):
            change["source"] = None
        else:
            change |= dict.fromkeys(JSONL_FIELDS)
            if suite.data.source is not None:
                change["source"] = _source(suite.data.source, benchmark)
        data = suite.data
        if data.rule is not None and not has_rule(benchmark, data.rule):
            change["rule"] = None
            data = data.model_copy(update={"rule": None})
        if not is_domain(benchmark):
            change |= dict.fromkeys(DOMAIN_FIELDS)
        known = open_named(benchmark, data)
        if known.scoring.needs != "judge" and (known.command is None or not known.needs_user):
            change["judge"] = None
        other = suite.harness.command is not None and known.command is None
        if not known.needs_user or other:
            change["user"] = None
        if known.command is not None:  # its agent is another program's
            change["python"] = None
    return with_values(suite, change)


def _source(source: Path, benchmark: str) -> Path:
    """The data of one of several benchmarks: its own folder in `source`; else `source`, if that is
    the checkout that it shares with others."""
    folder = source / stored_name(benchmark).partition("@")[0]
    return source if own_command(benchmark) is not None and not folder.is_dir() else folder
