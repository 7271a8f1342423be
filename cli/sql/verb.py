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
        if text.startswith("."):
            _run_command(text.strip())
            return
        run_sql(text, output, parameters, out)


def _run_command(text: str) -> None:
    """Run a command of the prompt, such as `.schema attempts`."""
    from tutti.cli.sql.commands import run_command
    from tutti.cli.sql.prompt import say, show
    from tutti.cli.sql.rows import TerminalStyle
    from tutti.cli.sql.shell import Shell
    from tutti.cli.sql.statements import look_of
    from tutti.storage import open_catalog

    def look() -> TerminalStyle:
        return look_of(sys.stdout) if sys.stdout.isatty() else TerminalStyle(80)

    with open_catalog() as catalog:
        shell = Shell(catalog, show, say, look)
        run_command(shell, text)
        shell.connection.close()
