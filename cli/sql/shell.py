"""State of the prompt between lines, and its own commands: each a line that starts with a dot.

In: a store, and where to show and say things. Out: rows, files, messages; no terminal in here. A
new command is a function and a line in `COMMANDS`.
"""

import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from difflib import get_close_matches
from pathlib import Path
from typing import Any

import duckdb
import pyarrow.parquet as pq
import sqlalchemy as sa

from tutti.cli.failures import UsageError
from tutti.cli.sql.completion import Names, names_of
from tutti.cli.sql.rows import Rows, TerminalStyle, fold
from tutti.cli.sql.statements import (
    FORMATS,
    TEXT_FORMATS,
    changed,
    chosen_parameters,
    counted,
    execute,
    format_of,
    gives_rows,
    parse,
    read_parameters,
    write_parquet,
    writing,
)
from tutti.storage import Catalog, connect, meaning
from tutti.storage import catalog as cat

WATCHED = (cat.parts, cat.artifacts, cat.runs, cat.sweeps, cat.cells, cat.windows, cat.verdicts)
# What leaves nothing behind in the session, so that a newer view of the store may take its place.
READING = {
    duckdb.StatementType.SELECT,
    duckdb.StatementType.EXPLAIN,
    duckdb.StatementType.COPY,
    duckdb.StatementType.EXPORT,
}


@dataclass
class Shell:
    """One session at the prompt."""

    catalog: Catalog
    show: Callable[[Iterator[str]], bool]
    """Shows text that may be long; False when the user had enough before its end."""
    say: Callable[[str], None]
    look: Callable[[], TerminalStyle]
    output: str = "table"
    out: Path | None = None
    """Where the next result goes; None is the terminal."""
    parameters: dict[str, Any] = field(default_factory=dict)
    timer: bool = True
    done: bool = False
    has_own_state: bool = False
    """Whether the session made tables or settings, which a refresh would take away."""
    behind: bool = False
    """Whether the store holds more than this session sees."""

    def __post_init__(self) -> None:
        self._connect()

    def _connect(self) -> None:
        self._seen = _stamp(self.catalog)  # first: what comes in between is then seen as newer
        self.connection = connect(self.catalog.home)
        self.names: Names = names_of(self.connection)
        totals = self.connection.execute('select sum("rows")::bigint, count(*) from parts')
        ((rows, parts),) = totals.fetchall()
        self.summary = f"{self.catalog.home}: {counted(rows or 0)} in {parts:,} parts"
        self.has_own_state = self.behind = False

    def refresh(self) -> None:
        """See the store as it stands now; the session's own tables and settings are gone."""
        before = self.connection
        self._connect()
        before.close()

    def refresh_if_newer(self) -> None:
        """Refresh when something was stored since and nothing of the session's own is lost."""
        self.behind = _stamp(self.catalog) != self._seen
        if self.behind and not self.has_own_state:
            self.refresh()

    def run(self, text: str) -> None:
        """Run SQL. Raises UsageError, duckdb.Error, StoreError, and KeyboardInterrupt."""
        self.refresh_if_newer()
        for statement in parse(self.connection, text):
            self._run(statement)

    def _run(self, statement: duckdb.Statement) -> None:
        self.connection.abort()  # what is left of a result whose pager was left early
        if statement.type not in READING:
            self.has_own_state = True
        output = self.output if self.out is None else format_of(self.out, None, self.output)
        if output == "parquet":
            self._to_parquet(statement)
            return
        rows = execute(self.connection, statement, self.parameters)
        if not gives_rows(statement, rows):
            words = changed(statement, rows)
            self.names = names_of(self.connection)
        elif self.out is None:
            words = self._to_terminal(rows, output)
        else:
            words = self._to_file(rows, output, self.out)
        self._say_timed(words, rows.seconds)

    def ask(self, sql: str, parameters: dict[str, Any]) -> None:
        """Show the rows of a question of our own."""
        rows = Rows(self.connection.execute(sql, parameters))
        self.show(TEXT_FORMATS["table"](rows, self.look()))

    def _to_terminal(self, rows: Rows, output: str) -> str:
        whole = self.show(TEXT_FORMATS[output](rows, self.look()))
        return counted(rows.count) if whole else f"the first {counted(rows.count)}"

    def _to_file(self, rows: Rows, output: str, out: Path) -> str:
        with writing(out) as path, path.open("w", encoding="utf-8", newline="") as stream:
            stream.writelines(TEXT_FORMATS[output](rows, TerminalStyle()))
        self.out = None
        return f"{counted(rows.count)} to {out}"

    def _to_parquet(self, statement: duckdb.Statement) -> None:
        if self.out is None:
            raise UsageError("Parquet is no text for a terminal: name a file first, .out FILE")
        chosen = chosen_parameters(statement, self.parameters)
        started = time.monotonic()
        with writing(self.out) as path:
            write_parquet(self.connection, statement, chosen, path)
        rows = pq.read_metadata(self.out).num_rows
        self._say_timed(f"{counted(rows)} to {self.out}", time.monotonic() - started)
        self.out = None

    def _say_timed(self, words: str, seconds: float) -> None:
        self.say(f"{words} in {seconds:.3f} s" if self.timer else words)


def _stamp(catalog: Catalog) -> dict[str, Any]:
    """A value that changes whenever something is stored: counts and latest times."""
    columns = []
    for table in WATCHED:
        columns.append(sa.select(sa.func.count()).select_from(table))
        times = [column for column in table.columns if isinstance(column.type, sa.DateTime)]
        columns += [sa.select(sa.func.max(column)) for column in times]
    labelled = [each.scalar_subquery().label(f"n{nth}") for nth, each in enumerate(columns)]
    return catalog.rows(sa.select(*labelled))[0]


