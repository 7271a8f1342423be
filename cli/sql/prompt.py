"""`tutti sql` without a statement: a prompt with history, completion, highlighting and paging.

In: lines at a terminal, SQL or commands that start with a dot. Out: rows, through the user's pager
if they are longer than the screen, files and messages.
"""

import os
import sys
import textwrap
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

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
from tutti.cli.sql.completion import Names, SqlCompleter, is_complete
from tutti.cli.sql.rows import Rows, as_table
from tutti.cli.sql.statements import (
    FORMATS,
    counted,
    format_of,
    read_parameters,
    run_statement,
    terminal_width,
)
from tutti.storage import Home, connect, meaning, open_catalog

PROMPT, CONTINUED = "tutti> ", "   ..> "
PAGER_SETTINGS = "SRFX"  # of less: chop, colours, leave if it is short, keep the screen
NO_TERMINAL_COLUMNS = 80
LEAVING = ("exit", "quit", r"\q", ".quit")


def show(pieces: Iterable[str]) -> None:
    """Print text, through the pager on a terminal."""
    if sys.stdout.isatty():
        os.environ.setdefault("LESS", PAGER_SETTINGS)
        click.echo_via_pager(pieces, color=True)
    else:
        sys.stdout.writelines(pieces)


@dataclass
class Shell:
    """One session: a connection, and the settings of the dot commands."""

    home: Home
    output: str = "table"
    out: Path | None = None
    """The file of the next result; None is the terminal."""
    parameters: dict[str, Any] = field(default_factory=dict)
    show: Callable[[Iterable[str]], None] = show
    say: Callable[[str], None] = print
    done: bool = False

    def __post_init__(self) -> None:
        self.connect()

    def connect(self) -> None:
        """Open the store in its current state; the session's own tables and settings are lost."""
        self.connection = connect(self.home)
        self.names = Names(self.connection)
        totals = self.connection.execute('select sum("rows")::bigint, count(*) from parts')
        ((rows, parts),) = totals.fetchall()
        self.summary = f"{self.home}: {counted(rows or 0)} in {parts:,} parts"

    def line(self, text: str) -> None:
        """Run one text; an expected error becomes a message."""
        try:
            if text.rstrip(";").strip() in LEAVING:
                self.done = True
            elif text.startswith("."):
                run_command(self, text)
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
        output = self.output if self.out is None else format_of(self.out, None, self.output)
        if output == "parquet" and self.out is None:
            raise UsageError("Parquet is no text for a terminal: name a file first, .out FILE")
        words = run_statement(
            self.connection, statement, self.parameters, output, self.out, self.show
        )
        if words is None:
            self.names = Names(self.connection)
        elif self.out is not None:
            words, self.out = f"{words} to {self.out}", None
        self.say(words or "done")


