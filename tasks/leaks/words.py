"""A text's words in one form, independent of typing, and the words that make it another question.

In: a text. Out: `Words`. Look-alike letters, widths, accents, invisible characters, case, spaces,
punctuation and the ways to write a number (1,200 = 1200.00, three = 3) make no difference.
"""

import re
import unicodedata
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate

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
    "shortest greater smaller start end large small long short big little new old likely "
    "unlikely both either neither fourth fifth sixth seventh eighth ninth tenth he she him her his "
    "hers".split()
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
    r"|[^\W\d_]+|[-+*/^=<>\u00d7\u00f7]"
)
SIGN = re.compile(r"[-+*/^=<>\u00d7\u00f7]")
BRACKETS, LABEL = re.compile(r"[+^=<>\u00d7\u00f7()\[\]{}|&~]"), re.compile(r"\(\w\)")
NOT_TYPED = re.compile(r"[^\w+^=<>\u00d7\u00f7()\[\]{}|&~*/-]|_")
MARK = re.compile(r"[.,:]")
OPERAND = re.compile(r"\d.*|[a-z]")
ENDS = re.compile(r"[.!?:\n\"]")
MOST_CAPITALS = 0.6
"""Largest share of words with a capital for which capitals mark names."""
MOST_SPACES = 0.4
"""Share of spaces in a text above which its letters are written apart."""
LONGEST_WORD = 25
"""Letters and signs for each space, beyond which spaces were taken out."""
FEWEST_SIGNS = 0.1
"""Signs and brackets for each word, from which on they tell as words do."""


@dataclass(frozen=True)
class Words:
    """A text's words."""

    every: tuple[str, ...]
    """All words and signs, without other punctuation."""
    spelled: tuple[str, ...]
    """The letters and digits of each, as they stand, without signs."""
    names: frozenset[str]
    """Those that begin with a capital within a sentence."""
    text: str
    """The text with look-alike letters replaced by Latin ones."""

    @cached_property
    def letters(self) -> str:
        """All letters and digits without spaces."""
        return "".join(self.spelled)

    @property
    def same(self) -> tuple[tuple[str, ...], str]:
        """Key that is equal for texts with the same content."""
        return self.every, self._typed if self.tells_by_signs else ""

    @cached_property
    def signs(self) -> str:
        """Signs and brackets, except those of labels such as "(a)"."""
        return "".join(BRACKETS.findall(LABEL.sub("", self.text)))

    @cached_property
    def tells_by_signs(self) -> bool:
        """Whether other signs and brackets would make another text of the same words."""
        return len(self.signs) >= len(self.every) * FEWEST_SIGNS

    @property
    def size(self) -> int:
        """Number of distinguishing words and brackets."""
        return len(self.every) + (len(self.signs) if self.tells_by_signs else 0)

    def stands_in(self, whole: "Words") -> bool:
        """Whether it occurs consecutively in another text, with any spacing of the two."""
        at = whole.letters.find(self.letters)
        while at >= 0 and not (whole._begins(at) and whole._begins(at + len(self.letters))):
            at = whole.letters.find(self.letters, at + 1)
        spaced = self._is_spaced and whole._is_spaced
        has_facts = not spaced or self._facts in whole._facts
        return at >= 0 and has_facts and self.signs_stand_in(whole, in_a_row=True)

    def signs_stand_in(self, whole: "Words", in_a_row: bool) -> bool:
        """Whether signs and brackets allow that it occurs in another text, consecutively or not."""
        if not self.tells_by_signs:
            return True
        if not in_a_row:
            return self.signs in whole.signs
        before, found, after = whole._typed.partition(self._typed)
        goes_on = BRACKETS.match(after) or BRACKETS.match(before[-1:]) or before.endswith("not")
        return bool(found) and not goes_on

    def _begins(self, at: int) -> bool:
        """Whether a word may begin, or the text end, after `at` letters and digits."""
        digits = self.letters[max(0, at - 1) : at + 1]
        apart = at in (0, len(self.letters)) or not digits.isdigit()
        return apart and (not self._is_spaced or at in self._starts)

    @cached_property
    def _starts(self) -> frozenset[int]:
        return frozenset(accumulate(map(len, self.spelled), initial=0))

    @cached_property
    def told(self) -> tuple[str, ...]:
        """Each word, or "" for a sign that is not between two numbers or letters: "5 - 3" has all
        its words, "well-known" lacks its sign."""
        sides = zip(("", *self.every), self.every, (*self.every[1:], ""), strict=False)
        return tuple(
            word
            if not SIGN.match(word) or (OPERAND.fullmatch(before) and OPERAND.fullmatch(after))
            else ""
            for before, word, after in sides
        )

    @cached_property
    def _facts(self) -> str:
        """Numbers, and the signs between them."""
        told = (word for word in self.told if word and (word[0].isdigit() or SIGN.match(word)))
        return " ".join(("", *told, ""))

    @cached_property
    def _typed(self) -> str:
        """All letters, digits, signs and brackets."""
        return NOT_TYPED.sub("", self.text.casefold())

    @cached_property
    def _is_spaced(self) -> bool:
        spaces = len(self.text.split()) - 1
        return spaces > 0 and spaces * LONGEST_WORD >= len(self.text)


def words_of(text: str) -> Words:
    """The words of a text."""
    if not text.isascii():
        bare = unicodedata.normalize("NFKD", text)
        bare = "".join(c for c in bare if unicodedata.category(c) not in ("Cf", "Mn"))
        text = unicodedata.normalize("NFKC", bare.translate(LOOK_ALIKE))
    if len(text.split()) > len(text) * MOST_SPACES:
        text = re.sub(r"(?<=\S)\s(?=\S)", "", text)
    found, spelled, names, letters, capitals, end = [], [], set(), 0, 0, 0
    for each in TOKEN.finditer(text):
        raw = each.group()
        word = raw.casefold()
        if raw[0].isalpha():
            letters += 1
            capitals += raw[0].isupper()
            if raw[0].isupper() and end and not ENDS.search(text, end, each.start()):
                names.add(word)
        found.append(_number(word))
        if not SIGN.match(word):
            spelled.append(MARK.sub("", word))
        end = each.end()
    tells = capitals <= MOST_CAPITALS * letters
    every = tuple(NUMBERS.get(word, word) for word in found)
    return Words(every, tuple(spelled), frozenset(names - {"i"} if tells else ()), text)


def differs(word: str) -> bool:
    """Whether adding or removing a word makes another question."""
    return word[0].isdigit() or word in DIFFERS or SIGN.match(word) is not None


def _number(word: str) -> str:
    """Normalise a number: 1,200.50 = 1200.5; any other word is unchanged."""
    if not word[0].isdigit() or ":" in word:
        return word
    word = word.replace(",", "")
    return word.rstrip("0").rstrip(".") if word.count(".") == 1 else word
