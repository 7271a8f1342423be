"""`tutti simulate`: what another policy, more engines or more KV cache would do, without a GPU.

In: a recorded cell, or a plan file of a synthetic load. Out: a table (or JSON), a line a policy;
for a cell first how well the simulator tells the run that was made.
"""

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tutti.cli.failures import UsageError, guarded

if TYPE_CHECKING:
    from tutti.tasks.serving.simulation import (
        Calibration,
        Progress,
        Replay,
        Residual,
        SimulationPlan,
    )

AsJson = Annotated[bool, typer.Option("--json", help="print JSON instead of text")]
COLUMNS = (
    ("steps/min", "{steps_per_min_all:,.0f}"),
    ("hit", "{hit_share:.0%}"),
    ("call p50, p95 s", "{latency_p50_s:.2f}, {latency_p95_s:.2f}"),
    ("held p50, p95 s", "{held_p50_s:.2f}, {held_p95_s:.2f}"),
    ("fair", "{jain:.2f}"),
    ("engine-h", "{engine_hours:.3f}"),
)
"""Of the table; JSON has every figure."""


def register(app: typer.Typer) -> None:
    """Add the verb."""
    app.command()(simulate)


def simulate(
    cell: Annotated[str, typer.Argument(help="a recorded cell, to be run again")] = "",
    plan: Annotated[
        Path | None, typer.Option(help="a YAML file of a synthetic load, instead of a cell")
    ] = None,
    policy: Annotated[
        list[str] | None,
        typer.Option(help="as in adaptive or cap:8; may be repeated; the cell's if left out"),
    ] = None,
    engines: Annotated[
        int | None, typer.Option(min=1, help="engines; as recorded if left out")
    ] = None,
    kv_tokens: Annotated[
        int | None, typer.Option(min=64, help="KV cache of each engine; as recorded if left out")
    ] = None,
    sessions: Annotated[
        int | None, typer.Option(min=1, help="programs at a time; as recorded if left out")
    ] = None,
    calibration: Annotated[
        Path | None, typer.Option(help="a file of --save-calibration, instead of fitting the cell")
    ] = None,
    save_calibration: Annotated[
        Path | None, typer.Option(help="write the fitted constants of the engine there")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Simulate a recorded cell, or a plan, under other policies, engines or KV sizes."""

    def work() -> None:
        if bool(cell) == (plan is not None):
            raise UsageError("give a CELL or --plan FILE, one of the two")
        if plan is not None and (calibration or save_calibration):
            raise UsageError("a plan names its calibration itself: engine: FILE")
        sizes = {"engines": engines, "kv_tokens": kv_tokens, "sessions": sessions}
        if plan is not None:
            _run_plan(plan, policy or [], sizes, as_json)
        else:
            _run_cell(cell, policy or [], sizes, calibration, save_calibration, as_json)

    guarded(work)


def _run_cell(
    cell: str,
    policies: Sequence[str],
    sizes: dict[str, int | None],
    calibration: Path | None,
    save: Path | None,
    as_json: bool,
) -> None:
    from tutti.tasks.serving.simulation import load_recording, read_calibration, replay

    known = None if calibration is None else read_calibration(calibration)
    found = replay(load_recording(cell), policies, **sizes, calibration=known)
    if save is not None:
        found.calibration.write(save)
    if as_json:
        typer.echo(json.dumps(found.as_json()))
    else:
        _show_replay(found)


def _run_plan(
    path: Path, policies: Sequence[str], sizes: dict[str, int | None], as_json: bool
) -> None:
    from tutti.tasks.serving.simulation import SimulationPlan, read_plan

    given = {name: value for name, value in sizes.items() if value is not None}
    if policies:
        given["policies"] = tuple(policies)  # type: ignore[assignment]
    plan = SimulationPlan.model_validate({**dict(read_plan(path)), **given})
    rows = []
    for policy in plan.policies:
        with _progress(f"simulating {policy}", plan.load().programs) as show:
            outcome = plan.run(policy, show)
        hours = plan.engines * outcome.makespan_s / 3600.0
        rows.append(outcome.figures() | {"policy": policy, "engine_hours": hours})
    if as_json:
        typer.echo(json.dumps({"plan": str(path), "engines": plan.engines, "runs": rows}))
    else:
        _show_rows(rows, _title(plan))


@contextmanager
def _progress(title: str, total: int) -> "Iterator[Progress]":
    """A bar on the terminal's standard error; nothing where that is no terminal."""
    from rich.console import Console
    from rich.progress import Progress

    with Progress(console=Console(stderr=True), transient=True) as bars:
        task = bars.add_task(title, total=total)
        yield lambda done, _: bars.update(task, completed=done)


def _title(plan: "SimulationPlan") -> str:
    work = plan.load()
    offered = f"{plan.sessions} sessions"
    if plan.sessions is None:
        offered = f"{work.arrivals_per_s:g} arrivals/s"
    return f"{work.programs:,} programs, {offered}, {plan.engines} engines"


def _show_replay(found: "Replay") -> None:
    kv = found.calibration.engine.kv_tokens
    typer.echo(_validation(found.validation, found.calibration))
    was = found.measured
    typer.echo(
        f"measured: {was.steps_per_min_all:,.0f} steps/min, call p50 {was.latency_p50_s:.2f} s, "
        f"p95 {was.latency_p95_s:.2f} s, hit {was.hit_share:.0%} ({kv:,} KV tokens fitted)"
    )
    title = f"{found.programs:,} programs, {found.sessions} sessions, {found.engines} engines"
    _show_rows([run.figures() for run in found.runs], title)


def _validation(residual: "Residual", calibration: "Calibration") -> str:
    return (
        f"validation ({residual.policy}, {residual.calls} calls; simulated over measured): "
        f"steps/min {residual.steps_per_min:+.1%}, call p50 {residual.latency_p50:+.1%}, "
        f"p95 {residual.latency_p95:+.1%}, hit {residual.hit_share * 100:+.1f} points; "
        f"constants from {calibration.calls} calls"
    )


def _show_rows(rows: Sequence[dict[str, Any]], title: str) -> None:
    from rich.console import Console
    from rich.table import Table

    table = Table("policy", title=title, title_justify="left")
    for name, _ in COLUMNS:
        table.add_column(name, justify="right")
    for row in rows:
        table.add_row(row["policy"], *(form.format(**row) for _, form in COLUMNS))
    Console().print(table)
