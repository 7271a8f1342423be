"""A text's words in one form, however it is typed, and which of them make it another question.

In: a text. Out: `Words`. Look-alike letters, widths, accents, invisible characters, case, spaces,
punctuation and the ways to write a number (1,200 = 1200.00, three = 3) make no difference.
"""

import re
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

LOOK_ALIKE = str.maketrans(
    "АВЕЅІЈКМНОРСТУХҮаеѕіјорсухһԁԛԝӏѵкмтп"
    + "ΑΒΕΖΗΙΚΜΝΟΡΤΥΧαεικνορτυχγωϲ"
    + "\u0131\u0261\u0251\u0585\u057d\u0578\u0570",
    "ABESIJKMHOPCTYXYaesijopcyxhdqwlvkmtn" + "ABEZHIKMNOPTYXaeikvoptuxywc" + "igaounh",
)
"""Cyrillic, Greek and others that print like Latin letters."""
SMALL = "two three four five six seven eight nine ten eleven twelve".split()
NUMBERS = {name: str(value) for value, name in enumerate(SMALL, 2)}
DIFFERS = frozenset(
    "thirteen fourteen fifteen sixteen seventeen eighteen nineteen twenty thirty forty fifty "
    "sixty seventy eighty ninety hundred thousand million half third quarter twice double "
    "triple dozen not never no without except".split()
)
"""Words that, like numbers and signs, make another question wherever they are put in."""
OPPOSITES = frozenset(
    "first last second more fewer less most least fewest maximum minimum max min before after "
    "above below increase decrease increasing decreasing ascending descending even odd left "
    "right north south east west up down true false largest smallest highest lowest longest "
    "shortest greater smaller start end".split()
)
"""Words that, like names, make another question where one stands in another's place."""
COMMON_WORDS = frozenset(
    "a about actually all also am an and any are as at be because been being but by can could "
    "did do does each either else few for from get gets given got had has have he her here hers "
    "him his how i if in indeed into is it its itself just kindly let ll made make may me might "
    "my now of off on one only or other our out own please quite re really s she should simply "
    "so some such t than that the their them then there these they this those to too up us ve "
    "very was we well were what when where which while who whom whose will with would you your "
    "yours".split()
)
"""Words that tell no question from another."""
TOKEN = re.compile(
    r"\d{1,3}(?:,\d{3})+(?:\.\d+)?(?!\d)|\d+(?:[.:]\d+)*"
    r"|[\u0e00-\u0e7f\u3040-\u30ff\u3400-\u9fff]"  # written without spaces
    r"|[^\W\d_]+|[-+*/^=<>\u00d7\u00f7]+"
)
SIGN = re.compile(r"[-+*/^=<>\u00d7\u00f7]+")
OPERAND = re.compile(r"\d.*|[a-z]")
ENDS = re.compile(r"[.!?:\n\"]")
MOST_CAPITALS = 0.6
"""Where more words have one, capitals tell no names."""
MOST_SPACES = 0.4
"""Where more of a text is spaces, its letters are written apart."""


@dataclass(frozen=True)
class Words:
    """A text's words."""

    every: tuple[str, ...]
    spelled: tuple[str, ...]
    """The same, with numbers as words where they are."""
    names: frozenset[str]
    """Those that begin with a capital within a sentence."""

    @cached_property
    def squeezed(self) -> str:
        """All without spaces, but between two numbers."""
        return squeeze(self.spelled)


def words_of(text: str) -> Words:
    """The words of a text."""
    if not text.isascii():
        bare = unicodedata.normalize("NFKD", text)
        bare = "".join(c for c in bare if unicodedata.category(c) not in ("Cf", "Mn"))
        text = unicodedata.normalize("NFKC", bare.translate(LOOK_ALIKE))
    if len(text.split()) > len(text) * MOST_SPACES:
        text = re.sub(r"(?<=\S)\s(?=\S)", "", text)
    found, names, letters, capitals, end = [], set(), 0, 0, 0
    for each in TOKEN.finditer(text):
        raw = each.group()
        word = raw.casefold()
        if raw[0].isalpha():
            letters += 1
            capitals += raw[0].isupper()
            if raw[0].isupper() and end and not ENDS.search(text, end, each.start()):
                names.add(word)
        found.append(_number(word))
        end = each.end()
    tells = capitals <= MOST_CAPITALS * letters
    spelled = tuple(_without_marks(found))
    every = tuple(NUMBERS.get(word, word) for word in spelled)
    return Words(every, spelled, frozenset(names - {"i"} if tells else ()))


def squeeze(words: Sequence[str]) -> str:
    """Words without spaces, but between two numbers."""
    return re.sub(r"(?<!\d) | (?!\d)", "", " ".join(words))


def differs(word: str) -> bool:
    """Whether a word more or less makes another question of a text."""
    return word[0].isdigit() or word in DIFFERS or SIGN.fullmatch(word) is not None


def _number(word: str) -> str:
    """1,200.50 = 1200.5; what is no number stays."""
    if not word[0].isdigit() or ":" in word:
        return word
    word = word.replace(",", "")
    return word.rstrip("0").rstrip(".") if word.count(".") == 1 else word


def _without_marks(words: Sequence[str]) -> list[str]:
    """Without signs that are not between two numbers or letters: "5 - 3" has one, "well-known"
    none."""
    sides = zip(["", *words], words, [*words[1:], ""], strict=False)
    return [
        word
        for before, word, after in sides
        if not SIGN.fullmatch(word) or (OPERAND.fullmatch(before) and OPERAND.fullmatch(after))
    ]
