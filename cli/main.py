"""The command `tutti`: its verbs and their flags.

Large modules are imported inside the verbs, so that ``tutti --help`` is fast.
"""

import json
import os
import sys
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from tutti.cli import derive, generate, synth
from tutti.cli.failures import guarded
from tutti.cli.flow import run_flow, show_result
from tutti.cli.judge import arena, compare, contamination, gate, score
from tutti.cli.options import AsJson, ModelsFile, minutes_of
from tutti.cli.serve import gateway, gpus, models, simulate
from tutti.cli.setup import init
from tutti.cli.store import exchange, lineage, maintenance
from tutti.cli.sweep import cancel, from_flags, pause, plan, report, run, search
from tutti.cli.train import app as train_app
from tutti.tasks.project import PROJECT, models_python_path
from tutti.terminal import guard_terminal

ORDER = (
    *(
        "init",
        "doctor",
        "models",
        "gpus",
        "run",
        "generate",
        "demo",
        "sweep",
        "report",
        "sql",
        "compare",
    ),
    *("score", "gate", "view", "synth", "derive", "index", "serve", "gateway", "simulate"),
    *("train", "ui"),
    *("import", "export", "lineage", "compact", "verify", "expire"),
)
"""The verbs in the order of work."""


EXIT_CODES = (
    "Exit codes: 0 done and not worse; 1 failed; 2 bad usage; 3 worse, or a gate failed; "
    "4 inconclusive; 5 incomplete: run again to resume; 130 interrupted. "
    "With --exit-zero, 3, 4 and 5 become 0."
)


class InOrder(TyperGroup):
    """Lists the verbs in `ORDER`; others follow."""

    def list_commands(self, ctx: Any) -> list[str]:
        """The names of the verbs."""
        known = super().list_commands(ctx)
        return sorted(known, key=lambda name: ORDER.index(name) if name in ORDER else len(ORDER))


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
sweep_app = typer.Typer(no_args_is_help=True, help="Plan, run and control sweeps.")
app.add_typer(sweep_app, name="sweep")
app.add_typer(train_app, name="train")
init.register(app)
from_flags.register(app)
generate.register(app)
lineage.register(app)
gateway.register(app)
simulate.register(app)
synth.register(app)
derive.register(app)
score.register(app)
report.register(app)
compare.register(app)
arena.register(app)
contamination.register(app)
gate.register(app)
exchange.register(app)
maintenance.register(app)
models.register(app)
gpus.register(app)
plan.register(sweep_app)
run.register(sweep_app)
search.register(sweep_app)
pause.register(sweep_app)
cancel.register(sweep_app)


class Format(StrEnum):
    """The output formats of `tutti sql`."""

    table = "table"
    csv = "csv"
    json = "json"
    parquet = "parquet"


def print_version(wanted: bool) -> None:
    """Print the versions of the package and of its code, and exit."""
    if wanted:
        from tutti.tasks.project import package_version
        from tutti.tasks.runs import code_version

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


@app.command()
def doctor(
    quick: Annotated[bool, typer.Option(help="skip the import of vLLM (20 s)")] = False,
    as_json: AsJson = False,
) -> None:
    """Check this machine and show the command that fixes each problem."""
    from rich.console import Console

    from tutti.cli.setup import doctor as checks
    from tutti.cli.setup.fixes import long_fixes
    from tutti.storage import current_home

    python = models_python_path()
    found = checks.examine(current_home().root, PROJECT, python, quick=quick)
    if as_json:
        typer.echo(json.dumps(checks.as_json(found)))
    else:
        Console().print(checks.render(found))
        typer.echo(long_fixes((each.name, each.fix) for each in found), nl=False)
    raise typer.Exit(checks.exit_code(found))


@app.command()
def demo(
    models: ModelsFile,
    small: Annotated[
        bool, typer.Option("--small", help="use few tasks and train for seconds")
    ] = False,
    prefect: Annotated[bool, typer.Option(help="run as a Prefect flow run")] = True,
    as_json: AsJson = False,
) -> None:
    """Run the whole pipeline on this machine: tasks, index, vLLM, sweep, training, report."""

    def work() -> None:
        from tutti.flows.demo import demo as flow
        from tutti.flows.demo_plan import SMALL, DemoParameters

        parameters = SMALL if small else DemoParameters()
        show_result(run_flow(flow, prefect, as_json, parameters, models), as_json)

    guarded(work)


