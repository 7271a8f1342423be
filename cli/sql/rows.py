"""A statement's rows, drawn from DuckDB in batches, and one value as JSON."""

import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor, wait
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, TypeVar

import duckdb
import orjson

BATCH_ROWS = 1000  # also what a table's column widths are decided by
NUMERIC_TYPES = "TINYINT SMALLINT INTEGER BIGINT HUGEINT FLOAT DOUBLE".split()

INTERRUPT_AGAIN_S = 0.05

Row = tuple[Any, ...]
T = TypeVar("T")

_worker = ThreadPoolExecutor(1, thread_name_prefix="duckdb")  # starts its thread when first used


@dataclass(frozen=True)
class TerminalStyle:
    """What a terminal allows: its width (None: any), and whether it knows bold and dim."""

    width: int | None = None
    styled: bool = False


class Rows:
    """A statement's rows, drawn in batches and counted on the way."""

    def __init__(self, cursor: duckdb.DuckDBPyConnection) -> None:
        described = cursor.description or []
        self.names = distinct([column[0] for column in described])
        self.numeric = [_is_numeric(str(column[1])) for column in described]
        self.count = 0
        self.seconds = 0.0
        """How long drawing took, without what was done with the rows in between."""
        self._cursor = cursor

    def batches(self) -> Iterator[list[Row]]:
        """The rows, some at a time. Raises duckdb.Error, and KeyboardInterrupt for Ctrl-C."""
        while batch := self._draw():
            self.count += len(batch)
            yield batch

    def _draw(self) -> list[Row]:
        started = time.monotonic()
        batch: list[Row] = interruptible(self._cursor, lambda: self._cursor.fetchmany(BATCH_ROWS))
        self.seconds += time.monotonic() - started
        return batch


def interruptible(connection: duckdb.DuckDBPyConnection, work: Callable[[], T]) -> T:
    """Run `work` on `connection` so that Ctrl-C stops it: KeyboardInterrupt once it has ended.

    The work is a thread's, for Python tells of a signal only between two of the main thread's own
    steps, and DuckDB looks for one itself only now and then.
    """
    running = _worker.submit(work)
    try:
        return running.result()
    except KeyboardInterrupt:
        while not running.done():
            connection.interrupt()  # more than once: one before the query begins is forgotten
            wait([running], timeout=INTERRUPT_AGAIN_S)
        raise


def distinct(names: list[str]) -> list[str]:
    """`names` with a number behind each that was there before: `a, a` gives `a, a_1`."""
    found: list[str] = []
    for name in names:
        number, free = 0, name
        while free in found:
            number += 1
            free = f"{name}_{number}"
        found.append(free)
    return found


def _is_numeric(kind: str) -> bool:
    return kind.removeprefix("U") in NUMERIC_TYPES or kind.startswith("DECIMAL")


def to_json(value: Any) -> str:
    """Any value DuckDB gives as JSON: decimals and huge integers exact, times in ISO 8601."""
    options = orjson.OPT_NON_STR_KEYS
    try:
        return orjson.dumps(value, default=_unusual, option=options).decode()
    except TypeError:  # what orjson takes for its own and refuses: huge integers, times with zones
        return orjson.dumps(_deeply(value), default=_unusual, option=options).decode()


def text_of(value: Any) -> str:
    """One value as text, where JSON's quotes would be in the way of strings."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, bytes):
        return value.hex()
    return to_json(value) if isinstance(value, dict | list | tuple) else str(value)


def _unusual(value: Any) -> Any:
    """What JSON has no form for, as what comes nearest. Raises TypeError for anything else."""
    if isinstance(value, Decimal | int):
        return orjson.Fragment(str(value).encode())
    if isinstance(value, bytes):
        return value.hex()
    if hasattr(value, "total_seconds"):
        return value.total_seconds()
    if hasattr(value, "isoformat"):
        return value.isoformat()
    raise TypeError(f"no JSON form for {type(value).__name__}: {value!r}")


def _deeply(value: Any) -> Any:
    if isinstance(value, dict):
        return {str(key): _deeply(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [_deeply(each) for each in value]
    refused = isinstance(value, int) and not -(2**63) <= value < 2**64
    return _unusual(value) if refused or getattr(value, "tzinfo", None) else value
