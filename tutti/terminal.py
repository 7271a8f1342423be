"""Text on a terminal: control and bidirectional characters are shown as escapes and have no effect.

Models, tools and endpoints write such characters too. `shown` is for their texts. `guard_terminal`
covers everything printed, where our own escape sequences must pass.
"""

import io
import re
import sys
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Literal, TextIO

if TYPE_CHECKING:
    from rich.table import Table

ORDER = "\x80-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ufff9-\ufffb\U000e0000-\U000e007f"
"""C1 controls, marks of direction (UAX 9), separators of lines, annotations, invisible letters.
Joiners stay: scripts and emoji need them."""
CONTROL = re.compile(f"[\x00-\x08\x0b-\x1f\x7f\ud800-\udfff{ORDER}]")
_NEVER_OURS = re.compile(f"[{ORDER}]")


def shown(text: str) -> str:
    r"""Return the text with such characters as escapes, ``\x1b`` and ``\u202e``; line ends stay."""
    return CONTROL.sub(_escape, text)


def table(columns: Mapping[str, str], rows: Iterable[Sequence[object]], title: str = "") -> "Table":
    """Return a table of rows below the column names; without a header if all names are blank.

    `columns` gives the kind of each column: words on one line (left), numbers (right), or wrapped
    text (fold). Brackets are not markup; a `rich.text.Text` keeps its style; None is an empty cell.
    """
    from rich.box import SIMPLE_HEAD
    from rich.table import Table
    from rich.text import Text

    made = Table(box=SIMPLE_HEAD, pad_edge=False, collapse_padding=True)
    made.show_header = any(map(str.strip, columns))
    made.title, made.title_justify = Text(title) if title else None, "left"
    for name, kind in columns.items():
        justify: Literal["left", "right"] = "right" if kind == "right" else "left"
        made.add_column(
            Text(name.strip()), justify=justify, no_wrap=kind != "fold", overflow="fold"
        )
    for row in rows:
        texts = ("" if cell is None else cell for cell in row)
        made.add_row(*(each if isinstance(each, Text) else Text(str(each)) for each in texts))
    return made


def guard_terminal() -> None:
    """Make print escape the characters that only texts of others contain."""
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if stream.isatty():
            guarded = _Guarded(stream.buffer, stream.encoding, stream.errors, line_buffering=True)
            guarded.under = stream  # collected, it would close the buffer
            setattr(sys, name, guarded)


class _Guarded(io.TextIOWrapper):
    under: TextIO

    def write(self, text: str, /) -> int:
        return super().write(_NEVER_OURS.sub(_escape, text))


def _escape(found: re.Match[str]) -> str:
    code = ord(found[0])
    return f"\\x{code:02x}" if code < 0x20 else f"\\u{code:04x}"
