"""`tutti sweep run` measures the missing cells of a suite, or the stages of a night file;
`tutti sweep search` finds the highest concurrency that meets a latency target and an accuracy.
"""

import asyncio
import json
import sys
from contextlib import nullcontext, redirect_stdout
from datetime import date, datetime
from pathlib import Path
from typing import Annotated, Any

import typer

from tutti.cli.base.failures import ExitCode, UsageError, code_of
from tutti.cli.base.flow import run_flow
from tutti.cli.base.verbs import AsFlowRun, AsJson, Flags, ModelsFile, verdict
from tutti.cli.sweep import suites
from tutti.tasks.sweeps import plan, spec
from tutti.tasks.sweeps import search as searching

Night = Annotated[
    datetime | None,
    typer.Option(
        formats=["%Y-%m-%d"], help="for a night file: the night's date (the last one due)"
    ),
]


@verdict
def run(
    suite: suites.SuiteName,
    models: ModelsFile,
    flags: suites.SuiteFlags,
    limits: suites.Limits,
    expert: suites.Experts = None,
    night: Night = None,
    dry_run: Annotated[bool, typer.Option(help="print the first prompt and stop")] = False,
    prefect: AsFlowRun = False,
    as_json: AsJson = False,
) -> ExitCode:
    """Measure the missing cells of a suite and report all of them.

    Exit code 5 if a cell is incomplete; for a night also 3 for worse and 4 for inconclusive.
    """
    path = suites.path_of(suite)
    given = [*flags.fields().values(), *limits.values(), expert, dry_run]
    if suites.is_night_file(path, given):
        return run_night(path, models, prefect, as_json, night and night.date())
    if night is not None:
        raise UsageError(f"--night: {path} is a suite; only a night file has nights")
    with suites.about(path):
        wanted = suites.suite_of(suite, flags, expert, limits)
        return _shown(wanted) if dry_run else measured(wanted, models, prefect, as_json)


def _shown(suite: "spec.Suite") -> ExitCode:
    for part in {each.benchmark: each for each in suite.parts()}.values():
        typer.echo(plan.TaskSet.first_prompt(part))
    return ExitCode.DONE


def measured(suite: "spec.Suite", models: Path, prefect: bool, as_json: bool) -> ExitCode:
    """Run the sweep; return whether all its cells are complete, as an exit code."""
    from tutti.flows.sweep import eval_sweep

    sweep_id = run_flow(eval_sweep, prefect, as_json, suite, models)
    left = plan.unfinished_cells(suite, sweep_id)
    if as_json:
        typer.echo(json.dumps({"sweep_id": sweep_id, "unfinished_cells": left}))
    elif left:
        cells = "1 cell is" if left == 1 else f"{left} cells are"
        typer.echo(f"{cells} incomplete; run the same command again to resume", err=True)
    return ExitCode.INCOMPLETE if left else ExitCode.DONE


def run_night(
    path: Path, models: Path, prefect: bool, as_json: bool, night: date | None = None
) -> ExitCode:
    """Measure the missing part of a night; return the exit code of its verdict.

    `night` is its date; None is the last planned night. Raises UsageError for a Prefect run,
    SuiteError and RegistryError for an invalid file.
    """
    if prefect:
        raise UsageError("to run a night under Prefect, use the deployment nightly: `make ui`")
    from tutti.flows.nightly import nightly

    with redirect_stdout(sys.stderr) if as_json else nullcontext():
        found = asyncio.run(nightly.fn(path, models, night))
    if as_json:
        print(json.dumps(found))
    code = code_of([found["verdict"]])
    missing = code == ExitCode.INCONCLUSIVE and not found["whole"]
    return ExitCode.INCOMPLETE if missing else code


OBJECTIVES = "tasks/sweeps/search/search.py:Objectives"


@verdict
def search(
    suite: suites.SuiteName,
    models: ModelsFile,
    flags: suites.SuiteFlags,
    limits: suites.Limits,
    expert: suites.Experts = None,
    max_p95_s: Annotated[
        float | None, typer.Option(help="highest allowed p95 step latency in seconds (2)")
    ] = None,
    *,
    objectives: Annotated[
        dict[str, Any], Flags(OBJECTIVES, "accuracy=--min-accuracy lowest highest")
    ],
    prefect: AsFlowRun = False,
    as_json: AsJson = False,
) -> ExitCode:
    """Find the highest concurrency that meets the limits, for each policy of the suite.

    Exit code 5 if a level could not be measured completely, or else 4 if a policy has no answer, or
    one that its confidence intervals do not support.
    """
    if max_p95_s is not None:
        objectives["step_latency_p95"] = max_p95_s
    with suites.about(suites.path_of(suite)):
        wanted = suites.suite_of(suite, flags, expert, limits)
        return run_search(wanted, objectives, models, prefect, as_json)


def run_search(
    suite: "spec.Suite", limits: dict[str, Any], models: Path, prefect: bool, as_json: bool
) -> ExitCode:
    """Search and print the answer for each policy. `limits` holds fields of `Objectives`. Raises
    ValidationError, SuiteError and the errors of a sweep."""
    from tutti.flows.find import find_concurrency

    objectives = searching.Objectives(**limits)
    found = run_flow(find_concurrency, prefect, as_json, suite, objectives, models)
    if as_json:
        typer.echo(json.dumps(found))
    if not all(each["whole"] for each in found["policies"]):
        return ExitCode.INCOMPLETE
    decided = all(each["sure"] and each["concurrency"] for each in found["policies"])
    return ExitCode.DONE if decided else ExitCode.INCONCLUSIVE
