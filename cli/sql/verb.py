"""The verb `tutti sql`: a prompt on a terminal without a statement, else its statements."""

import sys
from pathlib import Path
from typing import Annotated, Literal

import typer

from tutti import storage
from tutti.cli.base.failures import UsageError
from tutti.cli.base.verbs import AsJson, verb


@verb
def sql(
    statement: Annotated[
        str | None, typer.Argument(help="SQL; `-` reads stdin; without it, a prompt opens")
    ] = None,
    output: Annotated[
        Literal["table", "csv", "json", "parquet"] | None,
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

    The store is opened read-only; only `copy … to` and --out write files.
    """
    from tutti.cli.sql.statements import read_parameters, run_sql

    parameters = read_parameters(param or ())
    chosen = "json" if as_json else output
    if statement is None and sys.stdin.isatty():
        if not sys.stdout.isatty():
            raise UsageError("nothing to run: give a statement, or `-` to read it from stdin")
        if out is not None or chosen == "parquet":
            raise UsageError("the prompt writes files by `copy (select …) to 'FILE';`")
        from tutti.cli.sql.prompt import open_prompt

        open_prompt(chosen or "table", parameters)
        return
    text = sys.stdin.read() if statement is None or statement == "-" else statement
    if not text.startswith("."):
        run_sql(text, chosen, parameters, out)
        return
    from tutti.cli.sql.prompt import Shell

    with storage.open_catalog() as catalog:
        shell = Shell(catalog.home)
    shell.command(text)
    shell.connection.close()
