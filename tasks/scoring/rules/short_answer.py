"""Short answers: an exact text, a number, or either in a text.

An attempt's number is read from its answer or, without one, from its last message: from the first
line with text after the last ``####``; else from the last box; else from all of it. Of several
numbers the last one counts. A number may have leading zeros, thousands separators, decimals, an
exponent, a sign and a currency sign; it may be a fraction ("3 1/2" is 3.5). A per cent sign is a
unit: "50%" is 50, never 0.5. Two numbers agree if they are equal as fractions, or differ by at most
`tolerance`, and any units of measurement at the end of both are the same.
"""

import re
import unicodedata
from fractions import Fraction

from tutti.tasks.agents import last_boxed
from tutti.tasks.scoring.rules.score import Score, Scorer, ScorerFailed, Submission, Target, texts

EXACT = "exact"
VERSION = "1"


def score_exact(answer: str | None, expected: str) -> Score:
    """1.0 if the answers are equal after `normalise`, else 0.0; a missing answer is wrong."""
    correct = answer is not None and normalise(answer) == normalise(expected)
    return Score(EXACT, VERSION, float(correct), correct)


def normalise(text: str) -> str:
    """Collapse white space, except in quoted text, and use one kind of quote."""
    return " ".join(text.split()).replace('"', "'")


class Exact(Scorer):
    """Exact match after normalising white space and quotes. Target: ``{"answer": text or
    texts}``."""

    name = EXACT
    version = VERSION

    def evaluate(self, target: Target, submission: Submission) -> Score:
        scores = [score_exact(submission.answer, expected) for expected in texts(target, "answer")]
        return max(scores, key=lambda score: score.value)


# digits, and the largest exponent: beyond it arithmetic would be an attack on the scorer
LONGEST = 400
_PLAIN = r"(?:[0-9]{1,3}(?:,[0-9]{3})+(?![0-9])|[0-9]+)(?:\.[0-9]+)?|(?<!\.)\.[0-9]+"
_CURRENCY = r"[$€£¥₹]?"
_NUMBER = re.compile(
    # Not inside a word (x2) nor after the point of another number (1.2.3).
    rf"(?<![A-Za-z_0-9])(?<![0-9]\.)(?P<sign>(?<![0-9)\]%])[-+])?{_CURRENCY}(?P<sign2>(?<=[$€£¥₹])[-+])?"
    rf"(?:(?P<whole>[0-9]+) (?=[0-9]+/[0-9]))?(?P<top>{_PLAIN})"
    rf"(?:[eE](?P<exponent>[-+]?[0-9]+)(?![A-Za-z]))?"
    rf"(?: ?/ ?(?P<bottom>[0-9]+(?:\.[0-9]+)?)(?![/0-9]))?"
)
_SPELLINGS = (
    (re.compile(r"\\[dt]?frac\s*\{([^{}]*)\}\s*\{([^{}]*)\}"), r"\1/\2"),
    (re.compile(r"\\[dt]?frac\s*([0-9])\s*([0-9])"), r"\1/\2"),
    (re.compile(r"\{,\}|\\,|\\!"), ","),
    (re.compile(r"(?<=[0-9])[\u00a0\u202f\u2009](?=[0-9]{3}(?![0-9]))"), ","),
    (re.compile(r"[\u2212\u2013]"), "-"),
    (re.compile(r"\\(?=[$%])"), ""),
)
_BLANKS = re.compile(
    rf"\s*[-+]?\\?{_CURRENCY}[-+]?[0-9]{{1,3}}(?:(?: |\\ )[0-9]{{3}})+(?:\.[0-9]+)?[^0-9]*"
)
_UNIT_NAMES = {
    "mm": "millimeters? millimetres?",
    "cm": "centimeters? centimetres?",
    "dm": "decimeters? decimetres?",
    "m": "meters? metres?",
    "km": "kilometers? kilometres?",
    "in": "inch inches",
    "ft": "foot feet",
    "yd": "yards?",
    "mi": "miles?",
    "mg": "milligrams?",
    "g": "grams?",
    "kg": "kilograms?",
    "lb": "lbs pounds?",
    "oz": "ounces?",
    "ms": "milliseconds?",
    "s": "sec seconds?",
    "min": "minutes?",
    "h": "hr hrs hours?",
    "d": "days?",
    "wk": "weeks?",
    "yr": "years?",
    "ml": "mL milliliters? millilitres?",
    "l": "L liters? litres?",
}
_UNIT_FORMS = {unit: f"{unit} {names}".replace(" ", "|") for unit, names in _UNIT_NAMES.items()}
_UNITS = re.compile(
    r"[0-9}]\)?(?:\s|~|\\[ ,;!]|\\quad)*\$?(?:\\(?:text|mathrm|mbox|textrm|rm)\s*\{\s*)?"
    rf"(?:\b|(?<=[0-9]))(?P<name>{'|'.join(_UNIT_FORMS.values())})(?![A-Za-z])\s*\}}?"
    r"\s*\^?\{?(?P<power>[23\u00b2\u00b3])?\}?[$.\s]*$"
)
_POWERS = {"\u00b2": "2", "\u00b3": "3"}


