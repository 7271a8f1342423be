"""Completion at the prompt: tables, columns, macros, functions, SQL, dot commands.

In: the text around the cursor, and the names of a connection. Out: completions, the columns of the
statement's tables first.
"""

import re
from collections.abc import Callable, Iterable, Iterator

import duckdb
from prompt_toolkit.completion import CompleteEvent, Completer, Completion
from prompt_toolkit.document import Document

KEYWORDS = (
    "select from where group by order limit offset having distinct as and or not in is null like "
    "ilike between case when then else end join left right full inner cross on using union all "
    "except intersect with recursive values exists asc desc nulls first last over partition "
    "filter qualify window rows range preceding following unbounded interval cast create table "
    "temp view macro insert into update delete drop copy to explain analyze describe summarize "
    "show set pivot unpivot unnest asof positional sample exclude replace true false any"
).split()
AFTER_THESE_A_TABLE = {"from", "join", "into", "describe", "summarize", "table", "update"}
MAX_HINT_CHARACTERS = 40

QUOTED = r"'(?:[^']|'')*'|\"(?:[^\"]|\"\")*\"|--[^\n]*(?=\n)|/\*.*?\*/|\$(\w*)\$.*?\$\1\$"
LITERAL = re.compile(QUOTED, re.S)
OPEN_LITERAL = re.compile(r"'|\"|--|/\*|\$\w*\$")
NAMED = re.compile(
    r"(?:\b(?:from|join|into|update|describe|summarize)|,)\s+(\w+)(\s*\([^()]*\))?"
    r"(?:\s+(?:as\s+)?(\w+))?",
    re.I,
)


def without_literals(text: str) -> str:
    """Return `text` without its strings, quoted names and comments; an open one stays."""
    return LITERAL.sub(lambda match: "''" if match[0][0] == "'" else " ", text)


def is_inside_literal(text: str) -> bool:
    """Whether the end of `text` is inside a string or a comment."""
    return OPEN_LITERAL.search(without_literals(text).replace("''", "")) is not None


def is_complete(text: str) -> bool:
    """Whether Enter runs the text: a dot command, an empty line, or SQL up to a semicolon."""
    bare = without_literals(text + "\n").strip()
    if not bare or bare.startswith(".") or bare in ("exit", "quit"):
        return True
    return bare.endswith(";") and not is_inside_literal(text + "\n")


class Names:
    """The tables, macros and functions of a connection. The tables behind views (`…_schema`) are
    left out."""

    def __init__(self, connection: duckdb.DuckDBPyConnection) -> None:
        tables: dict[str, list[tuple[str, str]]] = {}
        for table, column, kind in connection.execute(
            "select table_name, column_name, lower(data_type) from duckdb_columns() "
            "where not internal order by table_name, column_index"
        ).fetchall():
            tables.setdefault(table, []).append((column, kind))
        self.tables = {
            name: columns
            for name, columns in tables.items()
            if not (name.endswith("_schema") and name.removesuffix("_schema") in tables)
        }
        """The columns of each table, as (name, type)."""
        macros = connection.execute(
            "select function_name, parameters from duckdb_functions() "
            "where not internal and function_type = 'table_macro' order by all"
        ).fetchall()
        self.macros: dict[str, list[str]] = {name: list(given) for name, given in macros}
        """The parameters of each table macro."""
        functions = connection.execute(
            "select distinct function_name from duckdb_functions() "
            "where internal and regexp_full_match(function_name, '[a-z]\\w+') order by all"
        ).fetchall()
        self.functions = [name for (name,) in functions]
        self._connection = connection
        self._described: dict[str, list[tuple[str, str]]] = {}

    def columns(self, name: str) -> list[tuple[str, str]]:
        """Return the columns of a table's or a macro's rows; none for any other name."""
        if name in self.macros and name not in self._described:
            nulls = ", ".join("null" for _ in self.macros[name])
            rows = self._connection.execute(f"describe select * from {name}({nulls})").fetchall()
            self._described[name] = [(row[0], row[1].lower()) for row in rows]
        return self._described.get(name) or self.tables.get(name, [])


class SqlCompleter(Completer):
    """Completes from the current names in `names()`, and from `commands`' own arguments."""

    def __init__(
        self, names: Callable[[], Names], commands: dict[str, Callable[[Names], Iterable[str]]]
    ) -> None:
        self._names = names
        self._commands = commands

    def get_completions(
        self, document: Document, complete_event: CompleteEvent
    ) -> Iterator[Completion]:
        """Completions of the word at the cursor."""
        before = document.text_before_cursor
        if before.lstrip().startswith("."):
            command, space, word = before.lstrip().partition(" ")
            choices: Iterable[str] = self._commands
            if space:
                arguments = self._commands.get(command)
                choices = arguments(self._names()) if arguments else ()
            word = word if space else command
            yield from (Completion(each, -len(word)) for each in choices if each.startswith(word))
            return
        if is_inside_literal(before):
            return
        bare = without_literals(before).rpartition(";")[2]
        after = without_literals(document.text_after_cursor).partition(";")[0]
        word = re.search(r"\w*$", bare)[0]  # type: ignore[index]  # matches at least nothing
        offers = dict[str, str]()
        for text, hint in _offers(bare[: len(bare) - len(word)], bare + after, word, self._names()):
            offers.setdefault(text, hint[:MAX_HINT_CHARACTERS])
        begin = [text for text in offers if text.lower().startswith(word.lower())]
        inside = [t for t in offers if len(word) > 2 and word.lower() in t.lower()[1:]]
        for text in dict.fromkeys([*begin, *inside]):
            yield Completion(text, -len(word), display_meta=offers[text])


def _offers(before: str, statement: str, word: str, names: Names) -> Iterator[tuple[str, str]]:
    """Yield the texts that fit after `before`, each with a hint, likely ones first."""
    named = named_in(statement, names)
    if qualifier := re.search(r"(\w+)\.$", before):
        yield from names.columns(named.get(qualifier[1].lower(), qualifier[1].lower()))
        return
    previous = re.search(r"(\w+|,|\S)\s*$", before)
    last = previous[1].lower() if previous else ""
    clauses = re.findall(r"\b(select|from|where|by|having|set|on|using)\b", before.lower())
    tables = [(table, "table") for table in names.tables]
    tables += [(f"{name}(", ", ".join(given)) for name, given in names.macros.items()]
    if last in AFTER_THESE_A_TABLE or (last == "," and clauses[-1:] == ["from"]):
        yield from tables
    elif word:  # with nothing typed, the list would only be in the way
        for alias, table in (named or {table: table for table in names.tables}).items():
            yield from ((column, f"{kind}, {alias}") for column, kind in names.columns(table))
        yield from tables
        yield from ((each.upper() if word.isupper() else each, "") for each in KEYWORDS)
        yield from ((f"{each}(", "") for each in names.functions)


def named_in(statement: str, names: Names) -> dict[str, str]:
    """Return the tables that a statement names, by their aliases or names."""
    named = {}
    for match in NAMED.finditer(statement):
        table, alias = match[1].lower(), (match[3] or "").lower()
        if table in names.tables or table in names.macros:
            named[alias if alias and alias not in KEYWORDS else table] = table
    return named
