"""`tutti sweep search`: the highest concurrency that meets the latency target and the accuracy."""

import json
from pathlib import Path
from typing import Annotated, Any

import typer

from tutti.cli.failures import ExitCode
from tutti.cli.flow import run_flow
from tutti.cli.options import AsFlowRun, AsJson, ModelsFile
from tutti.cli.sweep import suites
from tutti.cli.verbs import verdict
from tutti.tasks.sweeps import search as searching
from tutti.tasks.sweeps import spec


@verdict
def search(
    suite: suites.SuiteName,
    models: ModelsFile,
    flags: suites.SuiteFlags,
    limits: suites.LimitFlags,
    expert: suites.Experts = None,
    max_p95_s: Annotated[
        float | None, typer.Option(help="highest allowed p95 step latency in seconds (2)")
    ] = None,
    min_accuracy: Annotated[
        float | None, typer.Option(help="lowest allowed accuracy, 0 to 1 (none)")
    ] = None,
    lowest: Annotated[
        int | None, typer.Option(help="first level to measure (the suite's lowest)")
    ] = None,
    highest: Annotated[int | None, typer.Option(help="last level to measure (64)")] = None,
    prefect: AsFlowRun = False,
    as_json: AsJson = False,
) -> ExitCode:
    """Find the highest concurrency that meets the limits, for each policy of the suite.

    Exit code 5 if a level could not be measured whole, or else 4 if a policy has no answer, or one
    that its confidence intervals do not support.
    """
    objectives = {"step_latency_p95": max_p95_s, "accuracy": min_accuracy}
    objectives |= {"lowest": lowest, "highest": highest}
    with suites.about(suites.path_of(suite)):
        wanted = suites.suite_of(suite, flags, expert, limits)
        return run_search(wanted, objectives, models, prefect, as_json)


def run_search(
    suite: "spec.Suite", limits: dict[str, Any], models: Path, prefect: bool, as_json: bool
) -> ExitCode:
    """Search and print the answer for each policy.

    `limits` holds fields of `Objectives`; None stands for the default. Raises ValidationError,
    SuiteError and the errors of a sweep.
    """
    from tutti.flows.find import find_concurrency

    objectives = searching.Objectives(
        **{name: value for name, value in limits.items() if value is not None}
    )
    found = run_flow(find_concurrency, prefect, as_json, suite, objectives, models)
    if as_json:
        typer.echo(json.dumps(found))
    if not all(each["whole"] for each in found["policies"]):
        return ExitCode.INCOMPLETE
    decided = all(each["sure"] and each["concurrency"] for each in found["policies"])
    return ExitCode.DONE if decided else ExitCode.INCONCLUSIVE
