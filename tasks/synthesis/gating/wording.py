"""Texts in one form, in which facts that are written differently are equal.

In: a text. Out: its words in lower case between single spaces; numbers without separators or final
zeros (1,200 = 1200 = 1200.00), dates in ISO form (May 5, 2024 = 5 May 2024 = 2024-05-05).
"""

import re
from collections.abc import Iterator, Sequence
from datetime import date
from functools import lru_cache
from typing import Any

WORD = re.compile(
    r"\d{1,3}(?:,\d{3})+(?:\.\d+)?(?![\w.]*\w)"  # 1,200.50
    r"|\w+(?:[.\-]\w+|(?<=\d):(?=\d)\w+)*"  # words, ids, 2024-05-05, 10:30, json.loads
)
NUMBER = re.compile(r"\d+(?:\.\d+)?")
MONTHS = {
    name: number
    for number, names in enumerate(
        "jan january,feb february,mar march,apr april,may,jun june,jul july,aug august,"
        "sep sept september,oct october,nov november,dec december".split(","),
        1,
    )
    for name in names.split()
}
_MONTH = "|".join(sorted(MONTHS, key=len, reverse=True))
DATE = re.compile(
    rf"\b(?:(?P<month>{_MONTH})\.? (?P<day>\d{{1,2}})(?:st|nd|rd|th)?,? (?P<year>\d{{4}})"
    rf"|(?P<day2>\d{{1,2}})(?:st|nd|rd|th)? (?P<month2>{_MONTH})\.?,? (?P<year2>\d{{4}}))\b"
)
TIME = re.compile(r"(?<=\d\d-\d\d)t(?=\d\d:)")


def words_of(text: str) -> list[str]:
    """Return the words of a text in this form, in order."""
    lower = text.lower()
    if "-" in lower:
        lower = TIME.sub(" ", lower)
    if "20" in lower or "19" in lower or "18" in lower:  # a year
        lower = DATE.sub(_iso, lower)
    return [_word(each) for each in WORD.findall(lower)]


def spaced(text: str) -> str:
    """Return the words of a text between single spaces, one before the first and one after the
    last. A phrase occurs in another text if its `spaced` is a substring of the other's."""
    return f" {' '.join(words_of(text))} "


def leaves(value: Any) -> Iterator[Any]:
    """Yield the values within lists and objects, in order; any other value is its own leaf."""
    if isinstance(value, dict):
        for each in value.values():
            yield from leaves(each)
    elif isinstance(value, list | tuple):
        for each in value:
            yield from leaves(each)
    else:
        yield value


@lru_cache(maxsize=65_536)
def _word(word: str) -> str:
    bare = word.replace(",", "")
    if not NUMBER.fullmatch(bare):
        return word
    if "." in bare:
        bare = bare.rstrip("0").rstrip(".")
    return bare.lstrip("0") if bare.lstrip("0")[:1].isdigit() else "0" + bare.lstrip("0")


def _iso(found: re.Match[str]) -> str:
    part = found.groupdict()
    month = MONTHS[part["month"] or part["month2"]]
    try:
        day = date(int(part["year"] or part["year2"]), month, int(part["day"] or part["day2"]))
    except ValueError:
        return found.group()  # no such day: words like any
    return day.isoformat()


def communicates(said: str, wanted: Sequence[str]) -> list[str]:
    """Return the wanted facts that `said` lacks. A fact is present if it is a substring, both in
    lower case and without commas (tau2, ``evaluator_communicate``)."""
    text = _plain(said)
    return [each for each in wanted if _plain(each) not in text]


def _plain(text: str) -> str:
    return text.lower().replace(",", "")
