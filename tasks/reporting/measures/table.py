"""The report's single model of a table, and its rendering in a terminal and in Markdown.

In: columns, each a heading with the function that formats a row, and rows. Out: a `Table` of texts;
`html` renders it on a page.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from textwrap import wrap
from typing import TYPE_CHECKING, ClassVar, TypeVar

from tutti.tasks.reporting.measures.numbers import ABSENT

if TYPE_CHECKING:
    from rich.table import Table as RichTable

Row = TypeVar("Row")
Columns = Mapping[str, Callable[[Row], str]]
Texts = Mapping[str, Sequence[str]]

LONG = frozenset({"window rule", "error", "latest message", "why"})
WORDS = LONG | {"policy", "model", "benchmark", "family", "status", "stop reason"}
WORDS |= {"what", "role or tool", "where", "judged", "against", "figure", "verdict"}
WORDS |= {"task set", "index", "engine", "cell", "field", "in A", "in B", "subset", "measure"}
WORDS |= {"client", "front", "measured twice", "twice", "side"}
"""Columns of words; the others hold numbers and are aligned right."""
FOLDED = LONG | {"where", "figure"}
WIDTH = 80  # characters of a usual terminal
WIDEST = 16  # of a column of words that is not broken
HEADER = 10  # of a column's name: what is longer is broken at its spaces


def texts(columns: Columns[Row], found: Sequence[Row]) -> dict[str, list[str]]:
    return {name: [show(row) for row in found] for name, show in columns.items()}


@dataclass(frozen=True)
class Table:
    texts: Texts
    title: str = ""
    note: str = ""
    missing: str = "No rows."
    """Text in place of a table without rows; empty: nothing, and no title."""
    spare: Sequence[str] = ()
    """Columns that a terminal leaves out, in this order, as long as the table is too wide."""
    macro: ClassVar[str] = "table"

    @property
    def lines(self) -> list[dict[str, str]]:
        return [
            dict(zip(self.texts, line, strict=True))
            for line in zip(*self.texts.values(), strict=True)
        ]

    def with_values(self) -> "Table":
        """Return the table without empty columns."""
        kept = {
            name: column
            for name, column in self.texts.items()
            if any(text not in (ABSENT, "") for text in column)
        }
        return replace(self, texts=kept)

    def markdown(self) -> str:
        lines = [list(self.texts), ["---" if name in WORDS else "---:" for name in self.texts]]
        lines += [[markdown_text(text) for text in line.values()] for line in self.lines]
        return "".join(f"| {' | '.join(line)} |\n" for line in lines)

    def __rich__(self) -> "RichTable":
        """The table for a terminal of WIDTH characters."""
        from rich.box import SIMPLE_HEAD
        from rich.table import Table as RichTable
        from rich.text import Text

        widths = {
            name: max(map(len, [*_heading(name).split("\n"), *column]))
            for name, column in self.texts.items()
        }
        for name in self.spare:
            if sum(width + 2 for width in widths.values()) > WIDTH:
                widths.pop(name, None)
        table = RichTable(box=SIMPLE_HEAD, pad_edge=False, padding=(0, 1), collapse_padding=True)
        if self.title:
            table.title, table.title_justify = Text(self.title), "left"
        for name, width in widths.items():
            # Folded, not clipped: a model's name must be readable to its end.
            if name in WORDS:
                fold = name in FOLDED or width > WIDEST
                table.add_column(Text(_heading(name)), no_wrap=not fold, overflow="fold")
            else:
                table.add_column(Text(_heading(name)), justify="right", no_wrap=True)
        for line in self.lines:
            table.add_row(*(Text(line[name]) for name in widths))  # Text: brackets are no markup
        return table


def tabulate(
    columns: Columns[Row], found: Sequence[Row], title: str = "", missing: str = "No rows."
) -> Table:
    """Return a table of the columns that have a value in at least one row."""
    return Table(texts(columns, found), title, missing=missing).with_values()


def markdown_text(text: str) -> str:
    """Escape text for a Markdown page or a cell of its tables."""
    return text.replace("\\", "\\\\").replace("|", "\\|").replace("\n", " ").replace("<", "&lt;")


def _heading(name: str) -> str:
    short = name.replace("at once", "at").replace("client ", "").replace("repeat", "rep")
    return "\n".join(wrap(short, HEADER)) if len(short) > HEADER else short
