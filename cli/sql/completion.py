"""Completion at the prompt: tables, columns, macros, functions, keywords and dot commands.

In: the text before the cursor, and the names that a connection knows. Out: completions, the
columns of the tables that the text names first.
"""

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import duckdb
from prompt_toolkit.completion import (
    CompleteEvent,
    Completer,
    Completion,
    FuzzyCompleter,
    WordCompleter,
)
from prompt_toolkit.document import Document

AFTER_THESE_A_TABLE = re.compile(r"\b(from|join|into|describe|summarize)\s+\w*$", re.I)


@dataclass(frozen=True)
class Names:
    """The names that a connection knows."""

    tables: dict[str, dict[str, str]]
    """The type of each column, by table and column; without the tables that views are made of."""
    macros: dict[str, Sequence[str]]
    """The parameters of each table macro."""
    words: Sequence[str]
    """Keywords and functions."""

    @classmethod
    def of(cls, connection: duckdb.DuckDBPyConnection) -> "Names":
        """Read the names of a connection."""
        tables: dict[str, dict[str, str]] = {}
        for table, column, kind in connection.execute(
            "select table_name, column_name, lower(data_type) from duckdb_columns() "
            "where not internal order by table_name, column_index"
        ).fetchall():
            tables.setdefault(table, {})[column] = kind
        for table in [*tables]:
            tables.pop(f"{table}_schema", None)
        macros = connection.execute(
            "select function_name, parameters from duckdb_functions() "
            "where not internal and function_type = 'table_macro' order by all"
        ).fetchall()
        words = connection.execute(
            "select keyword_name from duckdb_keywords() union all "
            "select distinct function_name || '(' from duckdb_functions() "
            "where internal and regexp_full_match(function_name, '[a-z]\\w+')"
        ).fetchall()
        return cls(tables, dict(macros), [word for (word,) in words])


class SqlCompleter(Completer):
    """Completes dot commands, and SQL by the names that `names()` returns now."""

    def __init__(self, names: Callable[[], Names], commands: Sequence[str]) -> None:
        self._names = names
        self._commands = commands

    def get_completions(
        self, document: Document, complete_event: CompleteEvent
    ) -> Iterator[Completion]:
        """Completions of the word before the cursor; of no word only tables, where one must be."""
        before, names = document.text_before_cursor.lstrip(), self._names()
        if before.startswith("."):
            words = [*names.tables, *names.macros] if " " in before else self._commands
            commands = WordCompleter(words, pattern=re.compile(r"^[.\w]+"))
            yield from commands.get_completions(document, complete_event)
            return
        offers = dict.fromkeys(names.tables, "table")
        offers |= {f"{name}(": ", ".join(given) for name, given in names.macros.items()}
        if not AFTER_THESE_A_TABLE.search(before):
            if not re.search(r"[.\w]$", before):
                return
            texts = re.findall(r"\w+", document.text)
            columns = {
                column: f"{kind}, {table}"
                for table in [text for text in texts if text in names.tables] or names.tables
                for column, kind in names.tables[table].items()
            }
            offers = columns | offers | dict.fromkeys(names.words, "")
        completer = WordCompleter([*offers], meta_dict=offers, pattern=re.compile(r"^\w+"))
        yield from FuzzyCompleter(completer).get_completions(document, complete_event)
