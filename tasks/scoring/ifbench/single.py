"""IFBench's instructions that are whole tasks: lists with one answer, tables, dates.

Each check takes a non-empty response and the instruction's options, of which these have none.
"""

import re
import string
import unicodedata
from itertools import pairwise

from tutti.tasks.scoring.ifbench.text import EDGE, sentences, words_of
from tutti.tasks.scoring.ifeval.check import Options

_MULTIPLES = ["14", "21", "28", "35", "42", "49"]
_QUESTION = re.compile(r"Question \d+[.|):;]?\s*")
_CHOICE = re.compile(r"[A-Ea-e][.|)]\s*\w")
_COUNTRIES = 52
# Capitals of Europe above 45 degrees, from north to south, as the published program has them.
_CAPITALS = (
    "Reykjavik Helsinki Oslo Tallinn Stockholm Riga Moscow Copenhagen Vilnius Minsk Dublin Berlin "
    "Amsterdam Warsaw London Brussels Prague Luxembourg Paris Vienna Bratislava Budapest Vaduz "
    "Chisinau Bern Ljubljana Zagreb"
).split()
_DATE = re.compile(r"(\d{4})-(\d\d)-(\d\d)")
_DAYS = (31, 29, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31)
_NAPOLEON = range(1769, 1822)
COLUMNS = 5


def _plain(text: str) -> str:
    """Letters without their marks; other signs that ASCII lacks are left out."""
    return unicodedata.normalize("NFKD", text).encode("ascii", "ignore").decode()


def multiples(response: str, options: Options) -> bool:
    """The multiples of seven from 10 to 50, and no other number."""
    return re.findall(r"\d+", response) == _MULTIPLES


def quiz(response: str, options: Options) -> bool:
    """Four questions, each longer than the one before, with five choices each."""
    if not response.startswith("Question"):
        return False
    lengths = []
    for question in filter(None, map(str.strip, _QUESTION.split(response))):
        lines = [line.strip() for line in question.split("\n")]
        choices = [place for place, line in enumerate(lines) if _CHOICE.match(line)]
        if len(choices) != COLUMNS:
            return False
        lengths.append(len(" ".join(lines[: choices[0]]).strip()))
    return len(lengths) == 4 and all(one < other for one, other in pairwise(lengths))


def countries(response: str, options: Options) -> bool:
    """At least 52 lines from Zimbabwe on, in reverse alphabetical order."""
    lines = [line.strip(EDGE) for line in response.split("\n") if line.strip(EDGE)]
    start = next((place for place, line in enumerate(lines) if "Zimbabwe" in line), len(lines))
    names = [_plain(line) for line in lines[start:]]
    return len(names) >= _COUNTRIES and names == sorted(names, reverse=True)


def eagle_by_words(response: str, options: Options) -> bool:
    """The bald eagle, with the sentence's words from last to first."""
    return "bald eagle" in " ".join(reversed(words_of(response.lower())))


def eagle_by_letters(response: str, options: Options) -> bool:
    """The bald eagle, spelled backwards."""
    return "bald eagle"[::-1] in response.lower()


def story(response: str, options: Options) -> bool:
    """26 sentences, which begin with the letters in order."""
    firsts = [sentence.lower()[0] for sentence in sentences(response)]
    return firsts == list(string.ascii_lowercase)


def capitals(response: str, options: Options) -> bool:
    """The capitals from north to south, parted by commas."""
    given = [name.strip() for name in _plain(response).split(",") if name.strip()]
    return given == _CAPITALS


def _fields(line: str, separator: str) -> list[str]:
    """The fields of a line with their quotes."""
    parts = re.findall(rf'((?:"[^"]*"|[^{separator}"])*)({separator}|$)', line)
    ends = next((place for place, (_, end) in enumerate(parts) if not end), len(parts) - 1)
    return [field for field, _ in parts[: ends + 1]]


def _table(response: str, separator: str, rows: int) -> list[list[str]] | None:
    """The table's fields; None unless it has a heading and `rows` rows of five."""
    table = [_fields(line, separator) for line in response.splitlines()]
    whole = len(table) == rows + 1 and all(len(row) == COLUMNS for row in table)
    return table if whole else None


def _heading(row: list[str]) -> list[str]:
    return [field.strip().strip('"') for field in row]


def csv_city(response: str, options: Options) -> bool:
    """Seven rows below the five columns."""
    table = _table(response, ",", 7)
    columns = ["ID", "Country", "City", "Year", "Count"]
    return table is not None and [field.strip('"') for field in table[0]] == columns


def csv_special_character(response: str, options: Options) -> bool:
    """Fourteen rows, with a quoted field that has a special character."""
    table = _table(response, ",", 14)
    columns = ["ProductID", "Category", "Brand", "Price", "Stock"]
    if table is None or _heading(table[0]) != columns:
        return False
    return any(re.match(r'".*[^\w\s].*"', field) for row in table[1:] for field in row)


def csv_quotes(response: str, options: Options) -> bool:
    """Three rows with tabs, every field quoted."""
    table = _table(response, "\t", 3)
    columns = ["StudentID", "Subject", "Grade", "Semester", "Score"]
    if table is None or _heading(table[0]) != columns:
        return False
    fields = [field.strip() for row in table for field in row]
    return all(field[:1] == field[-1:] == '"' for field in fields)


def dates(response: str, options: Options) -> bool:
    """Dates of Napoleon's lifetime, parted by commas."""
    found = [_DATE.fullmatch(date.strip()) for date in response.strip().split(",")]
    return all(
        date is not None
        and int(date[1]) in _NAPOLEON
        and 1 <= int(date[2]) <= 12
        and 1 <= int(date[3]) <= _DAYS[int(date[2]) - 1]
        for date in found
    )
