"""The rows of a statement as text: a table, CSV or JSON.

CSV and JSON are written in batches, so that memory stays bounded; a table shows at most
`BATCH_ROWS` rows. A terminal never gets another program's control characters.
"""

import csv
import io
import re
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor, wait
from decimal import Decimal
from itertools import chain, count
from types import SimpleNamespace
from typing import Any, TypeVar

import duckdb
import orjson
from rich.console import Console

from tutti.terminal import shown, table

BATCH_ROWS = 1000  # also of a table: rich holds all rows before it draws the first
MIN_COLUMN = 10  # a table whose columns must be narrower than this shows a row as a block
MAX_COLUMN = 100  # mean width of a table's columns where there is no terminal
NUMERIC_TYPES = "TINYINT SMALLINT INTEGER BIGINT HUGEINT FLOAT DOUBLE".split()
INTERRUPT_AGAIN_S = 0.05
UNCHANGED = {int, float, type(None)}  # types that the csv module writes as we would, and faster
FORMULA = frozenset("=+-@\t\r\n\uff0b\uff0d\uff1d\uff20")
"""The first characters of what a spreadsheet runs: OWASP, "CSV Injection"."""
NUMBER = re.compile(r"[+-]?[\d.,]+(?:e[+-]?\d+)?", re.I)

Row = tuple[Any, ...]
T = TypeVar("T")

_worker = ThreadPoolExecutor(1, thread_name_prefix="duckdb")  # starts its thread when first used


def interruptible(connection: duckdb.DuckDBPyConnection, work: Callable[[], T]) -> T:
    """Run `work` on `connection`; after Ctrl-C, raise KeyboardInterrupt once it has ended.

    The work runs in a thread, because Python handles a signal only between two steps of the main
    thread, and DuckDB rarely checks for one.
    """
    running = _worker.submit(work)
    try:
        return running.result()
    except KeyboardInterrupt:
        while not running.done():
            connection.interrupt()  # repeated: one before the query begins has no effect
            wait([running], timeout=INTERRUPT_AGAIN_S)
        raise


class Rows:
    """The rows of an executed statement, with their number so far."""

    def __init__(self, cursor: duckdb.DuckDBPyConnection) -> None:
        self.names: list[str] = []
        for name, *_ in cursor.description or []:
            free = chain([name], (f"{name}_{number}" for number in count(1)))
            self.names.append(next(each for each in free if each not in self.names))
        kinds = [str(column[1]) for column in cursor.description or []]
        self.numeric = [k.removeprefix("U") in NUMERIC_TYPES or k[:7] == "DECIMAL" for k in kinds]
        self.count = 0
        self._cursor = cursor

    def batches(self) -> Iterator[list[Row]]:
        """Yield the rows in batches. Raises duckdb.Error, and KeyboardInterrupt for Ctrl-C."""
        while batch := interruptible(self._cursor, lambda: self._cursor.fetchmany(BATCH_ROWS)):
            self.count += len(batch)
            yield batch


def as_table(rows: Rows, width: int | None) -> Iterator[str]:
    """The first rows as a table; as blocks with one line per column if the terminal is too narrow.

    `width` is the terminal's; None for another output.
    """
    first = next(rows.batches(), [])
    cells = [[cell_of(value) for value in row] for row in first]
    names = [cell_of(name) for name in rows.names]
    stream = io.StringIO()
    room = MAX_COLUMN * len(names) if width is None else width
    console = Console(file=stream, width=room, force_terminal=width is not None, highlight=False)
    if room < MIN_COLUMN * len(names):
        for number, row in enumerate(cells, 1):
            pairs = zip(names, row, strict=True)
            console.print(table({" ": "right", "  ": "fold"}, pairs, f"row {number}"))
    else:
        kinds = ("right" if numeric else "fold" for numeric in rows.numeric)
        console.print(table(dict(zip(names, kinds, strict=True)), cells))
    yield stream.getvalue()


def as_csv(rows: Rows, width: int | None) -> Iterator[str]:
    """Format as CSV with a header; lists and structs as JSON, an empty field for NULL. A text that
    a spreadsheet would run begins with an apostrophe."""

    def cell(value: Any) -> str:
        text = value if type(value) is str else text_of(value)
        text = text if width is None else shown(text)
        return f"'{text}" if text[:1] in FORMULA and not NUMBER.fullmatch(text) else text

    lines: list[str] = []
    # With this line end the writer quotes a cell with `\r`, which ends a row in a spreadsheet.
    stream = SimpleNamespace(write=lambda line: lines.append(f"{line[:-2]}\n"))
    writer = csv.writer(stream, lineterminator="\r\n")
    writer.writerow(map(cell, rows.names))
    for batch in rows.batches():
        writer.writerows([v if type(v) in UNCHANGED else cell(v) for v in row] for row in batch)
        yield "".join(lines)
        lines.clear()
    yield "".join(lines)


def as_json(rows: Rows, width: int | None) -> Iterator[str]:
    """One array of objects, one per line; NaN and infinities, which JSON lacks, are null."""
    before = "["
    for row in chain.from_iterable(rows.batches()):
        text = to_json(dict(zip(rows.names, row, strict=True)))
        yield before + (text if width is None else shown(text))
        before = ",\n"
    yield "[]\n" if before == "[" else "]\n"


TEXT_FORMATS: dict[str, Callable[[Rows, int | None], Iterator[str]]] = {
    "table": as_table,
    "csv": as_csv,
    "json": as_json,
}


def to_json(value: Any) -> str:
    """Any value of DuckDB as JSON: decimals exact, durations in seconds, times in ISO 8601."""
    options = orjson.OPT_NON_STR_KEYS
    try:
        return orjson.dumps(value, default=_plain, option=options).decode()
    except TypeError:  # integers beyond 64 bits, times of day with a zone
        return orjson.dumps(_deeply_plain(value), option=options).decode()


def _plain(value: Any) -> Any:
    if isinstance(value, Decimal | int):
        return orjson.Fragment(str(value).encode())
    if isinstance(value, bytes):
        return value.hex()
    return value.total_seconds() if hasattr(value, "total_seconds") else str(value)


def _deeply_plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {str(key): _deeply_plain(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [_deeply_plain(each) for each in value]
    return value if value is None or isinstance(value, str | bool | float) else _plain(value)


def text_of(value: Any) -> str:
    """Format one value as text; only lists and structs are JSON, so that strings have no quotes."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, bytes):
        return value.hex()
    return to_json(value) if isinstance(value, dict | list | tuple) else str(value)


def cell_of(value: Any) -> str:
    """Format a table's cell: empty for NULL, floats with four digits, no control characters."""
    if value is None:
        return ""
    if isinstance(value, float):
        return f"{value:.0f}" if 1e4 <= abs(value) < 1e15 else f"{value:.4g}"
    return shown(text_of(value).replace("\r\n", "\n").replace("\t", "    "))
