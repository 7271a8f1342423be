"""The prompt's own commands: each a line that starts with a dot.

A new one is a function here and a line in `COMMANDS`.
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path

from tutti.cli.failures import UsageError
from tutti.cli.sql.completion import Names
from tutti.cli.sql.formats import FORMATS
from tutti.cli.sql.shell import Shell
from tutti.cli.sql.statements import read_parameters
from tutti.cli.sql.table import fold
from tutti.storage import meaning


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
