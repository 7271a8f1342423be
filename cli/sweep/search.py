"""`tutti sweep search`: the highest concurrency that meets the latency target and the accuracy."""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tutti.cli.failures import ExitCode, conclude
from tutti.cli.flow import run_flow
from tutti.cli.options import AsJson, ExitZero, ModelsFile
from tutti.cli.sweep import suites

if TYPE_CHECKING:
    from tutti.tasks.sweeps.spec import Suite


def register(sweep_app: typer.Typer) -> None:
    """Add the verb."""
    sweep_app.command("search")(search)


def search(
    suite: suites.SuiteName,
    models: ModelsFile,
    model: suites.Model = None,
    concurrency: suites.Concurrency = "",
    policies: suites.Policies = "",
    source: suites.Source = None,
    limit: suites.Limit = None,
    temperature: suites.Temperature = None,
    max_tokens: suites.MaxTokens = None,
    reasoning: suites.Reasoning = None,
    ids: suites.Ids = "",
    where: suites.Where = None,
    judge: suites.Judge = None,
    user: suites.User = None,
    agent: suites.Agent = None,
    expert: suites.Experts = None,
    unsafe_sandbox: suites.UnsafeSandbox = None,
    budget_minutes: suites.BudgetMinutes = None,
    budget_usd: suites.BudgetUsd = None,
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
    prefect: Annotated[bool, typer.Option(help="run as a Prefect flow run")] = False,
    exit_zero: ExitZero = False,
    as_json: AsJson = False,
) -> None:
    """Find the highest concurrency that meets the limits, for each policy of the suite.

    Exit code 5 if a level could not be measured whole, or else 4 if a policy has no answer, or one
    that its confidence intervals do not support.
    """
    chosen: dict[str, Any] = {"source": source, "limit": limit, "where": where}
    chosen |= {"judge": judge, "user": user, "agent": agent, "unsafe_sandbox": unsafe_sandbox}
    chosen |= {"model": model, "temperature": temperature, "max_tokens": max_tokens}
    chosen |= {"reasoning": reasoning}
    limits = {"step_latency_p95": max_p95_s, "accuracy": min_accuracy}
    limits |= {"lowest": lowest, "highest": highest}

    def work() -> ExitCode:
        chosen["policies"] = suites.names_in(policies)
        chosen["concurrency"] = suites.levels_in(concurrency)
        with suites.about(suites.path_of(suite)):
            wanted = suites.suite_of(suite, ids, expert, **chosen)
            wanted = suites.within_budget(wanted, budget_minutes, budget_usd)
            return run_search(wanted, limits, models, prefect, as_json)

    conclude(work, exit_zero)


def run_search(
    suite: "Suite", limits: dict[str, Any], models: Path, prefect: bool, as_json: bool
) -> ExitCode:
    """Search and print the answer for each policy.

    `limits` holds fields of `Objectives`; None stands for the default. Raises ValidationError,
    SuiteError and the errors of a sweep.
    """
    from tutti.flows.find import find_concurrency
    from tutti.tasks.sweeps.search import Objectives

    objectives = Objectives(**{name: value for name, value in limits.items() if value is not None})
    found = run_flow(find_concurrency, prefect, as_json, suite, objectives, models)
    if as_json:
        typer.echo(json.dumps(found))
    if not all(each["whole"] for each in found["policies"]):
        return ExitCode.INCOMPLETE
    decided = all(each["sure"] and each["concurrency"] for each in found["policies"])
    return ExitCode.DONE if decided else ExitCode.INCONCLUSIVE
