"""`tutti sweep plan`: what will be reused, re-scored or run, with time and cost estimates."""

import json
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

import typer
from rich.console import Console

from tutti.cli.base.verbs import AsJson, ModelsFile, verb
from tutti.cli.sweep import suites
from tutti.tasks import nights
from tutti.tasks.sweeps import plan as planning
from tutti.tasks.sweeps import spec
from tutti.terminal import table

COLUMNS = {"policy": "left"} | dict.fromkeys(("at", "repeat", "samples"), "right")
COLUMNS |= {"action": "left", "reason": "fold", "time": "right", "USD": "right", "based on": "fold"}


@verb
def plan(
    suite: suites.SuiteName,
    models: ModelsFile,
    flags: suites.SuiteFlags,
    expert: suites.Experts = None,
    as_json: AsJson = False,
) -> None:
    """Show what a sweep, or tonight's of a night file, will reuse, re-score or run, with estimates.

    Starts nothing.
    """
    path = suites.path_of(suite)
    with suites.about(path):
        if suites.is_night_file(path, [*flags.fields().values(), expert]):
            shown = {each.name: _planned(each, models) for each in _stages(path)}
        else:
            shown = {"": _planned(suites.suite_of(suite, flags, expert), models)}
    if as_json:
        stages = {name: _as_json(planned) for name, planned in shown.items()}
        typer.echo(json.dumps(stages.get("", {"stages": stages})))
        return
    for name, planned in shown.items():
        typer.echo(name, nl=bool(name))
        _print(planned)


class _Planned(NamedTuple):
    """The plans of one suite, and the engines that they need."""

    parts: Sequence["planning.PlanEstimate"]
    engines: Mapping[str, str]


def _planned(suite: "spec.Suite", models: Path) -> _Planned:
    return _Planned(planning.PlanEstimate.of(suite, models), planning.engines_of(suite, models))


def _stages(path: Path) -> list["spec.Suite"]:
    """Return the suites of the night that a manual run would measure now."""
    file, now = nights.read_night(path), datetime.now(UTC)
    night = nights.Night(file.name, (file.planned(now) or now).date())
    return [night.suite(file, stage) for stage in file.stages]


def _as_json(planned: _Planned) -> dict[str, Any]:
    each = [_content(part) | {"engines": planned.engines} for part in planned.parts]
    return each[0] if len(each) == 1 else {"parts": each}


def _print(planned: _Planned) -> None:
    for name, line in planned.engines.items():
        typer.echo(f"engine {name}: {line}")
    for part in planned.parts:
        if len(planned.parts) > 1:
            typer.echo(f"{part.plan.suite.benchmark} with {part.plan.suite.model}")
        _show(part)


def _content(found: "planning.PlanEstimate") -> dict[str, Any]:
    of_cell = ("cell_id", "policy", "concurrency", "repeat")
    estimates = "decision reason missing unscored seconds cost_usd basis".split()
    cells = [
        {name: getattr(each.cell, name) for name in of_cell}
        | {"samples": len(each.cell.samples)}
        | {name: getattr(each, name) for name in estimates}
        for each in found.cells
    ]
    totals: dict[str, Any] = {"seconds": found.seconds, "cost_usd": found.cost_usd}
    totals |= {"measure": found.measure, "expected": found.expected}
    totals |= {"accuracy": found.expected, "detectable": found.detectable}  # the former key
    totals |= {"warnings": found.warnings}
    return {"sweep_id": found.plan.sweep_id, **totals, "cells": cells}


def _show(found: "planning.PlanEstimate") -> None:
    console = Console()
    rows = []
    for each in found.cells:
        cell = each.cell
        point = (cell.policy, cell.concurrency, cell.repeat, len(cell.samples))
        cost = (_time(each.seconds), _money(each.cost_usd), each.basis)
        rows.append((*point, each.decision, each.reason, *cost))
    console.print(table(COLUMNS, rows))
    running = [each for each in found.cells if each.missing]
    samples = sum(each.missing for each in running)
    takes = _time(found.seconds) or "unknown time"
    usd = "" if found.cost_usd is None else f", {_money(found.cost_usd)} USD"
    console.print(
        f"{len(running)} of {len(found.cells)} cells to run, {samples} samples: {takes}{usd}"
    )
    for line in found.warnings:
        console.print(f"[yellow]{line}[/]")
    if words := found.detectable_words:
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
