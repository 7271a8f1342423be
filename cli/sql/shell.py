"""What the prompt keeps between lines, and what it does with one: no terminal in here.

In: a store, and where to show and say things. Out: rows, files, messages.
"""

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import duckdb
import pyarrow.parquet as pq
import sqlalchemy as sa

from tutti.cli.failures import UsageError
from tutti.cli.sql.completion import Names, names_of
from tutti.cli.sql.formats import TEXT_FORMATS, format_of, write_parquet, writing
from tutti.cli.sql.rows import Rows, TerminalStyle
from tutti.cli.sql.statements import changed, chosen_parameters, counted, execute, gives_rows, parse
from tutti.storage import Catalog, connect
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
