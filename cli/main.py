"""The command `tutti`: its verbs and their flags.

Large modules are imported inside the verbs, so that ``tutti --help`` is fast.
"""

import json
import os
import sys
from collections.abc import Callable
from typing import Annotated, Any

import typer
from rich.console import Console
from typer.core import TyperGroup

from tutti import storage
from tutti.cli import derive, generate, stages, synth, train
from tutti.cli.base.failures import ExitCode
from tutti.cli.base.flow import run_flow, show_result
from tutti.cli.base.verbs import AsFlowRun, AsJson, ModelsFile, group, verb
from tutti.cli.judge import arena, compare, contamination, score
from tutti.cli.serve import gateway, gpus, models, simulate
from tutti.cli.setup import init
from tutti.cli.sql import verb as sql_verb
from tutti.cli.store import exchange, lineage, maintenance
from tutti.cli.sweep import control, from_flags, plan, report, run
from tutti.tasks.platform import PROJECT, models_python_path
from tutti.terminal import guard_terminal

EXIT_CODES = (
    "Exit codes: 0 done and not worse; 1 failed; 2 bad usage; 3 worse, or a gate failed; "
    "4 inconclusive; 5 incomplete: run again to resume; 130 interrupted. "
    "With --exit-zero, 3, 4 and 5 become 0."
)


class InOrder(TyperGroup):
    """Lists the verbs in the order of `VERBS`."""

    def list_commands(self, ctx: Any) -> list[str]:
        return sorted(super().list_commands(ctx), key=[*VERBS].index)


# Prefect reads this when it is imported: its own progress lines would break up ours.
os.environ.setdefault("PREFECT_LOGGING_LEVEL", "WARNING")
# Without it the first run prints Prefect's notice of usage data amid its own lines, and sends them.
os.environ.setdefault("DO_NOT_TRACK", "1")

app = typer.Typer(
    cls=InOrder,
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    help="Synthesize tasks, serve models, measure agents under load, train on their trajectories.",
    epilog=EXIT_CODES,
)


def print_version(wanted: bool) -> None:
    """Print the versions of the package and of its code, and exit."""
    if wanted:
        from tutti.tasks.platform import package_version
        from tutti.tasks.platform.progress import code_version

        typer.echo(f"tutti {package_version()} (code {code_version()})")
        raise typer.Exit


@app.callback()
def with_version(
    version: Annotated[
        bool,
        typer.Option(
            "--version",
            help="print the versions of package and code, and exit",
            callback=print_version,
            is_eager=True,
        ),
    ] = False,
) -> None:
    """Synthesize tasks, serve models, measure agents under load, train on their trajectories."""


@verb
def doctor(
    quick: Annotated[bool, typer.Option(help="skip the import of vLLM (20 s)")] = False,
    as_json: AsJson = False,
) -> ExitCode:
    """Check this machine and show the command that fixes each problem."""

    from tutti.cli.setup import doctor as checks

    python = models_python_path()
    found = checks.examine(storage.current_home().root, PROJECT, python, quick=quick)
    if as_json:
        typer.echo(json.dumps([each._asdict() for each in found]))
    else:
        Console().print(checks.render(found))
        typer.echo(checks.long_fixes(found), nl=False)
    return checks.exit_code(found)


@verb
def demo(
    models: ModelsFile,
    small: Annotated[
        bool, typer.Option("--small", help="use few tasks and train for seconds")
    ] = False,
    prefect: AsFlowRun = True,
    as_json: AsJson = False,
) -> None:
    """Run the whole pipeline on this machine: tasks, index, vLLM, sweep, training, report."""

    from tutti.flows.demo import demo as flow
    from tutti.flows.demo_plan import SMALL, DemoParameters

    parameters = SMALL if small else DemoParameters()
    show_result(run_flow(flow, prefect, as_json, parameters, models), as_json)


@verb
def ui(
    port: Annotated[
        int | None, typer.Option(help="the UI's port (PREFECT_SERVER_API_PORT, or 4200)")
    ] = None,
) -> ExitCode:
    """Run Prefect's server with its UI, the workers and the deployments until Ctrl-C."""
    from tutti.cli.setup.ui import main as run_ui

    return run_ui(port)


SWEEP = {
    "plan": plan.plan,
    "run": run.run,
    "search": run.search,
    "status": control.status,
    "pause": control.pause,
    "resume": control.resume,
    "cancel": control.cancel,
}
VERBS: dict[str, Callable[..., None] | typer.Typer] = {
    "init": init.init,
    "doctor": doctor,
    "models": models.show_models,
    "gpus": gpus.show_gpus,
    "run": from_flags.run,
    "generate": generate.generate,
    "demo": demo,
    "sweep": group(SWEEP, "Plan, run and control sweeps."),
    "report": report.report,
    "sql": sql_verb.sql,
    "compare": compare.compare,
    "score": score.score,
    "gate": compare.gate,
    "view": exchange.view,
    "synth": synth.synth,
    "derive": derive.derive,
    "index": stages.index,
    "serve": stages.serve,
    "gateway": gateway.gateway,
    "simulate": simulate.simulate,
    "train": group(train.VERBS, "Train models."),
    "ui": ui,
    "import": exchange.import_,
    "export": exchange.export,
    "lineage": lineage.lineage,
    "compact": maintenance.compact,
    "verify": maintenance.verify,
    "expire": maintenance.expire,
    "arena": arena.arena,
    "contamination": contamination.contamination,
}
for name, command in VERBS.items():
    if isinstance(command, typer.Typer):
        app.add_typer(command, name=name)
    else:
        app.command(name)(command)


def main() -> None:
    """The entry point of the console script."""
    code: int | str | None = 0
    guard_terminal()
    try:
        app()
    except SystemExit as ended:
        code = ended.code
    if "prefect" in sys.modules:
        # Prefect's daemon threads keep frames alive into the interpreter's teardown, where DuckDB's
        # binding then lists them as leaks on the user's terminal. Everything is closed by now.
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code if isinstance(code, int) else 1)
    raise SystemExit(code)


if __name__ == "__main__":
    main()
