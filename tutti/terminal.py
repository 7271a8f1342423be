"""Text on a terminal: what it would obey, or what reorders a line, is shown and not obeyed.

Models, tools and endpoints write such characters too. `shown` is for their texts. `guard_terminal`
covers everything printed, where escape sequences of our own must pass.
"""

import io
import re
import sys
from typing import TextIO

ORDER = "\x80-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ufff9-\ufffb\U000e0000-\U000e007f"
"""C1 controls, marks of direction (UAX 9), separators of lines, annotations, invisible letters.
Joiners stay: scripts and emoji need them."""
CONTROL = re.compile(f"[\x00-\x08\x0b-\x1f\x7f\ud800-\udfff{ORDER}]")
_NEVER_OURS = re.compile(f"[{ORDER}]")


def shown(text: str) -> str:
    """The text with such characters as escapes, ``\\x1b`` and ``\\u202e``; line ends stay."""
    return CONTROL.sub(_escape, text)


def guard_terminal() -> None:
    """From now on print escapes for what only others' texts have."""
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
