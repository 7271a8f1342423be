"""`tutti simulate`: predicts other policies, engine counts and KV sizes, without a GPU.

In: a recorded cell. Out: a table (or JSON) with a row per policy. The simulator's error against
the recorded run is printed first.
"""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console

from tutti.cli.base.verbs import AsJson, verb
from tutti.terminal import table

if TYPE_CHECKING:
    from tutti.tasks.serving import simulation

COLUMNS = (
    ("steps/min", "{steps_per_min_all:,.0f}"),
    ("hit", "{hit_share:.0%}"),
    ("call p50, p95 s", "{latency_p50_s:.2f}, {latency_p95_s:.2f}"),
    ("held p50, p95 s", "{held_p50_s:.2f}, {held_p95_s:.2f}"),
    ("engine-h", "{engine_hours:.3f}"),
)
"""The columns of the table; JSON has every figure."""


@verb
def simulate(
    cell: Annotated[str, typer.Argument(help="a recorded cell to replay")],
    policy: Annotated[
        list[str] | None,
        typer.Option(help="adaptive or cap:8, for example; repeatable (the cell's)"),
    ] = None,
    engines: Annotated[
        int | None, typer.Option(min=1, help="number of engines (as recorded)")
    ] = None,
    kv_tokens: Annotated[
        int | None, typer.Option(min=64, help="KV cache tokens per engine (as recorded)")
    ] = None,
    sessions: Annotated[
        int | None, typer.Option(min=1, help="concurrent programs (as recorded)")
    ] = None,
    calibration: Annotated[
        Path | None,
        typer.Option(help="use a file of --save-calibration instead of fitting the cell"),
    ] = None,
    save_calibration: Annotated[
        Path | None, typer.Option(help="write the fitted engine constants to this file")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Simulate a recorded cell under other policies, engine counts or KV sizes."""
    from tutti.tasks.serving import simulation

    known = None if calibration is None else simulation.read_calibration(calibration)
    recording = simulation.load_recording(cell)
    found = simulation.replay(
        recording, policy or (), known, engines=engines, kv_tokens=kv_tokens, sessions=sessions
    )
    if save_calibration is not None:
        found.calibration.write(save_calibration)
    if as_json:
        typer.echo(json.dumps(found.as_json()))
    else:
        _show_replay(found)


def _show_replay(found: "simulation.Replay") -> None:
    kv = found.calibration.engine.kv_tokens
    error, was = found.validation, found.measured
    typer.echo(
        f"validation ({error.policy}, {error.calls} calls; simulated over measured): "
        f"steps/min {error.steps_per_min:+.1%}, call p50 {error.latency_p50:+.1%}, "
        f"p95 {error.latency_p95:+.1%}, hit {error.hit_share * 100:+.1f} points; "
        f"constants from {found.calibration.calls} calls"
    )
    typer.echo(
        f"measured: {was.steps_per_min_all:,.0f} steps/min, call p50 {was.latency_p50_s:.2f} s, "
        f"p95 {was.latency_p95_s:.2f} s, hit {was.hit_share:.0%} ({kv:,} KV tokens fitted)"
    )
    title = f"{found.programs:,} programs, {found.sessions} sessions, {found.engines} engines"
    rows = [run.figures() for run in found.runs]
    columns = {"policy": "left"} | dict.fromkeys((name for name, _ in COLUMNS), "right")
    cells = ((row["policy"], *(form.format(**row) for _, form in COLUMNS)) for row in rows)
    Console().print(table(columns, cells, title))
