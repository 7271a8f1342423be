"""Tests of a terminal's output for foreign texts."""

import io
import sys
import unicodedata

import pytest

from tutti.terminal import guard_terminal, shown

JOINED = "caf\u00e9 \u4e2d \U0001f468\u200d\U0001f469 \u0645\u06cc\u200c\u062e \u05d0"


@pytest.mark.parametrize(
    ("text", "safe"),
    [
        ("a\x1b]0;t\x07\r", "a\\x1b]0;t\\x07\\x0d"),
        ("a\u202eb\u2066c\u200f", "a\\u202eb\\u2066c\\u200f"),
        ("\x9b2J\x7f\u2028\ud800\U000e0041", "\\u009b2J\\u007f\\u2028\\ud800\\ue0041"),
        (f"two\nlines\t{JOINED}", f"two\nlines\t{JOINED}"),
    ],
)
def test_what_a_terminal_would_obey_is_shown(text: str, safe: str) -> None:
    assert shown(text) == safe


def test_no_mark_of_direction_is_left() -> None:
    """The marks are those of Unicode's own classes."""
    marks = {"LRE", "RLE", "LRO", "RLO", "PDF", "LRI", "RLI", "FSI", "PDI"}
    for code in range(0x110000):
        character = chr(code)
        if unicodedata.bidirectional(character) in marks or (
            unicodedata.category(character) == "Cc" and character not in "\n\t"
        ):
            assert shown(character) != character, hex(code)


class Terminal(io.TextIOWrapper):
    """Stream that reports being a terminal."""

    def isatty(self) -> bool:
        return True


def test_everything_printed_is_guarded_and_our_styles_pass(monkeypatch: pytest.MonkeyPatch) -> None:
    raw, piped = io.BytesIO(), io.StringIO()
    monkeypatch.setattr(sys, "stdout", Terminal(raw, "utf-8"))
    monkeypatch.setattr(sys, "stderr", piped)
    guard_terminal()
    print("\x1b[1mbold\x1b[0m \u202eabc\x9b")
    sys.stdout.writelines(["\u2066"])
    sys.stdout.flush()
    print("\u202e", file=sys.stderr)
    assert raw.getvalue().decode() == "\x1b[1mbold\x1b[0m \\u202eabc\\u009b\n\\u2066"
    assert piped.getvalue() == "\u202e\n", "a pipe or file gets what was written"
