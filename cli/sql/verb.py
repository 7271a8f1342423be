"""The verb `tutti sql`: a prompt where nothing is asked on a terminal, else its statements."""

import sys
from collections.abc import Iterable
from pathlib import Path

from tutti.cli.failures import UsageError
from tutti.cli.sql.statements import read_parameters, run_sql


def run_verb(
    statement: str | None, output: str | None, given: Iterable[str], out: Path | None
) -> None:
    """The verb: a prompt where nothing is asked on a terminal, else `run_sql`."""
    parameters = read_parameters(given)
    if statement is None and sys.stdin.isatty():
        if not sys.stdout.isatty():
            raise UsageError("nothing to run: give a statement, or `-` to read it from stdin")
        from tutti.cli.sql.prompt import open_prompt

        open_prompt(output or "table", parameters, out)
    else:
        text = sys.stdin.read() if statement is None or statement == "-" else statement
        run_sql(text, output, parameters, out)
