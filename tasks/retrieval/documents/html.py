"""Reads HTML files with the standard library's parser: the text that a reader sees."""

import re
from html.parser import HTMLParser
from pathlib import Path

from tutti.tasks.retrieval.documents.text import ReadDocument, Unreadable, decoded, with_paragraphs

HIDDEN = frozenset(("script", "style", "noscript", "template", "svg", "head"))
BLOCKS = frozenset(
    "address article aside blockquote dd div dl dt figcaption figure footer form h1 h2 h3 h4 h5 h6 "
    "header hr li main nav ol p pre section table tr ul".split()
)
SPACE = re.compile(r"\s+")


class _Reader(HTMLParser):
    """Collects title, first heading and visible text."""

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.title, self.heading, self.parts = "", "", list[str]()
        self._hidden, self._in_title, self._in_heading, self._in_pre = "", False, False, False

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if self._hidden == "head" and (tag == "body" or tag in BLOCKS):
            self._hidden = ""  # the end of a head may be left out
        if not self._hidden and tag in HIDDEN:
            self._hidden = tag
        self._in_title = tag == "title" and self._hidden in ("", "head")
        self._in_heading = self._in_heading or (tag in ("h1", "h2") and not self.heading)
        self._in_pre = self._in_pre or tag == "pre"
        self._break(tag)

    def handle_endtag(self, tag: str) -> None:
        if tag == self._hidden:
            self._hidden = ""
        if tag in ("h1", "h2"):
            self._in_heading = False
        if tag == "pre":
            self._in_pre = False
        self._in_title = False
        self._break(tag)

    def handle_data(self, data: str) -> None:
        if self._in_title:
            self.title += data
        if self._hidden or self._in_title:
            return
        if self._in_heading:
            self.heading += data
        self.parts.append(data if self._in_pre else SPACE.sub(" ", data))

    def _break(self, tag: str) -> None:
        if tag in BLOCKS:
            self.parts.append("\n\n")
        elif tag == "br":
            self.parts.append("\n")
        elif tag in ("td", "th"):
            self.parts.append(" ")


def read_html(path: Path) -> ReadDocument:
    """An HTML file, titled by its ``title``, else its first heading. Raises Unreadable, OSError."""
    reader = _Reader()
    reader.feed(decoded(path))
    reader.close()
    title = SPACE.sub(" ", reader.title or reader.heading).strip()
    text = re.sub(r" *\n *", "\n", "".join(reader.parts))
    try:
        return ReadDocument(title, with_paragraphs(text))
    except Unreadable:
        raise Unreadable("the page has no text: it may be made by a script") from None
