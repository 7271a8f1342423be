"""`tutti sweep run`: measure a suite; find the highest concurrency it bears; measure a night."""

import json
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer

from tutti.cli.failures import UsageError, guarded
from tutti.cli.flow import run_flow
from tutti.cli.judge.compare import INCONCLUSIVE
from tutti.cli.sweep import suites
from tutti.tasks.project import MODELS

if TYPE_CHECKING:
    from tutti.tasks.sweeps.spec import Suite


def register(sweep_app: typer.Typer) -> None:
    """Add the verb."""
    sweep_app.command("run")(run)


def run(
    suite: suites.SuiteName,
    models: Annotated[Path, typer.Option(help="the model registry file")] = MODELS,
    source: suites.Source = None,
    limit: suites.Limit = None,
    ids: suites.Ids = "",
    where: suites.Where = None,
    judge: suites.Judge = None,
    user: suites.User = None,
    agent: suites.Agent = None,
    expert: suites.Experts = None,
    unsafe_sandbox: suites.UnsafeSandbox = None,
    minutes: suites.Minutes = None,
    usd: suites.Usd = None,
    find: Annotated[
        bool, typer.Option("--find", help="search the highest concurrency that keeps what follows")
    ] = False,
    latency: Annotated[
        float | None, typer.Option(help="of --find: p95 of step latency at most, s (2)")
    ] = None,
    accuracy: Annotated[float | None, typer.Option(help="of --find: at least, 0 to 1")] = None,
    lowest: Annotated[
        int | None, typer.Option(help="of --find: first level (the suite's lowest)")
    ] = None,
    highest: Annotated[int | None, typer.Option(help="of --find: last level (64)")] = None,
    night: Annotated[
        datetime | None,
        typer.Option(formats=["%Y-%m-%d"], help="of a night file: its date (the last planned)"),
    ] = None,
    dry_run: Annotated[bool, typer.Option(help="print the first prompt and end")] = False,
    prefect: Annotated[bool, typer.Option(help="run as a Prefect flow run")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="print JSON instead of text")] = False,
) -> None:
    """Measure what is missing of a suite's cells and report them.

    Exit code 3 where a cell is not measured whole, a search is not decided, a night is not good.
    """
    chosen: dict[str, Any] = {"source": source, "limit": limit, "where": where}
    chosen |= {"judge": judge, "user": user, "agent": agent, "unsafe_sandbox": unsafe_sandbox}
    budget = {n: v for n, v in (("minutes", minutes), ("usd", usd)) if v is not None}
    sought = {"step_latency_p95": latency, "accuracy": accuracy}
    sought |= {"lowest": lowest, "highest": highest}
    how = _How(models, prefect, as_json, dry_run)

    def work() -> bool:
        path = suites.path_of(suite)
        if _is_night(path):
            given = [*chosen.values(), *sought.values(), ids, expert, dry_run, find, budget]
            return _night(path, given, night, how)
        if night is not None:
            raise UsageError(f"--night: {path} is a suite; only a night file has nights")
        if not find and any(value is not None for value in sought.values()):
            raise UsageError("--latency, --accuracy, --lowest and --highest are of --find")
        with suites.about(path):
            wanted = suites.suite_of(suite, ids, expert, **chosen)
            return _suite(_within(wanted, budget), sought if find else None, how)

    if not guarded(work):
        raise typer.Exit(INCONCLUSIVE)


def _within(suite: "Suite", budget: dict[str, float]) -> "Suite":
    from tutti.tasks.sweeps.spec import with_fields

    return with_fields(suite, {"budget": suite.budget.model_dump() | budget} if budget else {})


class _How(NamedTuple):
    models: Path
    prefect: bool
    as_json: bool
    dry_run: bool


def _night(path: Path, given: list[Any], night: datetime | None, how: _How) -> bool:
    """A night's suites are in its file: flags that change one would change none."""
    if any(given):
        raise UsageError(f"{path} is a night file: its stages say what is measured")
    from tutti.cli.sweep.night import run_night

    return run_night(path, how.models, how.prefect, how.as_json, night and night.date())


def _suite(wanted: "Suite", sought: dict[str, Any] | None, how: _How) -> bool:
    if how.dry_run:
        from tutti.tasks.sweeps.plan import dry_run as shown
        from tutti.tasks.sweeps.spec import parts

        for part in {each.benchmark: each for each in parts(wanted)}.values():
            typer.echo(shown(part))
        return True
    if sought is not None:
        from tutti.cli.sweep.find import run_find

        return run_find(wanted, sought, how.models, how.prefect, how.as_json) == 0
    return _measured(wanted, how.models, how.prefect, how.as_json)


def _is_night(path: Path) -> bool:
    from tutti.tasks.nights import is_night

    return path.is_file() and is_night(path)


def _measured(suite: "Suite", models: Path, prefect: bool, as_json: bool) -> bool:
    """Run the sweep; whether all of it is measured."""
    import sqlalchemy as sa

    from tutti.flows.sweep import eval_sweep
    from tutti.storage import catalog as cat
    from tutti.storage import open_catalog
    from tutti.tasks.sweeps.plan import A_A
    from tutti.tasks.sweeps.spec import parts

    sweep_id = run_flow(eval_sweep, prefect, as_json, suite, models)
    cells = cat.cells.c
    unfinished = sa.select(cells.cell_id).where(
        cells.sweep_id == sweep_id,
        cells.status.in_(("planned", "running", "incomplete")),
        cells.policy.in_(suite.policies),  # what an earlier plan of the sweep had is not asked for
        cells.concurrency.in_(suite.concurrency),
        cells.repeat < suite.repeats,
        cells.repeat >= (A_A if suite.a_a else 0),
        cells.benchmark.in_([part.benchmark_name for part in parts(suite)]),
    )
    with open_catalog() as catalog:
        left = len(catalog.rows(unfinished))
    if as_json:
        typer.echo(json.dumps({"sweep_id": sweep_id, "unfinished_cells": left}))
    elif left:
        typer.echo(f"{left} cells are not measured whole; the same command goes on", err=True)
    return not left
