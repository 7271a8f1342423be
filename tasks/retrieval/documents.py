"""Documents of the user's own: markdown, text, HTML, PDF and JSONL files, read as passages.

A file is one document. A passage's id is ``path#number``, and its source is the path, from the
folder on. The lines of a JSONL file are documents of their own. Text is UTF-8; a scanned PDF needs
OCR first.
"""

import logging
import os
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from html.parser import HTMLParser
from pathlib import Path

from pypdf import PdfReader
from pypdf.errors import PyPdfError

from tutti.tasks.retrieval.errors import CorpusRefused
from tutti.tasks.retrieval.passage import Passage, read_jsonl

HEADING = re.compile(r"^#{1,6}\s+(.+?)\s*#*\s*$", re.MULTILINE)
FENCED = re.compile(r"^(```|~~~).*?^\1", re.MULTILINE | re.DOTALL)
BLANK_LINES = re.compile(r"\n[ \t]*(?:\n[ \t]*)+")


class Unreadable(ValueError):
    """A file whose text cannot be read; the message says why, without the path."""


ReadDocument = tuple[str, str]  # a file's title, which may be empty, and its text in paragraphs


def read_plain(path: Path) -> ReadDocument:
    """Read a text file, without a title. Raises Unreadable, OSError."""
    return "", with_paragraphs(decoded(path))


def read_markdown(path: Path) -> ReadDocument:
    """Read a markdown file; its title is its first heading. Raises Unreadable, OSError."""
    text = decoded(path)
    heading = HEADING.search(FENCED.sub("", text))
    return heading[1] if heading else "", with_paragraphs(text)


def decoded(path: Path) -> str:
    r"""Return the file's text, with ``\n`` as line ends. Raises Unreadable if it is not text."""
    data = path.read_bytes()
    if b"\0" in data:
        raise Unreadable("binary, not text")
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise Unreadable(f"not UTF-8 (byte {error.start}): convert it first") from error
    return text.replace("\r\n", "\n").replace("\r", "\n")


def with_paragraphs(text: str, empty: str = "the file is empty") -> str:
    """Return the text with one blank line between paragraphs. Raises Unreadable if it is empty."""
    found = BLANK_LINES.sub("\n\n", text).strip()
    if not found:
        raise Unreadable(empty)
    return found


HIDDEN = frozenset(("script", "style", "noscript", "template", "svg", "head"))
BLOCKS = frozenset(
    "address article aside blockquote dd div dl dt figcaption figure footer form h1 h2 h3 h4 h5 h6 "
    "header hr li main nav ol p pre section table tr ul".split()
)
SPACE = re.compile(r"\s+")


class _Reader(HTMLParser):
    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.title, self.parts = "", list[str]()
        self._hidden, self._in_title, self._in_pre = "", False, False

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if self._hidden == "head" and (tag == "body" or tag in BLOCKS):
            self._hidden = ""  # the end of a head may be left out
        if not self._hidden and tag in HIDDEN:
            self._hidden = tag
        self._in_title = tag == "title" and self._hidden in ("", "head")
        self._in_pre = self._in_pre or tag == "pre"
        self._break(tag)

    def handle_endtag(self, tag: str) -> None:
        if tag == self._hidden:
            self._hidden = ""
        if tag == "pre":
            self._in_pre = False
        self._in_title = False
        self._break(tag)

    def handle_data(self, data: str) -> None:
        if self._in_title:
            self.title += data
        if self._hidden or self._in_title:
            return
        self.parts.append(data if self._in_pre else SPACE.sub(" ", data))

    def _break(self, tag: str) -> None:
        if tag in BLOCKS:
            self.parts.append("\n\n")
        elif tag == "br":
            self.parts.append("\n")
        elif tag in ("td", "th"):
            self.parts.append(" ")


def read_html(path: Path) -> ReadDocument:
    """Read an HTML file, titled by its ``title``. Raises Unreadable, OSError."""
    reader = _Reader()
    reader.feed(decoded(path))
    reader.close()
    title = SPACE.sub(" ", reader.title).strip()
    text = re.sub(r" *\n *", "\n", "".join(reader.parts))
    return title, with_paragraphs(text, "the page has no text: it may be made by a script")


