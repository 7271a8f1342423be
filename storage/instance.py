"""One DuckDB instance of this process, in which each question gets a database of its own.

Starting an instance and defining the contract's tables and macros takes 0.15 s of CPU; copying an
in-memory database that has them takes 5 ms. The databases do not see each other's rows, and a
database goes when its question is answered.
"""

import atexit
import itertools
import os
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

import duckdb

Definitions = Mapping[str, str]
"""What a database begins with: SQL by any name, run in this order, once an instance."""


class Instance:
    """A DuckDB instance whose first database, `memory`, is the one that others are copied from."""

    def __init__(self) -> None:
        self._root = duckdb.connect()
        self._lock = threading.Lock()
        self._numbers = itertools.count()
        self._defined: set[str] = set()
        self._root.execute("set global timezone = 'UTC'")
        # A part is read from its file each time, as by an instance of its own.
        self._root.execute("set enable_external_file_cache = false")

    def close(self) -> None:
        """Close the connection that keeps the instance; those in use keep it until they end."""
        self._root.close()

    @contextmanager
    def database(self, definitions: Definitions) -> Iterator[duckdb.DuckDBPyConnection]:
        """A connection to a new copy of the first database; both go at the end."""
        with self._lock:
            for given in (each for each in definitions if each not in self._defined):
                self._root.execute(definitions[given])
                self._defined.add(given)
            name = f"store_{next(self._numbers)}"
            connection = self._root.cursor()
        try:
            connection.execute(
                f"attach ':memory:' as {name}; copy from database memory to {name} (schema); "
                f"use {name}"
            )
            yield connection
        finally:
            connection.close()
            with self._lock:
                self._root.execute(f"detach database if exists {name}")


_instance: Instance | None = None
_lock = threading.Lock()
_of_parents: list[Instance | None] = []


@contextmanager
def database(definitions: Definitions) -> Iterator[duckdb.DuckDBPyConnection]:
    """A connection to a new database with these definitions, in this process's instance.

    An error after which DuckDB refuses all statements ends the instance: the next question starts
    another.
    """
    mine = _running()
    try:
        with mine.database(definitions) as connection:
            yield connection
    except (duckdb.FatalException, duckdb.InternalException):
        _discard(mine)
        raise


def _running() -> Instance:
    global _instance
    with _lock:
        if _instance is None:
            _instance = Instance()
        return _instance


def _discard(broken: Instance) -> None:
    global _instance
    with _lock:
        if _instance is broken:
            _instance = None
    broken.close()


def _after_fork() -> None:
    """A forked process has none of DuckDB's threads: it starts an instance of its own."""
    global _instance, _lock
    _of_parents.append(_instance)  # closing it would wait for those threads
    _instance, _lock = None, threading.Lock()


def _at_exit() -> None:
    """Before Python ends: DuckDB's binding calls an object that lives longer a leak."""
    if _instance is not None:
        _discard(_instance)


atexit.register(_at_exit)
os.register_at_fork(after_in_child=_after_fork)
