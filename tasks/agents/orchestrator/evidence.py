"""Selects the evidence that fits into an orchestrator's prompt.

In: notes of tool results, in the order of their calls. Out: a text within the `Caps`. Later pieces
of a kind are more important and come nearer to the end: documents with the worst first, then
programs with their output and errors, then refused answers. Whole pieces are left out, the earliest
first. A piece that exceeds the whole budget is shortened in the middle, between words, with a mark.
"""

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from tutti.tasks.agents.orchestrator.agent_file import Caps
from tutti.tasks.agents.retrieve import Hit

Tokens = Callable[[str], float]
"""Estimates the tokens of a text."""
LAST = 5
"""The number of latest searches and failures that are listed."""
CUT = " […] "
SEPARATOR = "\n\n"
WORD_CHARS = 40
LEAST_CHARS = 8  # tokens of a shortened piece; less says nothing


@dataclass(frozen=True)
class SearchNote:
    """A search and its documents, best first."""

    alias: str
    queries: tuple[str, ...]
    hits: tuple[Hit, ...]


@dataclass(frozen=True)
class ProgramNote:
    """A program that an expert wrote, and how it ended."""

    alias: str
    code: str
    output: str
    """Its output and its exception."""
    status: str


@dataclass(frozen=True)
class RefusedAnswer:
    """An answer that the verifier refused."""

    alias: str
    answer: str
    why: str


@dataclass(frozen=True)
class FailureNote:
    """A call that failed."""

    call: str
    why: str


Note = SearchNote | ProgramNote | RefusedAnswer | FailureNote


def documents(notes: Iterable[Note]) -> list[Hit]:
    """Worst first, those of the last search after earlier ones; a repeated text moves to its last
    position."""
    found: dict[str, Hit] = {}
    for note in notes:
        if isinstance(note, SearchNote):
            for hit in reversed(note.hits):
                found.pop(hit.text, None)
                found[hit.text] = hit
    return list(found.values())


def evidence(notes: Sequence[Note], caps: Caps, problem: str, tokens: Tokens) -> str:
    """The text for a prompt that also holds `problem`; empty if there is no evidence or none
    fits."""
    room = _limit(caps.total_tokens) - tokens(problem)
    work = min(_limit(caps.work_tokens), room)
    most = min(_limit(caps.answers_tokens), work)
    answers = _fitted("Answers that were not taken:", _answers(notes), most, tokens)
    left = work - _size(answers, tokens)
    runs = _fitted("Programs that were run:", _runs(notes), left, tokens)
    room -= _size(answers, tokens) + _size(runs, tokens)
    failures = _fitted("Calls that came to nothing:", _failures(notes), room, tokens)
    room -= _size(failures, tokens)
    found = _fitted(_heading(notes), _documents(notes, caps.document_chars), room, tokens, 0.0)
    return SEPARATOR.join(part for part in (found, runs, answers, failures) if part)


def _limit(cap: int | None) -> float:
    return math.inf if cap is None else cap


def shortened(text: str, size: Callable[[str], float], room: float, tail: float = 0.5) -> str:
    """`text` if it fits, else its start and its end (`tail` is the end's share), cut between words,
    with a mark; empty if hardly a word fits. `size` grows with the text."""
    if size(text) <= room:
        return text
    keep, shown = len(text), text
    while room > 0:
        # Shrink by the missing proportion, and by at least a twentieth.
        keep = min(int(keep * room / size(shown)), int(keep * 0.95))
        if keep < LEAST_CHARS:
            break
        shown = _ends(text, int(keep * (1 - tail)), int(keep * tail))
        if size(shown) <= room:
            return shown
    return ""


def _ends(text: str, head: int, tail: int) -> str:
    """About that many characters of both ends."""
    start, end = text[:head], text[len(text) - tail :]
    words, rest = start.rsplit(None, 1), end.split(None, 1)
    # Back to the last white space, unless it is so far away that there are no words.
    start = words[0] if len(words) == 2 and len(words[1]) < WORD_CHARS else start
    end = rest[1] if len(rest) == 2 and len(rest[0]) < WORD_CHARS else end
    return f"{start}{CUT}{end}"


def _fitted(
    heading: str, pieces: Sequence[str], room: float, tokens: Tokens, tail: float = 0.5
) -> str:
    """The last pieces that fit into `room` with the heading; empty if none does."""
    kept: list[str] = []
    room -= tokens(heading)
    for piece in reversed(pieces):
        size = tokens(SEPARATOR + piece)
        if size > room:
            if not kept and (cut := shortened(piece, _after(tokens), room, tail)):
                kept.append(cut)
            break
        kept.append(piece)
        room -= size
    return SEPARATOR.join([heading, *reversed(kept)]) if kept else ""


def _after(tokens: Tokens) -> Tokens:
    return lambda text: tokens(SEPARATOR + text)


def _size(text: str, tokens: Tokens) -> float:
    return tokens(SEPARATOR + text) if text else 0.0


def _heading(notes: Sequence[Note]) -> str:
    searches = [note for note in notes if isinstance(note, SearchNote)]
    asked = "; ".join(
        f"{note.alias} asked {', '.join(map(repr, note.queries))}" for note in searches[-LAST:]
    )
    return f"Documents, the best last ({asked}):"


def _documents(notes: Sequence[Note], chars: int | None) -> list[str]:
    texts = [hit.text for hit in documents(notes)]
    if chars is not None:
        texts = [shortened(text, len, chars, tail=0.0) for text in texts]
    return [f"Document {place}: {text}" for place, text in enumerate(texts, 1)]


def _runs(notes: Sequence[Note]) -> list[str]:
    return [
        f"```python\n{note.code}\n```\nby {note.alias}; it ended: {note.status}; output:\n"
        f"```\n{note.output or '(nothing was printed)'}\n```"
        for note in notes
        if isinstance(note, ProgramNote)
    ]


def _answers(notes: Sequence[Note]) -> list[str]:
    return [
        f"{note.alias}: {note.answer}\nnot taken: {note.why}"
        for note in notes
        if isinstance(note, RefusedAnswer)
    ]


def _failures(notes: Sequence[Note]) -> list[str]:
    failures = [note for note in notes if isinstance(note, FailureNote)]
    return [f"{note.call}: {note.why}" for note in failures[-LAST:]]