@app.command()
def index(
    folder: Annotated[
        Path | None,
        typer.Argument(
            help="a folder or file of documents (markdown, text, HTML, PDF, JSONL); "
            "default: the standard library's documentation"
        ),
    ] = None,
    words: Annotated[bool, typer.Option("--words", help="also build BM25")] = False,
    embed_url: Annotated[
        str, typer.Option(help="embed by this OpenAI-compatible endpoint, ending in /v1")
    ] = "",
    embed_model: Annotated[str, typer.Option(help="the endpoint's model")] = "",
    embed_dimensions: Annotated[int, typer.Option(min=0, help="the width of its vectors")] = 0,
    query_template: Annotated[
        str, typer.Option(help="the embedded text of a query, with an instruction if it needs one")
    ] = "{query}",
    faiss: Annotated[
        Path | None,
        typer.Option(help="import this FAISS index of the JSONL file instead of embedding it"),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Build an index of documents and measure its recall."""

    def work() -> None:
        from tutti.cli.stages import build_index

        asked: dict[str, Any] = {"words": words, "query_template": query_template}
        asked |= {"embed_url": embed_url, "embed_model": embed_model}
        asked |= {"embed_dimensions": embed_dimensions, "faiss": str(faiss or "")}
        asked |= {} if folder is None else {"corpus": str(folder)}
        typer.echo(build_index(asked, as_json))

    guarded(work)


@app.command()
def serve(
    model: Annotated[str, typer.Argument(help="a model in the registry")] = "pocket",
    port: Annotated[int | None, typer.Option(help="the gateway's port (a free one)")] = None,
    keep: Annotated[
        str,
        typer.Option(
            help="let other runs use the engine, and end when idle for so long: 30m, 2h, 90s",
            metavar="TIME",
        ),
    ] = "",
    *,
    models: ModelsFile,
    as_json: AsJson = False,
) -> None:
    """Serve a model behind the gateway until Ctrl-C."""

    def work() -> None:
        from tutti.cli.stages import serve_model

        serve_model(model, models, port, as_json, minutes_of(keep) if keep else 0.0)

    guarded(work)


@app.command()
def ui(
    port: Annotated[
        int | None, typer.Option(help="the UI's port (PREFECT_SERVER_API_PORT, or 4200)")
    ] = None,
) -> None:
    """Run Prefect's server with its UI, the workers and the deployments until Ctrl-C."""
    from tutti.cli.setup.ui import main as run_ui

    raise typer.Exit(run_ui([] if port is None else ["--port", str(port)]))


@sweep_app.command("status")
def sweep_status(
    sweep: Annotated[str, typer.Argument(help="a sweep's id or name (all)")] = "",
    as_json: AsJson = False,
) -> None:
    """Show the state of each cell and the number of its finished samples."""

    def work() -> None:
        from tutti.cli.local import show_status

        show_status(sweep, as_json)

    guarded(work)


@app.command()
def sql(
    statement: Annotated[
        str | None, typer.Argument(help="SQL; `-` reads stdin; without it, a prompt opens")
    ] = None,
    output: Annotated[
        Format | None,
        typer.Option("--format", help="output format (table, or by the suffix of --out)"),
    ] = None,
    param: Annotated[
        list[str] | None,
        typer.Option(help="name=value sets $name in the SQL; JSON or text; repeatable"),
    ] = None,
    out: Annotated[Path | None, typer.Option(help="write the rows to this file")] = None,
    as_json: AsJson = False,
) -> None:
    """Query the store in SQL, with macros such as window_summary.

    The store is opened read-only; `copy … to` and --out write the files that you name.
    """

    def work() -> None:
        from tutti.cli.sql.verb import run_verb

        chosen = "json" if as_json else output and output.value
        run_verb(statement, chosen, param or (), out)

    guarded(work)


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