def open_prompt(output: str, parameters: dict[str, Any], out: Path | None) -> None:
    """Read and run until the user leaves. Raises StoreError if the store cannot be opened."""
    with open_catalog() as catalog:
        shell = Shell(catalog.home, output, out, parameters)
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
        if buffer.complete_state and buffer.complete_state.current_completion:
            buffer.complete_state = None  # the picked completion is taken; no new line
        elif is_complete(buffer.text):
            buffer.validate_and_handle()
        else:
            buffer.insert_text("\n")

    arguments = {name: command.arguments for name, command in COMMANDS.items()}
    return PromptSession(
        message=PROMPT,
        multiline=True,
        prompt_continuation=CONTINUED,
        history=FileHistory(shell.home.root / "sql_history"),
        auto_suggest=AutoSuggestFromHistory(),
        completer=SqlCompleter(lambda: shell.names, arguments),
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


class Command(NamedTuple):
    """A dot command: its usage, help and function, and the completions of its argument."""

    usage: str
    help: str
    run: Callable[[Shell, str], None]
    arguments: Callable[[Names], Iterable[str]] = lambda _: ()


def run_command(shell: Shell, text: str) -> None:
    """Run a line such as `.schema attempts`. Raises UsageError for an unknown command."""
    name, _, argument = text.partition(" ")
    if name not in COMMANDS:
        raise UsageError(f"no command {name}; .help lists them")
    COMMANDS[name].run(shell, argument.strip().rstrip(";"))


def _ask(shell: Shell, columns: dict[str, list[Any]]) -> None:
    unnested = ", ".join(f'unnest(${place}) as "{name}"' for place, name in enumerate(columns, 1))
    rows = Rows(shell.connection.execute(f"select {unnested}", list(columns.values())))
    shell.show(as_table(rows, terminal_width() or NO_TERMINAL_COLUMNS))


def _help(shell: Shell, argument: str) -> None:
    lines = [f"{f'{name} {each.usage}':<24}  {each.help}\n" for name, each in COMMANDS.items()]
    ends = "SQL runs once it ends with a semicolon. Ctrl-C clears the line or stops a query.\n"
    shell.show([*lines, ends])


def _tables(shell: Shell, argument: str) -> None:
    sql = 'select table_name, sum("rows")::bigint, count(*) from parts group by all'
    stored = {table: counts for table, *counts in shell.connection.execute(sql).fetchall()}
    for table in shell.names.tables.keys() - stored.keys():
        quoted = table.replace('"', '""')
        ((rows,),) = shell.connection.execute(f'select count(*) from "{quoted}"').fetchall()
        stored[table] = [rows, None]
    tables = list(shell.names.tables)
    rows, parts = ([stored[table][place] for table in tables] for place in (0, 1))
    _ask(shell, {"table": tables, "rows": rows, "parts": parts})


def _schema(shell: Shell, argument: str) -> None:
    names = shell.names
    if not argument:
        for table, columns in names.tables.items():
            text = ", ".join(f"{column} {kind}" for column, kind in columns)
            shell.show([f"{table}\n", textwrap.indent(textwrap.fill(text, 94), "    "), "\n"])
        return
    if not (described := names.columns(argument)):
        raise UsageError(f"no table or macro {argument}; .tables and .macros list them")
    meanings = [meaning(argument, column) for column, _ in described]
    columns, kinds = (list(each) for each in zip(*described, strict=True))
    _ask(shell, {"column": columns, "type": kinds, "meaning": meanings})


def _macros(shell: Shell, argument: str) -> None:
    for name, parameters in shell.names.macros.items():
        shell.say(f"{name}({', '.join(parameters)})")
    shell.say("each gives rows: select * from NAME(…); .schema NAME lists its columns")


def _format(shell: Shell, argument: str) -> None:
    if argument not in FORMATS:
        raise UsageError(f"no format {argument!r}; there are {', '.join(FORMATS)}")
    shell.output = argument


def _out(shell: Shell, argument: str) -> None:
    shell.out = Path(argument).expanduser() if argument else None


def _param(shell: Shell, argument: str) -> None:
    shell.parameters |= read_parameters([argument] if argument else [])
    for name, value in sorted(shell.parameters.items()):
        shell.say(f"${name} = {value!r}")


def _refresh(shell: Shell, argument: str) -> None:
    shell.connection.close()
    shell.connect()
    shell.say(shell.summary)


COMMANDS = {
    ".help": Command("", "this list", _help),
    ".tables": Command("", "every table, its rows and parts", _tables),
    ".schema": Command(
        "[TABLE]",
        "columns, types and meanings",
        _schema,
        lambda names: [*names.tables, *names.macros],
    ),
    ".macros": Command("", "the macros that give rows for parameters", _macros),
    ".format": Command("|".join(FORMATS), "the format of rows", _format, lambda _: FORMATS),
    ".out": Command("[FILE]", "write the next result to a file", _out),
    ".param": Command("[NAME=VALUE]", "the value of $NAME: JSON, else text", _param),
    ".refresh": Command("", "see newer rows; this session's own tables go", _refresh),
    ".quit": Command("", "leave; Ctrl-D does too", _help),  # `Shell.line` handles it
}
