"""`tutti sweep plan`: what will be reused, re-scored or run, with time and cost estimates."""

import json
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tutti.cli.failures import guarded
from tutti.cli.options import ModelsFile
from tutti.cli.sweep import suites

if TYPE_CHECKING:
    from tutti.tasks.sweeps.plan import PlanEstimate


def register(sweep_app: typer.Typer) -> None:
    """Add the verb."""
    sweep_app.command("plan")(plan)


def plan(
    suite: suites.SuiteName,
    models: ModelsFile,
    model: suites.Model = None,
    concurrency: suites.Concurrency = "",
    policies: suites.Policies = "",
    source: suites.Source = None,
    limit: suites.Limit = None,
    temperature: suites.Temperature = None,
    max_tokens: suites.MaxTokens = None,
    ids: suites.Ids = "",
    where: suites.Where = None,
    judge: suites.Judge = None,
    user: suites.User = None,
    agent: suites.Agent = None,
    expert: suites.Experts = None,
    as_json: Annotated[bool, typer.Option("--json", help="print JSON instead of text")] = False,
) -> None:
    """Show what a sweep will reuse, re-score or run, with estimates. Starts nothing."""

    def work() -> None:
        from tutti.tasks.sweeps.plan import engines_of, outlook

        chosen: dict[str, Any] = {"source": source, "limit": limit, "where": where}
        chosen |= {"judge": judge, "user": user, "agent": agent, "model": model}
        chosen |= {"temperature": temperature, "max_tokens": max_tokens}
        chosen |= {"policies": suites.names_in(policies)}
        chosen |= {"concurrency": suites.levels_in(concurrency)}
        with suites.about(suites.path_of(suite)):
            asked = suites.suite_of(suite, ids, expert, **chosen)
            found, engines = outlook(asked, models), engines_of(asked, models)
        if as_json:
            each = [_content(part) | {"engines": engines} for part in found]
            typer.echo(json.dumps(each[0] if len(each) == 1 else {"parts": each}))
            return
        for name, line in engines.items():
            typer.echo(f"engine {name}: {line}")
        for part in found:
            if len(found) > 1:
                typer.echo(f"{part.plan.suite.benchmark} with {part.plan.suite.model}")
            _show(part)

    guarded(work)


def _content(found: "PlanEstimate") -> dict[str, Any]:
    cells = [
        {
            "cell_id": each.cell.cell_id,
            "policy": each.cell.policy,
            "concurrency": each.cell.concurrency,
            "repeat": each.cell.repeat,
            "decision": each.decision,
            "reason": each.reason,
            "samples": len(each.cell.samples),
            "missing": each.missing,
            "seconds": each.seconds,
            "cost_usd": each.cost_usd,
            "basis": each.basis,
        }
        for each in found.cells
    ]
    from tutti.tasks.sweeps.plan import greedy_line

    totals: dict[str, Any] = {"seconds": found.seconds, "cost_usd": found.cost_usd}
    totals |= {"measure": found.measure, "expected": found.expected}
    totals |= {"accuracy": found.expected, "detectable": found.detectable}  # the former key
    totals |= {"warnings": [line] if (line := greedy_line(found.plan)) else []}
    return {"sweep_id": found.plan.sweep_id, **totals, "cells": cells}


def _show(found: "PlanEstimate") -> None:
    from rich.box import SIMPLE_HEAD
    from rich.console import Console
    from rich.table import Table

    from tutti.tasks.sweeps.plan import detectable_words, greedy_line

    console = Console()
    table = Table(box=SIMPLE_HEAD, pad_edge=False, collapse_padding=True)
    for title in (
        "policy",
        "at",
        "repeat",
        "samples",
        "action",
        "reason",
        "time",
        "USD",
        "based on",
    ):
        right = title in ("at", "repeat", "samples", "time", "USD")
        table.add_column(
            title, justify="right" if right else "left", no_wrap=title not in ("reason", "based on")
        )
    for each in found.cells:
        cell = each.cell
        point = (cell.policy, cell.concurrency, cell.repeat, len(cell.samples))
        takes, usd = _time(each.seconds), _money(each.cost_usd)
        table.add_row(*map(str, point), each.decision, each.reason, takes, usd, each.basis)
    console.print(table)
    running = [each for each in found.cells if each.missing]
    samples = sum(each.missing for each in running)
    takes = _time(found.seconds) or "unknown time"
    usd = "" if found.cost_usd is None else f", {_money(found.cost_usd)} USD"
    console.print(
        f"{len(running)} of {len(found.cells)} cells to run, {samples} samples: {takes}{usd}"
    )
    if line := greedy_line(found.plan):
        console.print(f"[yellow]{line}[/]")
    if words := detectable_words(found.measure, found.expected, found.detectable):
        console.print(words)


def _time(seconds: float | None) -> str:
    if seconds is None:
        return ""
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    if hours:
        return f"{hours} h {minutes:02d} min"
    return f"{minutes} min {rest:02d} s" if minutes else f"{rest} s"


def _money(usd: float | None) -> str:
    return "" if usd is None else f"{usd:.2f}"
