"""What can be written next at the prompt: tables, columns, macros, functions, SQL, dot commands.

In: the text around the cursor, and the names a connection knows. Out: completions, likely ones
first: the columns of the tables that the statement names.
"""

import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field

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
SUBSTRING_FROM = 3  # letters from which a name is also offered for what it has inside

QUOTED = r"'(?:[^']|'')*'|\"(?:[^\"]|\"\")*\"|--[^\n]*(?=\n)|/\*.*?\*/|\$(\w*)\$.*?\$\1\$"
LITERAL = re.compile(QUOTED, re.S)
OPEN_LITERAL = re.compile(r"'|\"|--|/\*|\$\w*\$")
NAMED = re.compile(
    r"(?:\b(?:from|join|into|update|describe|summarize)|,)\s+(\w+)(\s*\([^()]*\))?"
    r"(?:\s+(?:as\s+)?(\w+))?",
    re.I,
)
COMMON_TABLE = re.compile(
    r"(?:\bwith(?:\s+recursive)?|,)\s+(\w+)(?:\s*\([^()]*\))?\s+as\s*\(", re.I
)


def without_literals(text: str) -> str:
    """`text` with strings, quoted names and comments taken out; one still open is left in."""
    return LITERAL.sub(lambda found: "''" if found[0][0] == "'" else " ", text)


def is_inside_literal(text: str) -> bool:
    """Whether the end of `text` is inside a string or a comment."""
    return OPEN_LITERAL.search(without_literals(text).replace("''", "")) is not None


def is_complete(text: str) -> bool:
    """Whether Enter should run it: a dot command, nothing at all, or SQL up to a semicolon."""
    bare = without_literals(text + "\n").strip()
    if not bare or bare.startswith(".") or bare in ("exit", "quit"):
        return True
    return bare.endswith(";") and not is_inside_literal(text + "\n")


@dataclass
class Names:
    """What a connection knows: tables and macros with their columns, and functions."""

    tables: dict[str, list[tuple[str, str]]]
    """Of each table its columns: (name, type)."""
    macros: dict[str, list[str]]
    """Of each table macro its parameters."""
    functions: list[str] = field(default_factory=list)
    describe: Callable[[str], list[tuple[str, str]]] = lambda _: []
    """The columns of a macro's rows; asked for once, when it is first needed."""
    _of_macros: dict[str, list[tuple[str, str]]] = field(default_factory=dict)

    def columns(self, name: str) -> list[tuple[str, str]]:
        """The columns of a table's or a macro's rows; none for any other name."""
        if name in self.macros:
            if name not in self._of_macros:
                self._of_macros[name] = self.describe(name)
            return self._of_macros[name]
        return self.tables.get(name, [])


def names_of(connection: duckdb.DuckDBPyConnection) -> Names:
    """Ask a connection for its names. What views are made of (`…_schema`) is left out."""
    tables: dict[str, list[tuple[str, str]]] = {}
    for table, column, kind in connection.execute(
        "select table_name, column_name, lower(data_type) from duckdb_columns() "
        "where not internal order by table_name, column_index"
    ).fetchall():
        tables.setdefault(table, []).append((column, kind))
    for table in [
        name for name in tables if name.removesuffix("_schema") in tables.keys() - {name}
    ]:
        del tables[table]
    found = connection.execute(
        "select function_name, parameters from duckdb_functions() "
        "where not internal and function_type = 'table_macro' order by all"
    ).fetchall()
    functions = connection.execute(
        "select distinct function_name from duckdb_functions() "
        "where internal and regexp_full_match(function_name, '[a-z]\\w+') order by all"
    ).fetchall()
    macros = {name: list(parameters) for name, parameters in found}

    def describe(macro: str) -> list[tuple[str, str]]:
        nulls = ", ".join("null" for _ in macros[macro])
        rows = connection.execute(f"describe select * from {macro}({nulls})").fetchall()
        return [(row[0], row[1].lower()) for row in rows]

    return Names(tables, macros, [row[0] for row in functions], describe)


class SqlCompleter(Completer):
    """Completes from the names that `names()` gives now, and from `commands`' own arguments."""

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
            yield from self._of_command(before.lstrip())
            return
        if is_inside_literal(before):
            return
        names = self._names()
        bare = without_literals(before).rpartition(";")[2]
        after = without_literals(document.text_after_cursor).partition(";")[0]
        word = re.search(r"\w*$", bare)[0]  # type: ignore[index]  # matches nothing at least
        offers = _offers(bare[: len(bare) - len(word)], bare + after, word, names)
        yield from _matching(word, offers)

    def _of_command(self, text: str) -> Iterator[Completion]:
        command, space, argument = text.partition(" ")
        if not space:
            offers: Iterable[str] = self._commands
            argument = command
        else:
            known = self._commands.get(command)
            offers = known(self._names()) if known else ()
        yield from (
            Completion(each, -len(argument)) for each in offers if each.startswith(argument)
        )


Offer = tuple[str, str]
"""(what to write, a hint about it)"""


def _offers(before: str, statement: str, word: str, names: Names) -> Iterator[Offer]:
    """What fits behind `before`, likely things first; may name the same thing twice."""
    named = named_in(statement, names)
    qualifier = re.search(r"(\w+)\.$", before)
    if qualifier:
        table = named.get(qualifier[1].lower(), qualifier[1].lower())
        yield from names.columns(table)
        return
    previous = re.search(r"(\w+|,|\S)\s*$", before)
    last = previous[1].lower() if previous else ""
    if last in AFTER_THESE_A_TABLE or (last == "," and _in_from(before)):
        yield from _tables(statement, names)
        return
    if not word:
        return  # offered everywhere, the list would only be in the way
    for alias, table in named.items():
        yield from ((column, f"{kind}, {alias}") for column, kind in names.columns(table))
    if not named:
        for table, columns in names.tables.items():
            yield from ((column, f"{kind}, {table}") for column, kind in columns)
    yield from _tables(statement, names)
    upper = word.isupper()
    yield from ((each.upper() if upper else each, "") for each in KEYWORDS)
    yield from ((f"{each}(", "") for each in names.functions)


def _tables(statement: str, names: Names) -> Iterator[Offer]:
    yield from ((found[1], "with") for found in COMMON_TABLE.finditer(statement))
    yield from ((table, "table") for table in names.tables)
    yield from ((f"{name}(", ", ".join(given)) for name, given in names.macros.items())


def named_in(statement: str, names: Names) -> dict[str, str]:
    """The tables a statement names, by what it calls them."""
    named = {}
    for found in NAMED.finditer(statement):
        table, alias = found[1].lower(), (found[3] or "").lower()
        if table in names.tables or table in names.macros:
            named[alias if alias and alias not in KEYWORDS else table] = table
    return named


def _in_from(before: str) -> bool:
    """Whether a comma at the end continues a list of tables rather than of columns."""
    clauses = re.findall(r"\b(select|from|where|by|having|set|on|using)\b", before.lower())
    return bool(clauses) and clauses[-1] == "from"


def _matching(word: str, offers: Iterable[Offer]) -> Iterator[Completion]:
    """Those that start with `word`, then those that have it inside; each once."""
    sought = word.lower()
    seen: set[str] = set()
    inside = []
    for text, hint in offers:
        if text in seen:
            continue
        seen.add(text)
        completion = Completion(text, -len(word), display_meta=hint[:MAX_HINT_CHARACTERS])
        if text.lower().startswith(sought):
            yield completion
        elif len(sought) >= SUBSTRING_FROM and sought in text.lower():
            inside.append(completion)
    yield from inside
