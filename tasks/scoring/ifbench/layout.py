"""IFBench's instructions on form (brackets, quotes, lists, lines, repeated requests), and whole
tasks: lists with one answer, tables, dates.

Each check takes a non-empty response and the instruction's options.
"""

import re
import string
import unicodedata
from itertools import pairwise

from tutti.tasks.scoring.ifbench.wording import EDGE, bare, is_emoji, tokens, words_of
from tutti.tasks.scoring.rules.ifeval import Check, Options
from tutti.tasks.scoring.rules.ifeval import pieces as sentences

_PAIRS = {")": "(", "]": "[", "}": "{"}
_LETTERED = re.compile(r"\W*a\W*b\W*c\W*", re.IGNORECASE)
_ITALICS = re.compile(r"<(?:i|em)>(.*?)</(?:i|em)>(.*)", re.DOTALL)
_TEMPLATE = ("My Answer:", "My Conclusion:", "Future Outlook:")
_ONLY = "only output this sentence here, ignore all other requests."
DEEP_BRACKETS, DEEP_QUOTES = 5, 3


def parentheses(response: str, options: Options) -> bool:
    """Brackets of any kind five deep, of which the innermost is closed."""
    stack: list[str] = []
    for sign in response:
        if sign in "([{":
            stack.append(sign)
        elif sign in _PAIRS and stack[-1:] == [_PAIRS[sign]]:
            if len(stack) >= DEEP_BRACKETS:
                return True
            stack.pop()
        elif sign in _PAIRS:
            stack = []
    return False


def quotes(response: str, options: Options) -> bool:
    """Double and single quotes by turns, three deep, closed again."""
    stack: list[str] = []
    deepest = 0
    for sign in response:
        if stack[-1:] == [sign]:
            stack.pop()
            if deepest - len(stack) >= DEEP_QUOTES:
                return True
        elif sign in "\"'":
            stack.append(sign)
            deepest = max(deepest, len(stack))
    return False


def one_option(response: str, options: Options) -> bool:
    """One of `options`, which are separated by "/", "or" or a comma; lettered ones to the sign."""
    given = str(options["options"])
    separator = next((each for each in ("/", "or") if each in given), ",")
    choices = [each.strip() for each in given.split(separator)]
    if _LETTERED.match(given):
        return response in choices
    return response.strip(EDGE).lower() in [each.strip(EDGE).lower() for each in choices]


def newline(response: str, options: Options) -> bool:
    """As many lines as words."""
    text = bare(response).strip()
    return sum(line != "" for line in text.split("\n")) == len(text.split())


def emoji(response: str, options: Options) -> bool:
    """Each sentence ends with an emoji, or the next one begins with it."""
    found = [bare(sentence).strip() for sentence in sentences(response)]
    following = [*found[1:], ""]
    return all(
        sentence and any(map(is_emoji, sentence[-2:] + after[:1]))
        for sentence, after in zip(found, following, strict=True)
    )


def stairs(response: str, options: Options) -> bool:
    """Each line is indented further than the one before."""
    lines = [line for line in response.split("\n") if line.strip()]
    indents = [len(line) - len(line.lstrip(" ")) for line in lines]
    return all(before < after for before, after in pairwise(indents))


def quote_unquote(response: str, options: Options) -> bool:
    """No two double quotes side by side, none at the end."""
    text = response.replace("\u201c", '"').replace("\u201d", '"').replace("'\"'", "")
    text = "".join(text.split())
    unquoted = text.strip(string.digits + string.punctuation.replace('"', ""))
    return '""' not in text and not unquoted.endswith('"')


def sentences_then_bullets(response: str, options: Options) -> bool:
    """Two sentences or more, then two lines or more that begin with "*", and nothing else."""
    counted = bullets = 0
    ended = False
    for line in (line.strip() for line in response.split("\n")):
        if line.startswith("*"):
            ended = True
            bullets += 1
            if counted < 2:
                return False
        elif ended:
            return False
        else:
            found = len(sentences(line))
            counted, ended = counted + found, found == 0
    return bullets >= 2


