"""`tutti sweep run`: measure the missing cells of a suite, or the stages of a night file."""

import json
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tutti.cli.failures import ExitCode, UsageError, conclude
from tutti.cli.flow import run_flow
from tutti.cli.options import AsJson, ExitZero, ModelsFile
from tutti.cli.sweep import suites

if TYPE_CHECKING:
    from tutti.tasks.sweeps.spec import Suite


Night = Annotated[
    datetime | None,
    typer.Option(
        formats=["%Y-%m-%d"], help="for a night file: the night's date (the last one due)"
    ),
]


def register(sweep_app: typer.Typer) -> None:
    """Add the verb."""
    sweep_app.command("run")(run)


def run(
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
    night: Night = None,
    dry_run: Annotated[bool, typer.Option(help="print the first prompt and stop")] = False,
    prefect: Annotated[bool, typer.Option(help="run as a Prefect flow run")] = False,
    exit_zero: ExitZero = False,
    as_json: AsJson = False,
) -> None:
    """Measure the missing cells of a suite and report all of them.

    Exit code 5 if a cell is incomplete; of a night also 3 for worse and 4 for inconclusive.
    """
    chosen: dict[str, Any] = {"source": source, "limit": limit, "where": where, "model": model}
    chosen |= {"judge": judge, "user": user, "agent": agent, "unsafe_sandbox": unsafe_sandbox}
    chosen |= {"temperature": temperature, "max_tokens": max_tokens, "reasoning": reasoning}
    budget = budget_minutes, budget_usd

    def work() -> ExitCode:
        path = suites.path_of(suite)
        chosen.update(policies=suites.names_in(policies), concurrency=suites.levels_in(concurrency))
        given = [*chosen.values(), *budget, ids, expert, dry_run]
        if suites.is_night_file(path, given):
            from tutti.cli.sweep.night import run_night

            return run_night(path, models, prefect, as_json, night and night.date())
        if night is not None:
            raise UsageError(f"--night: {path} is a suite; only a night file has nights")
        with suites.about(path):
            wanted = suites.suite_of(suite, ids, expert, **chosen)
            wanted = suites.within_budget(wanted, *budget)
            return _shown(wanted) if dry_run else measured(wanted, models, prefect, as_json)

    conclude(work, exit_zero)


def _shown(suite: "Suite") -> ExitCode:
    """Print the first prompt of each benchmark."""
    from tutti.tasks.sweeps.plan import dry_run
    from tutti.tasks.sweeps.spec import parts

    for part in {each.benchmark: each for each in parts(suite)}.values():
        typer.echo(dry_run(part))
    return ExitCode.DONE


def measured(suite: "Suite", models: Path, prefect: bool, as_json: bool) -> ExitCode:
    """Run the sweep; return whether all its cells are complete, as an exit code."""
    from tutti.flows.sweep import eval_sweep
    from tutti.tasks.sweeps.plan import unfinished_cells

    sweep_id = run_flow(eval_sweep, prefect, as_json, suite, models)
    left = unfinished_cells(suite, sweep_id)
    if as_json:
        typer.echo(json.dumps({"sweep_id": sweep_id, "unfinished_cells": left}))
    elif left:
        cells = "1 cell is" if left == 1 else f"{left} cells are"
        typer.echo(f"{cells} incomplete; run the same command again to resume", err=True)
    return ExitCode.INCOMPLETE if left else ExitCode.DONE
