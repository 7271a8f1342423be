"""Reads markdown and plain text files: UTF-8, with or without a byte order mark."""

import re
from dataclasses import dataclass
from pathlib import Path

HEADING = re.compile(r"^#{1,6}\s+(.+?)\s*#*\s*$", re.MULTILINE)
FENCED = re.compile(r"^(```|~~~).*?^\1", re.MULTILINE | re.DOTALL)
BLANK_LINES = re.compile(r"\n[ \t]*(?:\n[ \t]*)+")


class Unreadable(ValueError):
    """A file whose text cannot be read; the message says why, without the path."""


@dataclass(frozen=True)
class ReadDocument:
    """A file's title, which may be empty, and its text in paragraphs."""

    title: str
    text: str


def read_plain(path: Path) -> ReadDocument:
    """A text file; its title is left to the caller. Raises Unreadable, OSError."""
    return ReadDocument("", with_paragraphs(decoded(path)))


def read_markdown(path: Path) -> ReadDocument:
    """A markdown file, titled by its first heading outside code. Raises Unreadable, OSError."""
    text = decoded(path)
    heading = HEADING.search(FENCED.sub("", text))
    return ReadDocument(heading[1] if heading else "", with_paragraphs(text))


def decoded(path: Path) -> str:
    """The file's text, with ``\\n`` as line ends. Raises Unreadable for what is not text."""
    data = path.read_bytes()
    if b"\0" in data:
        raise Unreadable("binary, not text")
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise Unreadable(f"not UTF-8 (byte {error.start}): convert it first") from error
    return text.replace("\r\n", "\n").replace("\r", "\n")


def with_paragraphs(text: str) -> str:
    """The text with one blank line between paragraphs. Raises Unreadable if it is empty."""
    found = BLANK_LINES.sub("\n\n", text).strip()
    if not found:
        raise Unreadable("the file is empty")
    return found