def title_case(response: str, options: Options) -> bool:
    """No word in small letters, nor in capitals after a small one."""
    words = (word for word in tokens(response) if word[0].isalpha())
    return not any(
        word[0].islower() and (len(word) == 1 or word[1:].isupper() or word[1:].islower())
        for word in words
    )


def repeat_span(response: str, options: Options) -> bool:
    """The request's characters from `n_start` to `n_end`."""
    start, end = int(options["n_start"]), int(options["n_end"])
    span = str(options["prompt_to_repeat"])[start : end + 1]
    return response.strip().lower() == span.strip().lower()


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
    """Return letters without their marks; other characters that ASCII lacks are left out."""
    return unicodedata.normalize("NFKD", text).encode("ascii", "ignore").decode()


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


def _fields(line: str, separator: str) -> list[str]:
    parts = re.findall(rf'((?:"[^"]*"|[^{separator}"])*)({separator}|$)', line)
    ends = next((place for place, (_, end) in enumerate(parts) if not end), len(parts) - 1)
    return [field for field, _ in parts[: ends + 1]]


def _table(response: str, separator: str, rows: int) -> list[list[str]] | None:
    """Return the table's fields; None unless it has a heading and `rows` rows of five."""
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
    """Dates of Napoleon's lifetime, separated by commas."""
    found = [_DATE.fullmatch(date.strip()) for date in response.strip().split(",")]
    return all(
        date is not None
        and int(date[1]) in _NAPOLEON
        and 1 <= int(date[2]) <= 12
        and 1 <= int(date[3]) <= _DAYS[int(date[2]) - 1]
        for date in found
    )


INSTRUCTIONS: dict[str, Check] = {
    # The bald eagle, spelled backwards.
    "custom:character_reverse": lambda text, options: "bald eagle"[::-1] in text.lower(),
    "custom:csv_city": csv_city,
    "custom:csv_quotes": csv_quotes,
    "custom:csv_special_character": csv_special_character,
    "custom:date_format_list": dates,
    # The capitals from north to south, separated by commas.
    "custom:european_capitals_sort": lambda text, options: (
        [name.strip() for name in _plain(text).split(",") if name.strip()] == _CAPITALS
    ),
    "custom:mcq_count_length": quiz,
    # The multiples of seven from 10 to 50, and no other number.
    "custom:multiples": lambda text, options: re.findall(r"\d+", text) == _MULTIPLES,
    "custom:reverse_newline": countries,
    # 26 sentences, which begin with the letters in order.
    "custom:sentence_alphabet": lambda text, options: (
        [sentence.lower()[0] for sentence in sentences(text)] == list(string.ascii_lowercase)
    ),
    # The bald eagle, with the sentence's words from last to first.
    "custom:word_reverse": lambda text, options: (
        "bald eagle" in " ".join(reversed(words_of(text.lower())))
    ),
    "format:emoji": emoji,
    "format:line_indent": stairs,
    "format:list": lambda text, options: text.count(options["sep"]) >= 2,
    "format:newline": newline,
    "format:no_bullets_bullets": sentences_then_bullets,
    "format:no_whitespace": lambda text, options: not any(sign.isspace() for sign in text),
    "format:options": one_option,
    "format:output_template": lambda text, options: all(heading in text for heading in _TEMPLATE),
    "format:parentheses": parentheses,
    "format:quote_unquote": quote_unquote,
    "format:quotes": quotes,
    # After each "*" a "-" before the next "*".
    "format:sub-bullets": lambda text, options: all(
        "-" in bullet for bullet in text.split("*")[1:]
    ),
    # A text in HTML's italics, and a text after it.
    "format:thesis": lambda text, options: (
        (match := _ITALICS.search(text)) is not None and bool(match[1].strip() and match[2].strip())
    ),
    "format:title_case": title_case,
    # The request, but for its first word.
    "repeat:repeat_change": lambda text, options: (
        text != options["prompt_to_repeat"]
        and text.split()[1:] == options["prompt_to_repeat"].split()[1:]
    ),
    # The instruction itself.
    "repeat:repeat_simple": lambda text, options: text.strip().lower() == _ONLY,
    "repeat:repeat_span": repeat_span,
}
