"""`tutti sweep run`: measure the missing cells of a suite, or the stages of a night file."""

import json
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer

from tutti.cli.failures import ExitCode, UsageError, conclude
from tutti.cli.flow import run_flow
from tutti.cli.options import AsJson, ExitZero, ModelsFile
from tutti.cli.sweep import suites

if TYPE_CHECKING:
    from tutti.tasks.sweeps.spec import Suite


DEPRECATED = {
    "--find": "`tutti sweep search`",
    "--latency": "`sweep search --max-p95-s`",
    "--accuracy": "`sweep search --min-accuracy`",
    "--lowest": "`sweep search --lowest`",
    "--highest": "`sweep search --highest`",
    "--minutes": "--budget-minutes",
    "--usd": "--budget-usd",
}
"""Old flags of `sweep run`, which still work, and what replaces each."""


SOUGHT = ("step_latency_p95", "accuracy", "lowest", "highest")
"""What the flags --latency, --accuracy, --lowest and --highest set."""
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
    find: Annotated[bool, typer.Option("--find", hidden=True)] = False,
    latency: Annotated[float | None, typer.Option(hidden=True)] = None,
    accuracy: Annotated[float | None, typer.Option(hidden=True)] = None,
    lowest: Annotated[int | None, typer.Option(hidden=True)] = None,
    highest: Annotated[int | None, typer.Option(hidden=True)] = None,
    minutes: Annotated[float | None, typer.Option(hidden=True)] = None,
    usd: Annotated[float | None, typer.Option(hidden=True)] = None,
) -> None:
    """Measure the missing cells of a suite and report all of them.

    Exit code 5 if a cell is incomplete; of a night also 3 for worse and 4 for inconclusive.
    """
    chosen: dict[str, Any] = {"source": source, "limit": limit, "where": where, "model": model}
    chosen |= {"judge": judge, "user": user, "agent": agent, "unsafe_sandbox": unsafe_sandbox}
    chosen |= {"temperature": temperature, "max_tokens": max_tokens, "reasoning": reasoning}
    sought = dict(zip(SOUGHT, (latency, accuracy, lowest, highest), strict=True))
    budget = _first(budget_minutes, minutes), _first(budget_usd, usd)
    how = RunOptions(models, prefect, as_json, dry_run)
    _warn_of_deprecated((find or None, latency, accuracy, lowest, highest, minutes, usd))

    def work() -> ExitCode:
        path = suites.path_of(suite)
        chosen.update(policies=suites.names_in(policies), concurrency=suites.levels_in(concurrency))
        given = [*chosen.values(), *sought.values(), *budget, ids, expert, dry_run, find]
        if suites.is_night_file(path, given):
            from tutti.cli.sweep.night import run_night

            return run_night(path, models, prefect, as_json, night and night.date())
        _check_of_suite(path, night, None if find else sought)
        with suites.about(path):
            wanted = suites.suite_of(suite, ids, expert, **chosen)
            return _suite(suites.within_budget(wanted, *budget), sought if find else None, how)

    conclude(work, exit_zero)


def _check_of_suite(path: Path, night: datetime | None, sought: dict[str, Any] | None) -> None:
    """Raise UsageError for flags that are a night file's, or of a search that was not asked for."""
    if night is not None:
        raise UsageError(f"--night: {path} is a suite; only a night file has nights")
    if sought is not None and any(value is not None for value in sought.values()):
        raise UsageError("limits belong to `tutti sweep search`, not to `sweep run`")


def _first(new: float | None, old: float | None) -> float | None:
    return old if new is None else new


def _warn_of_deprecated(values: tuple[float | None, ...]) -> None:
    """Name the replacement of each old flag that was given. `values` are in DEPRECATED's order."""
    given = [flag for flag, value in zip(DEPRECATED, values, strict=True) if value is not None]
    if given:
        renamed = "; ".join(f"{flag} is now {DEPRECATED[flag]}" for flag in given)
        typer.echo(f"tutti: deprecated: {renamed}", err=True)


class RunOptions(NamedTuple):
    models: Path
    prefect: bool
    as_json: bool
    dry_run: bool


def _suite(wanted: "Suite", sought: dict[str, Any] | None, how: RunOptions) -> ExitCode:
    if how.dry_run:
        from tutti.tasks.sweeps.plan import dry_run as shown
        from tutti.tasks.sweeps.spec import parts

        for part in {each.benchmark: each for each in parts(wanted)}.values():
            typer.echo(shown(part))
        return ExitCode.DONE
    if sought is not None:
        from tutti.cli.sweep.search import run_search

        return run_search(wanted, sought, how.models, how.prefect, how.as_json)
    return measured(wanted, how.models, how.prefect, how.as_json)


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