logging.getLogger("pypdf").setLevel(logging.ERROR)  # it warns of each flaw that it can work around


_BROKEN_PDF = (PyPdfError, ValueError, LookupError, TypeError, AttributeError, RecursionError)
"""The errors of pypdf for objects that break the format."""


def read_pdf(path: Path) -> ReadDocument:
    """Read a PDF file, titled by its metadata. Raises Unreadable, OSError."""
    try:
        reader = PdfReader(path)
        if reader.is_encrypted and not reader.decrypt(""):
            raise Unreadable("the PDF needs a password: save it without one")
        pages = [page.extract_text() for page in reader.pages]
        title = (reader.metadata.title if reader.metadata else None) or ""
    except (OSError, Unreadable):
        raise
    except _BROKEN_PDF as error:
        raise Unreadable(f"not a sound PDF: {type(error).__name__}: {error}") from error
    empty = (
        f"the PDF has {len(pages)} pages and no text (a scan?): run OCR first, for example "
        "`ocrmypdf in.pdf out.pdf`"
    )
    return title.strip(), with_paragraphs("\n\n".join(pages), empty)


PASSAGE_CHARS = 1_200  # of a passage: two and a question fit into a context of 1,000 tokens
JSONL = ".jsonl"
READERS: Mapping[str, Callable[[Path], ReadDocument]] = {
    **dict.fromkeys((".md", ".markdown"), read_markdown),
    **dict.fromkeys((".txt", ".text", ".rst"), read_plain),
    **dict.fromkeys((".html", ".htm", ".xhtml"), read_html),
    ".pdf": read_pdf,
}
KNOWN = ", ".join((*READERS, JSONL))


@dataclass
class DocumentSet:
    """The passages of a folder, and the skipped files."""

    passages: list[Passage] = field(default_factory=list)
    files: int = 0
    skipped: Counter[str] = field(default_factory=Counter)  # number of files by the reason
    problems: list[str] = field(default_factory=list)  # each unreadable file's path and fault

    @property
    def lines(self) -> list[str]:
        left = ", ".join(f"{count} {reason}" for reason, count in sorted(self.skipped.items()))
        counts = f"{self.files} files read, {len(self.passages)} passages"
        return [*self.problems, counts + (f"; skipped: {left}" if left else "")]


def open_documents(path: Path, tell: Callable[[str], None]) -> Path | list[Passage]:
    """The source of an index: a JSONL file unchanged, or the passages of a folder or document.

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
    """Yield the readable files, by path. Links are followed only to files within `root`."""
    if path.is_file():
        yield path
        return
    for member in sorted(path.iterdir()):
        if member.name.startswith("."):
            skipped["hidden"] += 1
        elif member.is_symlink() and not Path(os.path.realpath(member)).is_relative_to(root):
            skipped["linked from outside"] += 1
        elif member.is_dir() and not member.is_symlink():
            yield from _files(member, root, skipped)
        elif member.is_file() and member.suffix.lower() in (*READERS, JSONL):
            yield member
        else:
            skipped["of another kind"] += 1


def _read(file: Path, name: str, found: DocumentSet) -> None:
    kind = file.suffix.lower()
    try:
        if kind == JSONL:
            passages = list(read_jsonl(file))
        else:
            title, whole = READERS[kind](file)
            passages = [
                Passage(f"{name}#{position}", text, title or file.stem, name, position)
                for position, text in enumerate(split_text(whole))
            ]
    except (OSError, Unreadable) as error:
        words = error.strerror if isinstance(error, OSError) else error
        found.skipped["unreadable or without text"] += 1
        found.problems.append(f"{file}: {words}")
        return
    found.files += 1
    found.passages += passages


def split_text(text: str, most: int = PASSAGE_CHARS) -> list[str]:
    """Passages of at most `most` characters: whole paragraphs, longer ones cut at white space."""
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
