"""`tutti train plan`: what a training job would do, with its memory, and what is missing here."""

import json
from pathlib import Path
from typing import Annotated

import typer
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.markup import escape
from rich.padding import Padding
from rich.table import Table

from tutti import storage
from tutti.cli.failures import ExitCode
from tutti.cli.options import AsJson, ModelsFile
from tutti.cli.verbs import verb
from tutti.tasks import training

WIDTH = 80
"""Columns of the table, so that it can be put into a mail or an issue."""


@verb
def plan(
    job: Annotated[Path, typer.Argument(help="job file (YAML) of `train sft` or `train grpo`")],
    *,
    models: ModelsFile,
    as_json: AsJson = False,
) -> ExitCode:
    """Show what a training would do and need, and what is missing here. Starts nothing.

    Exit code 1 if something is missing.
    """
    found = training.plan_job(training.read_any_job(job), models, storage.current_home())
    if as_json:
        typer.echo(json.dumps(found.content))
    else:
        _show(found)
    return ExitCode.FAILED if found.missing else ExitCode.DONE


def _show(found: "training.JobPlan") -> None:
    console = Console(width=WIDTH, highlight=False)
    console.print(_table(found))
    if not found.missing:
        console.print("nothing is missing here")
        return
    console.print("missing here:")
    for each in found.missing:
        console.print(f"- {escape(each.what)}")
        console.print(Padding(escape(each.todo), (0, 0, 0, 4)))


def _table(found: "training.JobPlan") -> "Table":
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