@dataclass(frozen=True)
class Command:
    """What is written behind it, what it does, in words and in deed, and its arguments."""

    usage: str
    help: str
    run: Callable[[Shell, str], None]
    arguments: Callable[[Names], Iterable[str]] = lambda _: ()


def run_command(shell: Shell, text: str) -> None:
    """Run a line such as `.schema attempts`. Raises UsageError for one that does not exist."""
    name, _, argument = text.partition(" ")
    command = COMMANDS.get(name)
    if command is None:
        raise UsageError(f"no command {name}{_close(name, COMMANDS)}; .help lists them")
    command.run(shell, argument.strip().rstrip(";"))


def _help(shell: Shell, argument: str) -> None:
    width = max(len(f"{name} {each.usage}") for name, each in COMMANDS.items())
    lines = [f"{f'{name} {each.usage}':<{width}}  {each.help}\n" for name, each in COMMANDS.items()]
    lines.append(
        "SQL runs once it ends with a semicolon. Ctrl-C clears the line or stops a query.\n"
    )
    shell.show(iter(lines))


def _tables(shell: Shell, argument: str) -> None:
    shell.refresh_if_newer()
    kept = {
        table: (rows, parts)
        for table, rows, parts in shell.connection.execute(
            'select table_name, sum("rows")::bigint, count(*) from parts group by all'
        ).fetchall()
    }
    tables = list(shell.names.tables)
    rows = [kept[each][0] if each in kept else _count(shell, each) for each in tables]
    parts = [kept[each][1] if each in kept else None for each in tables]
    shell.ask(
        'select unnest($tables) as "table", unnest($rows) as "rows", unnest($parts) as parts',
        {"tables": tables, "rows": rows, "parts": parts},
    )


def _count(shell: Shell, table: str) -> int:
    quoted = table.replace('"', '""')
    ((rows,),) = shell.connection.execute(f'select count(*) from "{quoted}"').fetchall()
    return int(rows)


def _schema(shell: Shell, argument: str) -> None:
    names = shell.names
    if not argument:
        shell.show(_every_schema(names, shell.look().width or 100))
        return
    columns = names.columns(argument)
    if not columns:
        known = [*names.tables, *names.macros]
        raise UsageError(
            f"no table or macro {argument}{_close(argument, known)}; .tables lists them"
        )
    shell.ask(
        "select unnest($columns) as column, unnest($types) as type, unnest($means) as meaning",
        {
            "columns": [column for column, _ in columns],
            "types": [kind for _, kind in columns],
            "means": [meaning(argument, column) for column, _ in columns],
        },
    )


def _every_schema(names: Names, width: int) -> Iterator[str]:
    for table, columns in names.tables.items():
        text = ", ".join(f"{column} {kind}" for column, kind in columns)
        yield f"{table}\n"
        yield from (f"    {line}\n" for line in fold(text, width - 4))


def _macros(shell: Shell, argument: str) -> None:
    for name, parameters in shell.names.macros.items():
        shell.say(f"{name}({', '.join(parameters)})")
    shell.say("each gives rows: select * from NAME(…); .schema NAME lists its columns")


def _format(shell: Shell, argument: str) -> None:
    if argument and argument not in FORMATS:
        raise UsageError(f"no format {argument!r}; there are {', '.join(FORMATS)}")
    shell.output = argument or shell.output
    shell.say(f"format {shell.output}")


def _out(shell: Shell, argument: str) -> None:
    shell.out = Path(argument).expanduser() if argument else None
    where = f"the next result goes to {shell.out}" if shell.out else "results go to the terminal"
    shell.say(where)


def _param(shell: Shell, argument: str) -> None:
    if argument:
        shell.parameters |= read_parameters([argument])
    for name, value in sorted(shell.parameters.items()):
        shell.say(f"${name} = {value!r}")
    if not shell.parameters:
        shell.say("no parameters; .param name=value sets $name")


def _refresh(shell: Shell, argument: str) -> None:
    lost = shell.has_own_state
    shell.refresh()
    shell.say(shell.summary + ("; tables and settings of this session are gone" if lost else ""))


def _timer(shell: Shell, argument: str) -> None:
    if argument not in ("", "on", "off"):
        raise UsageError(f"the timer is on or off, not {argument!r}")
    shell.timer = argument == "on" if argument else not shell.timer
    shell.say(f"timer {'on' if shell.timer else 'off'}")


def _quit(shell: Shell, argument: str) -> None:
    shell.done = True


def _close(name: str, known: Iterable[str]) -> str:
    found = get_close_matches(name, list(known), n=1)
    return f", did you mean {found[0]}?" if found else ""


COMMANDS = {
    ".help": Command("", "this list", _help),
    ".tables": Command("", "every table, its rows and parts", _tables),
    ".schema": Command(
        "[TABLE]",
        "columns, types and meanings",
        _schema,
        lambda names: [*names.tables, *names.macros],
    ),
    ".macros": Command("", "what gives rows for parameters", _macros),
    ".format": Command("|".join(FORMATS), "how rows are shown", _format, lambda _: FORMATS),
    ".out": Command("[FILE]", "write the next result to a file", _out),
    ".param": Command("[NAME=VALUE]", "what $NAME stands for: JSON, else text", _param),
    ".refresh": Command("", "see what was stored since", _refresh),
    ".timer": Command("on|off", "say how long a statement took", _timer, lambda _: ("on", "off")),
    ".quit": Command("", "leave; Ctrl-D does too", _quit),
}
