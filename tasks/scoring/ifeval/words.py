"""IFEval's instructions on words, letters, sentences and language.

Each check takes a non-empty response and the instruction's options.

A word is a run of letters, digits and underscores. A word in capitals may hold apostrophes, hyphens
and points between letters ("U.S.", "DON'T"), and a single capital is one. A sentence ends with its
mark and the quotes or brackets after it, where white space or nothing follows, but not after a
title ("Dr."), an initial, a list's number, or "No." and the like before a number; after another
abbreviation or an ellipsis only if a capital follows. A line break alone does not end a sentence;
text after the last mark is one more sentence.

Languages are those of langdetect, the library of the published program, with its random draws
fixed. A response in which it detects none is in any language, as there.
"""

import re

from tutti.tasks.scoring.ifeval.check import Options, holds

SEED = 0  # the library samples; with a fixed seed, the same text has the same language
_TITLES = frozenset("mr mrs ms dr prof st mt rev hon gen col capt lt sgt gov sen rep vs".split())
_BEFORE_NUMBERS = frozenset("no nos fig vol ch p pp".split())
_ABBREVIATIONS = frozenset(
    "etc inc ltd co corp jr sr dept est approx e.g i.e a.m p.m u.s u.k ph.d b.a m.a al"
    " jan feb mar apr jun jul aug sep sept oct nov dec".split()
)
_SENTENCE_END = re.compile(
    r"(?:(?<![.!?…])[.!?…]+[\"'\u201d\u2019)\]*_]*(?=\s|$))|[\u3002\uff01\uff1f\u0964]+"
)
_LOOK_BACK = 80  # characters: no abbreviation or list's number is longer
_CAPITAL_WORD = re.compile(r"(?:[^\W\d_]\.)+[^\W\d_]\b|[^\W_]+(?:['\u2019-][^\W_]+)*")


def has_keywords(response: str, options: Options) -> bool:
    """Each of `keywords` is there, in any case, also within a word."""
    folded = response.lower()
    return all(keyword.lower() in folded for keyword in options["keywords"])


def forbidden(response: str, options: Options) -> bool:
    """None of `forbidden_words` is there as a word, in any case."""
    words = "|".join(map(re.escape, options["forbidden_words"]))
    return re.search(rf"\b(?:{words})\b", response, re.IGNORECASE) is None


def keyword_count(response: str, options: Options) -> bool:
    """`keyword` is there at least, or less than, `frequency` times, also within words."""
    found = response.lower().count(options["keyword"].strip().lower())
    return holds(found, options["relation"], int(options["frequency"]))


def letter_count(response: str, options: Options) -> bool:
    """`letter` (or sign) is there at least, or less than, `let_frequency` times, in any case."""
    found = response.lower().count(options["letter"].lower())
    return holds(found, options["let_relation"], int(options["let_frequency"]))


def capital_words(response: str, options: Options) -> bool:
    """At least, or less than, `capital_frequency` words in capitals."""
    found = sum(word.isupper() for word in _CAPITAL_WORD.findall(response))
    return holds(found, options["capital_relation"], int(options["capital_frequency"]))


def all_capital(response: str, options: Options) -> bool:
    """English, without a small letter."""
    return response.isupper() and language_of(response.lower()) in ("en", None)


def all_lowercase(response: str, options: Options) -> bool:
    """English, without a capital."""
    return response.islower() and language_of(response) in ("en", None)


def in_language(response: str, options: Options) -> bool:
    """The response as a whole is in `language`, an ISO 639-1 code."""
    return language_of(response) in (str(options["language"]), None)


def no_comma(response: str, options: Options) -> bool:
    """No comma."""
    return "," not in response


def word_count(response: str, options: Options) -> bool:
    """At least, or less than, `num_words` words."""
    return holds(len(re.findall(r"\w+", response)), options["relation"], int(options["num_words"]))


def sentence_count(response: str, options: Options) -> bool:
    """At least, or less than, `num_sentences` sentences."""
    return holds(len(sentences(response)), options["relation"], int(options["num_sentences"]))


def sentences(text: str) -> list[str]:
    """The sentences of a text, by the rules above."""
    return [piece for piece in pieces(text) if re.search(r"\w", piece)]


def pieces(text: str) -> list[str]:
    """What lies between the ends of sentences, without words too (an emoji by itself)."""
    found, start = [], 0
    for match in _SENTENCE_END.finditer(text):
        if _ends_sentence(text, start, match):
            found.append(text[start : match.end()].strip())
            start = match.end()
    found.append(text[start:].strip())
    return [piece for piece in found if piece]


def _ends_sentence(text: str, start: int, match: re.Match[str]) -> bool:
    mark = match[0].rstrip("\"'\u201d\u2019)]*_")
    follows = text[match.end() :].lstrip()[:1]
    if mark in ("…", "...") and follows.islower():
        return False
    if mark != ".":
        return True
    before = text[max(start, match.start() - _LOOK_BACK) : match.start()]
    last = (before.split() or [""])[-1].lstrip("\"'\u201c\u2018([*_")
    line_start = before.rpartition("\n")[2].strip(" *-_#")
    if last.isdecimal() and line_start == last:
        return False  # a list's number
    if last.lower() in _TITLES or (len(last) == 1 and last.isupper() and last != "I"):
        return follows == ""
    if last.lower() in _BEFORE_NUMBERS:
        return not follows.isdecimal()
    return not (last.lower() in _ABBREVIATIONS and (follows.islower() or follows.isdecimal()))


def language_of(text: str) -> str | None:
    """The most likely language's code; None where the text has no features of any."""
    from langdetect import DetectorFactory, LangDetectException, detect

    DetectorFactory.seed = SEED
    try:
        return str(detect(text))
    except LangDetectException:
        return None
