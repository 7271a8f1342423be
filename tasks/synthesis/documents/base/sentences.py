"""Sentences of passages as plain text: wrapped lines joined, without markdown's marks.

Headings, tables, quotations and code blocks are left out, and so are sentences that the border of
two passages cuts.
"""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from tutti.tasks.retrieval import Passage

FENCE = re.compile(r"\s*(?:```|~~~)")
ITEM = re.compile(r"\s*(?:[-*+]|\d{1,3}[.)])\s+")
NOT_PROSE = re.compile(r"\s*(?:[#|<>]|[=-]{3,}\s*$)|( {4}|\t)")
"""Headings, tables, tags, quotations, rules; and indented code, which no paragraph is before."""
END = re.compile(r"[.!?][\"')*\]]*(?=\s+(?:[\[\"'(*]*[A-Z0-9]|`)|\s*$)")
ABBREVIATED = re.compile(r"\b(?:e\.g|i\.e|etc|al|vs|cf|fig|no|dr|mrs?|st|ca|[A-Z])$", re.I)
CODE = re.compile(r"(`+)(.+?)\1", re.DOTALL)
INLINE = re.compile(
    r"(?P<tick>`+)(?P<code>.+?)(?P=tick)"
    r"|!?\[(?P<link>[^\]]*)\]\([^()\s]*(?:\([^()]*\)[^()\s]*)*\)"
    r"|\*\*|(?<!\w)[*_](?=\w)|(?<=[\w.,)])[*_](?!\w)"
)
WHOLE = (".", "!", "?", ":", "|", "`")
"""What the last paragraph of a passage ends with, unless the passage's border cuts it."""


@dataclass(frozen=True, slots=True)
class Sentence:
    """One sentence of a passage."""

    raw: str
    """As it stands in the passage."""
    plain: str
    """Without marks; white space is single spaces."""
    code: tuple[tuple[int, int], ...]
    """Where in `plain` a span of code stands."""


def plain_text(raw: str) -> Sentence:
    """Return a text without markdown's inline marks."""
    pieces: list[str] = []
    code: list[tuple[int, int]] = []
    text, at, length = " ".join(raw.split()), 0, 0
    for match in INLINE.finditer(text):
        kept = match["code"] or match["link"] or ""
        before = text[at : match.start()]
        length += len(before)
        if match["code"]:
            code.append((length, length + len(kept)))
        pieces += [before, kept]
        length, at = length + len(kept), match.end()
    return Sentence(raw, "".join([*pieces, text[at:]]), tuple(code))


def sentences_of(text: str) -> list[Sentence]:
    """Return the sentences of a self-contained text."""
    return [each for _, each in read_sentences([Passage("", text)])]


def read_sentences(passages: Iterable[Passage]) -> Iterator[tuple[Passage, Sentence]]:
    """Yield the sentences of all passages. Passages of one source must be adjacent and in order."""
    source, is_code, is_cut = "", False, False
    for passage in passages:
        if passage.source != source or not passage.source or not passage.position:
            is_code = is_cut = False
        source = passage.source
        blocks, is_code = _blocks(passage.text, is_code)
        for place, (start, end) in enumerate(blocks):
            skips = is_cut and not place and start == 0
            for raw in _split(passage.text[start:end])[skips:]:
                yield passage, plain_text(raw)
        is_cut = not passage.text.rstrip().endswith(WHOLE)


def _blocks(text: str, is_code: bool) -> tuple[list[tuple[int, int]], bool]:
    """Positions of paragraphs and list items of prose, and whether the text ends within code."""
    blocks: list[tuple[int, int]] = []
    at, is_open = 0, False
    for line in text.splitlines(keepends=True):
        begin, at = at, at + len(line)
        if FENCE.match(line):
            is_code, is_open = not is_code, False
            continue
        item, other = ITEM.match(line), NOT_PROSE.match(line)
        is_indented = other is not None and other[1] is not None
        if is_code or not line.strip() or (other and not item and not (is_indented and is_open)):
            is_open = False
        elif item:
            blocks.append((begin + item.end(), at))
            is_open = True
        elif is_open:
            blocks[-1] = (blocks[-1][0], at)
        else:
            blocks.append((begin, at))
            is_open = True
    return blocks, is_code


def _split(block: str) -> list[str]:
    spans = [match.span() for match in CODE.finditer(block)]
    found, at = [], 0
    for end in END.finditer(block):
        is_code = any(start < end.start() < stop for start, stop in spans)
        if is_code or (block[end.start()] == "." and ABBREVIATED.search(block[at : end.start()])):
            continue
        found.append(block[at : end.end()].strip())
        at = end.end()
    return found
