"""`tutti train plan`: what a training job would do, with its memory, and what is missing here."""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tutti.cli.failures import ExitCode, guarded
from tutti.cli.options import AsJson, ModelsFile

if TYPE_CHECKING:
    from rich.table import Table

    from tutti.tasks.training import JobPlan

WIDTH = 80
"""Columns of the table, so that it can be put into a mail or an issue."""


def register(train_app: typer.Typer) -> None:
    """Add the verb."""
    train_app.command("plan")(plan)


def plan(
    job: Annotated[Path, typer.Argument(help="job file (YAML) of `train sft` or `train grpo`")],
    *,
    models: ModelsFile,
    as_json: AsJson = False,
) -> None:
    """Show what a training would do and need, and what is missing here. Starts nothing.

    Exit code 1 if something is missing.
    """

    def work() -> None:
        from tutti.storage import current_home
        from tutti.tasks.training import plan_job, read_any_job

        found = plan_job(read_any_job(job), models, current_home())
        if as_json:
            typer.echo(json.dumps(found.content))
        else:
            _show(found)
        if found.missing:
            raise typer.Exit(ExitCode.FAILED)

    guarded(work)


def _show(found: "JobPlan") -> None:
    from rich.console import Console
    from rich.markup import escape
    from rich.padding import Padding

    console = Console(width=WIDTH, highlight=False)
    console.print(_table(found))
    if not found.missing:
        console.print("nothing is missing here")
        return
    console.print("missing here:")
    for each in found.missing:
        console.print(f"- {escape(each.what)}")
        console.print(Padding(escape(each.todo), (0, 0, 0, 4)))


def _table(found: "JobPlan") -> "Table":
    from rich.box import SIMPLE_HEAD
    from rich.markup import escape
    from rich.table import Table

    table = Table(box=SIMPLE_HEAD, title=f"plan of {found.name}", title_justify="left",
                  pad_edge=False, collapse_padding=True, show_header=False)  # fmt: skip
    table.add_column(no_wrap=True)
    table.add_column(overflow="fold", max_width=20)
    table.add_column(overflow="fold")
    before = ""
    for fact in found.facts:
        part = "" if fact.part == before else fact.part
        table.add_row(part, escape(fact.name.replace("_", " ")), escape(fact.text))
        before = fact.part
    return table
