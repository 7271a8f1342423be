"""`tutti sql` without a statement: a prompt with history, completion, highlighting and paging.

In: lines at a terminal, SQL or commands that start with a dot. Out: rows, through the user's pager
when they are longer than the screen, and messages.
"""

import os
import re
import sys
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

import click
import duckdb
from prompt_toolkit import PromptSession
from prompt_toolkit.auto_suggest import AutoSuggestFromHistory
from prompt_toolkit.enums import DEFAULT_BUFFER
from prompt_toolkit.filters import has_focus
from prompt_toolkit.history import FileHistory
from prompt_toolkit.input import Input
from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent
from prompt_toolkit.lexers import PygmentsLexer
from prompt_toolkit.output import Output
from pygments.lexers.sql import PostgresLexer

from tutti.cli.base.failures import UsageError, exit_code_of, message_of
from tutti.cli.sql.completion import Names, SqlCompleter
from tutti.cli.sql.rows import TEXT_FORMATS, Rows, as_table
from tutti.cli.sql.statements import counted, run_statement, terminal_width
from tutti.storage import Home, connect, meaning, open_catalog

PAGER_SETTINGS = "SRFX"  # of less: chop, colours, leave if it is short, keep the screen
NO_TERMINAL_COLUMNS = 80
LEAVING = ("exit", "quit", ".quit")
HELP = """\
.help            this list
.tables          tables with their rows and parts, and macros
.schema NAME     columns, types and meanings of a table or macro
.format FORMAT   show rows as table, csv or json
.refresh         see newer rows; tables of this session are lost
.quit            leave, as Ctrl-D does
SQL runs once it ends with a semicolon. Ctrl-C clears the line or stops a query.
To write a file: copy (select …) to 'FILE';
"""


def show(pieces: Iterable[str]) -> None:
    """Print text, through the pager on a terminal."""
    if sys.stdout.isatty():
        os.environ.setdefault("LESS", PAGER_SETTINGS)
        click.echo_via_pager(pieces, color=True)
    else:
        sys.stdout.writelines(pieces)


@dataclass
class Shell:
    """One session: a connection, a format and parameters."""

    home: Home
    output: str = "table"
    parameters: dict[str, Any] = field(default_factory=dict)
    show: Callable[[Iterable[str]], None] = show
    say: Callable[[str], None] = print
    done: bool = False

    def __post_init__(self) -> None:
        self.connect()

    def connect(self) -> None:
        """Open the store in its current state; the session's own tables and settings are lost."""
        self.connection = connect(self.home)
        self.names = Names.of(self.connection)
        totals = self.connection.execute('select sum("rows")::bigint, count(*) from parts')
        ((rows, parts),) = totals.fetchall()
        self.summary = f"{self.home}: {counted(rows or 0)} in {parts:,} parts"

    def line(self, text: str) -> None:
        """Run one text; an expected error becomes a message."""
        try:
            if text.rstrip(";").strip() in LEAVING:
                self.done = True
            elif text.startswith("."):
                self.command(text)
            else:
                for statement in self.connection.extract_statements(text):
                    self._run(statement)
        except KeyboardInterrupt:
            self.say("interrupted")
        except Exception as error:
            if exit_code_of(error) is None:
                raise  # a bug: its traceback is shown
            self.say(message_of(error))

    def _run(self, statement: duckdb.Statement) -> None:
        words = run_statement(
            self.connection, statement, self.parameters, self.output, show=self.show
        )
        if words is None:
            self.names = Names.of(self.connection)
        self.say(words or "done")

    def command(self, text: str) -> None:
        """Run a line such as `.schema attempts`. Raises UsageError for an unknown command."""
        match text.rstrip(";").split():
            case [".help"]:
                self.show([HELP])
            case [".tables"]:
                sql = (
                    'select "table", sum("rows")::bigint as "rows", count("rows") as parts from '
                    '(select unnest($1) as "table") left join parts on "table" = table_name '
                    "group by all order by all"
                )
                self._show_table(sql, [*self.names.tables])
                for name, parameters in self.names.macros.items():
                    self.say(f"{name}({', '.join(parameters)})")
            case [".schema", name]:
                self._show_schema(name)
            case [".format", output] if output in TEXT_FORMATS:
                self.output = output
            case [".refresh"]:
                self.connection.close()
                self.connect()
                self.say(self.summary)
            case _:
                raise UsageError(f"no command {text!r}; .help lists them")

    def _show_schema(self, name: str) -> None:
        if name in self.names.macros:
            rows = f"{name}({', '.join('null' for _ in self.names.macros[name])})"
        elif name in self.names.tables:
            rows = '"{}"'.format(name.replace('"', '""'))
        else:
            raise UsageError(f"no table or macro {name}; .tables lists them")
        described = self.connection.execute(f"describe select * from {rows}").fetchall()
        columns = [row[0] for row in described]
        self._show_table(
            'select unnest($1) as "column", unnest($2) as type, unnest($3) as meaning',
            columns,
            [row[1].lower() for row in described],
            [meaning(name, column) for column in columns],
        )

    def _show_table(self, sql: str, *lists: list[Any]) -> None:
        rows = Rows(self.connection.execute(sql, lists))
        self.show(as_table(rows, terminal_width() or NO_TERMINAL_COLUMNS))


def open_prompt(output: str, parameters: dict[str, Any]) -> None:
    """Read and run until the user leaves. Raises StoreError when the store cannot be opened."""
    with open_catalog() as catalog:
        shell = Shell(catalog.home, output, parameters)
    shell.say(f"{shell.summary}. .help for help, Ctrl-D to leave")
    talk(shell, session(shell))
    shell.connection.close()


def session(
    shell: Shell, input: Input | None = None, output: Output | None = None
) -> "PromptSession[str]":
    """Return the line editor over `shell`; `input` and `output` are the terminal's if None."""
    keys = KeyBindings()

    @keys.add("enter", filter=has_focus(DEFAULT_BUFFER))  # in a search it ends the search
    def _enter(event: KeyPressEvent) -> None:
        buffer = event.current_buffer
        text = buffer.text.strip()
        if buffer.complete_state and buffer.complete_state.current_completion:
            buffer.complete_state = None  # the picked completion is taken; no new line
        elif text in ("", *LEAVING) or text.startswith(".") or text.endswith(";"):
            buffer.validate_and_handle()
        else:
            buffer.insert_text("\n")

    return PromptSession(
        message="tutti> ",
        multiline=True,
        prompt_continuation="   ..> ",
        history=FileHistory(shell.home.root / "sql_history"),
        auto_suggest=AutoSuggestFromHistory(),
        completer=SqlCompleter(lambda: shell.names, re.findall(r"^\.\w+", HELP, re.M)),
        complete_while_typing=True,
        lexer=PygmentsLexer(PostgresLexer),
        key_bindings=keys,
        bottom_toolbar=lambda: f" {shell.summary}   format {shell.output}",
        reserve_space_for_menu=6,
        input=input,
        output=output,
    )


def talk(shell: Shell, lines: "PromptSession[str]") -> None:
    """Read texts and run them, until the user leaves."""
    while not shell.done:
        try:
            shell.line(lines.prompt().strip())
        except KeyboardInterrupt:
            continue  # the line is cleared
        except EOFError:
            return
