"""Reads a folder of documents, or one document, as passages of an index.

In: a path. Out: `Passage`s, and what was skipped with the reasons. A file is one document; its
title is its first heading, else its name. A passage's id is ``path#number``, and its source is the
path, from the folder on. The lines of a JSONL file are documents of their own, with their own ids.
"""

import os
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path

from tutti.tasks.retrieval.documents.html import read_html
from tutti.tasks.retrieval.documents.pdf import read_pdf
from tutti.tasks.retrieval.documents.text import ReadDocument, Unreadable, read_markdown, read_plain
from tutti.tasks.retrieval.errors import CorpusRefused
from tutti.tasks.retrieval.passage import Passage, read_jsonl

PASSAGE_CHARS = 1_200
"""The most characters of a passage: two and a question fit into a context of 1,000 tokens."""
JSONL = ".jsonl"
READERS: Mapping[str, Callable[[Path], ReadDocument]] = {
    ".md": read_markdown,
    ".markdown": read_markdown,
    ".txt": read_plain,
    ".text": read_plain,
    ".rst": read_plain,
    ".html": read_html,
    ".htm": read_html,
    ".xhtml": read_html,
    ".pdf": read_pdf,
}
KNOWN = ", ".join((*READERS, JSONL))


class Skipped(StrEnum):
    """Why a file is not in the index."""

    HIDDEN = "hidden"
    KIND = "of another kind"
    LINK = "linked from outside"
    UNREADABLE = "unreadable or without text"


@dataclass
class DocumentSet:
    """The passages of a folder, and what was left out."""

    passages: list[Passage] = field(default_factory=list)
    files: int = 0
    skipped: Counter[str] = field(default_factory=Counter)
    problems: list[str] = field(default_factory=list)
    """One line for each file that could not be read: its path, and why."""

    @property
    def lines(self) -> list[str]:
        """What to tell the user: the problems, and the counts."""
        left = ", ".join(f"{count} {reason}" for reason, count in sorted(self.skipped.items()))
        counts = f"{self.files} files read, {len(self.passages)} passages"
        return [*self.problems, counts + (f"; skipped: {left}" if left else "")]


def open_documents(path: Path, tell: Callable[[str], None]) -> Path | list[Passage]:
    """What to build an index of: a JSONL file as it is, or the passages of a folder or document.

    `tell` gets a line on each file that could not be read, and the counts. Raises CorpusRefused.
    """
    if not path.exists():
        raise CorpusRefused(f"corpus: {path}: no such file or folder; or give `stdlib`")
    if path.is_file() and path.suffix.lower() == JSONL:
        return path
    found = read_documents(path)
    for line in found.lines:
        tell(line)
    return found.passages


def read_documents(path: Path) -> DocumentSet:
    """Read every document below `path`, or the one file. Raises CorpusRefused if there is none."""
    found = DocumentSet()
    if path.is_file() and path.suffix.lower() not in (*READERS, JSONL):
        raise CorpusRefused(f"{path}: not one of {KNOWN}")
    root = path if path.is_dir() else path.parent
    for file in _files(path, root.resolve(), found.skipped):
        _read(file, file.relative_to(root).as_posix(), found)
    if not found.passages:
        raise CorpusRefused(f"{path}: no document to index ({'; '.join(found.lines)})")
    return found


def _files(path: Path, root: Path, skipped: Counter[str]) -> Iterator[Path]:
    """The files that can be read, ordered by path. Links to folders are not followed, and links to
    files only within `root`."""
    if path.is_file():
        yield path
        return
    for member in sorted(path.iterdir()):
        if member.name.startswith("."):
            skipped[Skipped.HIDDEN] += 1
        elif member.is_symlink() and not Path(os.path.realpath(member)).is_relative_to(root):
            skipped[Skipped.LINK] += 1
        elif member.is_dir() and not member.is_symlink():
            yield from _files(member, root, skipped)
        elif member.is_file() and member.suffix.lower() in (*READERS, JSONL):
            yield member
        else:
            skipped[Skipped.KIND] += 1


def _read(file: Path, name: str, found: DocumentSet) -> None:
    kind = file.suffix.lower()
    try:
        if kind == JSONL:
            passages = list(read_jsonl(file))
        else:
            read = READERS[kind](file)
            passages = [
                Passage(f"{name}#{position}", text, read.title or file.stem, name, position)
                for position, text in enumerate(split_text(read.text))
            ]
    except (OSError, Unreadable) as error:
        words = error.strerror if isinstance(error, OSError) else error
        found.skipped[Skipped.UNREADABLE] += 1
        found.problems.append(f"{file}: {words}")
        return
    found.files += 1
    found.passages += passages


def split_text(text: str, most: int = PASSAGE_CHARS) -> list[str]:
    """Passages of at most `most` characters: whole paragraphs as far as they fit together, longer
    paragraphs cut at white space."""
    passages = [""]
    for paragraph in text.split("\n\n"):
        for part in _cut(paragraph.strip(), most):
            joined = f"{passages[-1]}\n\n{part}" if passages[-1] else part
            if len(joined) <= most:
                passages[-1] = joined
            else:
                passages.append(part)
    return [passage for passage in passages if passage]


def _cut(paragraph: str, most: int) -> Iterator[str]:
    while len(paragraph) > most:
        place = max(paragraph.rfind(space, 0, most + 1) for space in (" ", "\n"))
        place = place if place > 0 else most
        yield paragraph[:place].rstrip()
        paragraph = paragraph[place:].lstrip()
    if paragraph:
        yield paragraph