def numbers(text: str) -> list[Fraction]:
    """All numbers in `text`, in order, of at most `LONGEST` digits."""
    if _BLANKS.fullmatch(text):
        text = re.sub(r"(?<=[0-9])\\? (?=[0-9]{3})", "", text)
    for pattern, plain in _SPELLINGS:
        text = pattern.sub(plain, text)
    return [value for match in _NUMBER.finditer(text) if (value := _value(match)) is not None]


def _value(match: re.Match[str]) -> Fraction | None:
    parts = {name: (part or "").replace(",", "") for name, part in match.groupdict().items()}
    exponent = int(parts["exponent"][:8] or 0)
    longest = max(len(parts[name]) for name in ("whole", "top", "bottom"))
    if abs(exponent) > LONGEST or longest > LONGEST:
        return None
    value = Fraction(parts["top"]) * Fraction(10) ** exponent
    if parts["bottom"]:
        bottom = Fraction(parts["bottom"])
        if bottom == 0:
            return None
        value /= bottom
    value += int(parts["whole"] or 0)
    return -value if "-" in (parts["sign"], parts["sign2"]) else value


def unit_of(text: str) -> str | None:
    """The symbol of the known unit after the number at the end of `text`; None without."""
    found = _UNITS.search(text)
    if found is None:
        return None
    name, power = found["name"], found["power"] or ""
    unit = next(u for u, forms in _UNIT_FORMS.items() if re.fullmatch(forms, name))
    return unit + _POWERS.get(power, power)


def units_differ(given: str, expected: str) -> bool:
    units = unit_of(given), unit_of(expected)
    return None not in units and units[0] != units[1]


class Numeric(Scorer):
    """The expected number, in GSM8K's form. Target: ``{"answer": "1,000", "tolerance": 0}``."""

    name = "numeric"
    version = "2"

    def evaluate(self, target: Target, submission: Submission) -> Score:
        golds = texts(target, "answer")
        expected = [numbers(text) for text in golds]
        if any(len(each) != 1 for each in expected):
            raise ScorerFailed(f"a target's answer does not hold one number: {golds!r:.80}")
        tolerance = Fraction(str(target.get("tolerance", 0)))
        text = submission.text if submission.answer is None else submission.answer
        _, marked, after = text.rpartition("####")
        stated = after.strip().split("\n", 1)[0] if marked else last_boxed(text)
        stated = text if stated is None else stated
        read = numbers(stated)
        given = read[-1] if read else None
        correct = given is not None and any(
            abs(given - number[0]) <= tolerance and not units_differ(stated, gold)
            for number, gold in zip(expected, golds, strict=True)
        )
        answer = None if given is None else str(given)
        return self.result(correct, answer=answer, found_answer=given is not None)


_STATED = re.compile(r"answer[*_`]{0,3}:[*_`]{0,3}[ \t]?([^\n]*)", re.I)
_ONE_NUMBER = re.compile(r"[-+]?[$€£]?[\d.,]+(?:[eE][-+]?\d+)?")
_ARTICLE = re.compile(r"^(?:the|an?) ")
_AROUND = " \t.,;:!?\"'`*_()[]\u2018\u2019\u201c\u201d"


class ShortAnswer(Scorer):
    """Checks that the answer is the expected number or text. Target: ``{"answer": text or texts}``.

    An attempt's answer is the text after its last ``Answer:``, on that line; else its last box;
    else its whole last message. Where the expected answer is one number, the attempt's answer must
    hold one number, equal to it. Otherwise both are compared as text: in lower case, without
    articles and punctuation at the ends (the rule of SQuAD, Rajpurkar et al. 2016, except that
    punctuation within an answer counts).
    """

    name = "short_answer"
    version = "2"

    def evaluate(self, target: Target, submission: Submission) -> Score:
        expected = texts(target, "answer")
        text = submission.final_text
        stated, boxed = _STATED.findall(text), last_boxed(text)
        given = str(stated[-1]) if stated else text if boxed is None else boxed
        correct = any(
            numbers(given) == numbers(each)
            if _ONE_NUMBER.fullmatch(each.strip()) and len(numbers(each)) == 1
            else _plain(given) == _plain(each)
            for each in expected
        )
        answer = given.strip()[:200]
        return self.result(correct, answer=answer, found_answer=bool(answer))


def _plain(text: str) -> str:
    flat = " ".join(unicodedata.normalize("NFKC", text).casefold().split()).strip(_AROUND)
    return _ARTICLE.sub("", flat, count=1)
