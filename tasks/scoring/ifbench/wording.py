"""IFBench's instructions on words and sentences: numbers, shares, choice and order.

Each check takes a non-empty response and the instruction's options.
"""

import importlib
import re
import string
from collections import Counter
from itertools import groupby, pairwise
from typing import Any

from tutti.tasks.scoring.rules.ifeval import Check, Options
from tutti.tasks.scoring.rules.ifeval import pieces as sentences
from tutti.tasks.scoring.rules.score import ScorerFailed

EDGE = string.punctuation + " "  # signs that are stripped from the ends of a word
_NO_PUNCTUATION = str.maketrans("", "", string.punctuation)
_APART = re.compile(r"\.\.\.|--+|[;@#$%&?!\[\](){}<>\"\u201c\u201d]|[:,](?!\d)")
_CONTRACTION = re.compile(r"(?i)^(.+)(n't|'(?:s|m|d|ll|re|ve)?)$")
# Unicode's property Emoji for single characters, without digits and signs of ASCII.
_EMOJI_RANGES = (
    "a9 ae 203c 2049 2122 2139 2194-2199 21a9-21aa 231a-231b 2328 23cf 23e9-23f3 23f8-23fa 24c2 "
    "25aa-25ab 25b6 25c0 25fb-25fe 2600-2604 260e 2611 2614-2615 2618 261d 2620 2622-2623 2626 "
    "262a 262e-262f 2638-263a 2640 2642 2648-2653 265f-2660 2663 2665-2666 2668 267b 267e-267f "
    "2692-2697 2699 269b-269c 26a0-26a1 26a7 26aa-26ab 26b0-26b1 26bd-26be 26c4-26c5 26c8 "
    "26ce-26cf 26d1 26d3-26d4 26e9-26ea 26f0-26f5 26f7-26fa 26fd 2702 2705 2708-270d 270f 2712 "
    "2714 2716 271d 2721 2728 2733-2734 2744 2747 274c 274e 2753-2755 2757 2763-2764 2795-2797 "
    "27a1 27b0 27bf 2934-2935 2b05-2b07 2b1b-2b1c 2b50 2b55 3030 303d 3297 3299 1f004 1f0cf "
    "1f170-1f171 1f17e-1f17f 1f18e 1f191-1f19a 1f201-1f202 1f21a 1f22f 1f232-1f23a 1f250-1f251 "
    "1f300-1f321 1f324-1f393 1f396-1f397 1f399-1f39b 1f39e-1f3f0 1f3f3-1f3f5 1f3f7-1f4fd "
    "1f4ff-1f53d 1f549-1f54e 1f550-1f567 1f56f-1f570 1f573-1f57a 1f587 1f58a-1f58d 1f590 "
    "1f595-1f596 1f5a4-1f5a5 1f5a8 1f5b1-1f5b2 1f5bc 1f5c2-1f5c4 1f5d1-1f5d3 1f5dc-1f5de 1f5e1 "
    "1f5e3 1f5e8 1f5ef 1f5f3 1f5fa-1f64f 1f680-1f6c5 1f6cb-1f6d2 1f6d5-1f6d9 1f6dc-1f6e5 1f6e9 "
    "1f6eb-1f6ec 1f6f0 1f6f3-1f6fc 1f7e0-1f7eb 1f7f0 1f90c-1f93a 1f93c-1f945 1f947-1f9ff "
    "1fa70-1fa7c 1fa80-1fac6 1fac8 1facc-1fadd 1fadf-1faeb 1faef-1fafa"
)


_EMOJI = frozenset(
    code
    for first, *last in (each.split("-") for each in _EMOJI_RANGES.split())
    for code in range(int(first, 16), int((last or [first])[0], 16) + 1)
)


def is_emoji(character: str) -> bool:
    return ord(character) in _EMOJI


def bare(text: str) -> str:
    return text.translate(_NO_PUNCTUATION)


def words_of(text: str) -> list[str]:
    return bare(text).split()


def tokens(text: str) -> list[str]:
    """Return words and signs as the Penn Treebank separates them, with our sentences."""
    found: list[str] = []
    for sentence in sentences(text):
        parts = _APART.sub(r" \g<0> ", sentence).split()
        if parts and len(parts[-1]) > 1 and parts[-1].endswith(".") and parts[-1] != "...":
            parts[-1:] = [parts[-1][:-1], "."]
        for part in parts:
            found += _in_two(part)
    return found


def _in_two(part: str) -> list[str]:
    if part.lower() == "cannot":
        return [part[:3], part[3:]]
    if len(part) > 1 and part[0] == "'" and part[1:2].isupper():
        return ["'", *_in_two(part[1:])]
    match = _CONTRACTION.match(part)
    return [match[1], match[2]] if match else [part]


_CLUSTER = re.compile(r"[b-df-hj-np-tv-z]{2}")
_PRIMES = frozenset(n for n in range(2, 100) if all(n % d for d in range(2, n)))
PALINDROMES, PALINDROME_CHARS, VOWELS = 10, 5, 3


def alphabet(response: str, options: Options) -> bool:
    """Each word begins with the letter after that of the word before."""
    firsts = [word[0].lower() for word in words_of(response)]
    if not firsts or firsts[0] not in string.ascii_lowercase:
        return False
    start = ord(firsts[0]) - ord("a")
    return all(
        first == string.ascii_lowercase[(start + place) % 26] for place, first in enumerate(firsts)
    )


def alliteration(response: str, options: Options) -> bool:
    """Each sentence has more words that share their first letter with a neighbour."""
    counts = []
    for sentence in sentences(response):
        words = (word.lstrip(EDGE) for word in sentence.lower().split())
        runs = [len(list(run)) for _, run in groupby(word[0] for word in words if word)]
        counts.append(sum(run for run in runs if run > 1))
    return all(before < after for before, after in pairwise(counts))


def keyword_in_sentence(response: str, options: Options) -> bool:
    """`word` is in the `N`-th sentence."""
    found, place = sentences(response), int(options["N"])
    pattern = rf"\b{re.escape(options['word'])}\b"
    return len(found) >= place and bool(re.search(pattern, found[place - 1], re.IGNORECASE))


def syllables(response: str, options: Options) -> bool:
    """Odd and even numbers of syllables alternate. Raises ScorerFailed without the package."""
    try:
        library: Any = importlib.import_module("syllapy")
    except ImportError as error:
        raise ScorerFailed(
            "ifbench: words:odd_even_syllables needs the package syllapy: pip install syllapy"
        ) from error
    odd = [library.count(word) % 2 for word in words_of(response.lower())]
    return all(one != other for one, other in pairwise(odd))


def start_verb(response: str, options: Options) -> bool:
    """Raises ScorerFailed: the published program uses a part-of-speech tagger."""
    raise ScorerFailed("ifbench: words:start_verb is not scored: it needs a part-of-speech tagger")


def last_first(response: str, options: Options) -> bool:
    """Each sentence begins with the last word of the one before."""
    for before, after in pairwise(sentences(response)):
        last, first = before.rstrip(EDGE).split()[-1:], after.lstrip(EDGE).split()[:1]
        if not last or not first or last[0].lower() != first[0].lower():
            return False
    return True


def keyword_at(response: str, options: Options) -> bool:
    """The `m`-th word of the `n`-th sentence is `keyword`."""
    found, place = sentences(response), int(options["n"])
    if len(found) < place:
        return False
    words, m = [word for word in tokens(found[place - 1]) if bare(word)], int(options["m"])
    wanted = options["keyword"].strip().lower()
    return words[m - 1 : m] != [] and words[m - 1].lower() == wanted


def second_and_last_but_one(response: str, options: Options) -> bool:
    """The second word and the last but one are `keyword`; a sign at the end is no word."""
    words = [word.lower() for word in tokens(response)]
    if words and words[-1] in string.punctuation:
        words = words[:-1]
    return len(words) > 1 and words[1] == words[-2] == options["keyword"].strip().lower()


_WORD = re.compile(r"\w+")
_CONJUNCTIONS = frozenset("and but for nor or so yet".split())
_JAPANESE = re.compile(r"[\u3040-\u30ff\u4e00-\u9fff]")
_MARKS = frozenset(".,!?;:")
# The names and the words below are part of the instructions' definition.
_NAMES = (
    "Emma Liam Sophia Jackson Olivia Noah Ava Lucas Isabella Mason Mia Ethan Charlotte Alexander "
    "Amelia Benjamin Harper Leo Zoe Daniel Chloe Samuel Lily Matthew Grace Owen Abigail Gabriel "
    "Ella Jacob Scarlett Nathan Victoria Elijah Layla Nicholas Audrey David Hannah Christopher "
    "Penelope Thomas Nora Andrew Aria Joseph Claire Ryan Stella Jonathan"
).split()
_PRONOUNS = frozenset(
    "i me we us you he him she her it they them my mine our ours your yours his hers its their "
    "theirs myself ourselves yourself yourselves himself herself itself themselves this that these "
    "those who whom whose which what whoever whomever whatever whichever anybody anyone anything "
    "everybody everyone everything nobody nothing somebody someone something each either neither "
    "both all some any none".split()
)
_STOP_WORDS = frozenset(
    "i me my myself we our ours ourselves you your yours yourself yourselves he him his himself "
    "she her hers herself it its itself they them their theirs themselves what which who whom this "
    "that these those am is are was were be been being have has had having do does did doing a an "
    "the and but if or because as until while of at by for with about against between into through "
    "during before after above below to from up down in out on off over under again further then "
    "once here there when where why how all any both each few more most other some such no nor not "
    "only own same so than too very s t can will just don should now d ll m o re ve y ain aren "
    "couldn didn doesn hadn hasn haven isn ma mightn mustn needn shan shouldn wasn weren won "
    "wouldn".split()
)
_OVERLAP_MARGIN = 2.0  # percentage points
_KEYWORD_TIMES = (1, 2, 3, 5, 7)


def stop_words(response: str, options: Options) -> bool:
    """At most `percentage` % of the words are NLTK's English stop words."""
    words = _WORD.findall(response.lower())
    stops = sum(word in _STOP_WORDS for word in words)
    return bool(words) and 100 * stops / len(words) <= float(options["percentage"])


def _ending(response: str, mark: str) -> int:
    return sum(sentence.endswith(mark) for sentence in sentences(response))


def overlap(response: str, options: Options) -> bool:
    """`percentage` % of the response's different trigrams of characters, within two points, are
    in `reference_text`."""
    mine, its = _trigrams(response), _trigrams(options["reference_text"])
    if not mine:
        return False
    return abs(100 * len(mine & its) / len(mine) - float(options["percentage"])) <= _OVERLAP_MARGIN


def _trigrams(text: str) -> set[str]:
    return {text[start : start + 3] for start in range(len(text) - 2)}


def punctuation(response: str, options: Options) -> bool:
    """Every mark of ``. , ! ? ; :``, and an interrobang beside them."""
    pair = next((each for each in ("?!", "!?") if each in response), None)
    if pair is None:
        return "\u203d" in response and set(response) >= _MARKS
    return set(response.replace(pair, "", 1)) >= _MARKS


def japanese(response: str, options: Options) -> bool:
    """Every `N`-th word has a Japanese character; numbers and signs may stand there too."""
    every = int(options["N"])
    there = (word.strip(EDGE) for word in response.split()[every - 1 :: every])
    return all(_JAPANESE.search(word) for word in there if word and not word.isdigit())


def keywords(response: str, options: Options) -> bool:
    """The five keywords once, twice, three, five and seven times, in any case."""
    text = response.lower()
    wanted = [options[f"keyword{place}"].strip().lower() for place in range(1, 6)]
    return all(text.count(w) == n for w, n in zip(wanted, _KEYWORD_TIMES, strict=True))


INSTRUCTIONS: dict[str, Check] = {
    # At least `small_n` that differ; "and" and "And," are two, as published.
    "count:conjunctions": lambda text, options: (
        len({word for word in text.split() if word.strip(EDGE).lower() in _CONJUNCTIONS})
        >= int(options["small_n"])
    ),
    "count:keywords_multiple": keywords,
    # Exactly `N` numbers; punctuation within a number does not part it.
    "count:numbers": lambda text, options: len(re.findall(r"\d+", bare(text))) == int(options["N"]),
    # At least `N` of the listed names.
    "count:person_names": lambda text, options: (
        sum(re.search(rf"\b{name}\b", text) is not None for name in _NAMES) >= int(options["N"])
    ),
    # At least `N` pronouns.
    "count:pronouns": lambda text, options: (
        sum(word in _PRONOUNS for word in tokens(text.lower().replace("/", " ")))
        >= int(options["N"])
    ),
    "count:punctuation": punctuation,
    # At least `N` different words, in any case.
    "count:unique_word_count": lambda text, options: (
        len({word.strip(EDGE) for word in text.lower().split()}) >= int(options["N"])
    ),
    # From `min_words` to `max_words` words.
    "count:word_count_range": lambda text, options: (
        int(options["min_words"]) <= len(_WORD.findall(text)) <= int(options["max_words"])
    ),
    "count:words_japanese": japanese,
    "ratio:overlap": overlap,
    # As many sentences end in a full stop as in a question mark and an exclamation mark.
    "ratio:sentence_balance": lambda text, options: (
        _ending(text, ".") == _ending(text, "?") == _ending(text, "!")
    ),
    # Twice as many sentences end in a full stop as in a question mark.
    "ratio:sentence_type": lambda text, options: _ending(text, ".") == 2 * _ending(text, "?"),
    # Three sentences of as many characters; like the published program, nothing more.
    "ratio:sentence_words": lambda text, options: (
        [len(sentence) for sentence in sentences(text)] == [len(sentences(text)[0])] * 3
    ),
    "ratio:stop_words": stop_words,
    "sentence:alliteration_increment": alliteration,
    # Each sentence has `small_n` words more than the one before.
    "sentence:increment": lambda text, options: all(
        len(words_of(after)) - len(words_of(before)) == options["small_n"]
        for before, after in pairwise(sentences(text))
    ),
    "sentence:keyword": keyword_in_sentence,
    "words:alphabet": alphabet,
    # Two consonants side by side in each word.
    "words:consonants": lambda text, options: all(
        _CLUSTER.search(word) for word in text.lower().split()
    ),
    "words:keywords_specific_position": keyword_at,
    "words:last_first": last_first,
    # No two neighbouring words begin with the same letter.
    "words:no_consecutive": lambda text, options: all(
        one[0] != other[0] for one, other in pairwise(words_of(text.lower()))
    ),
    "words:odd_even_syllables": syllables,
    # At least ten palindromes of five or more characters.
    "words:palindrome": lambda text, options: (
        sum(len(word) >= PALINDROME_CHARS and word == word[::-1] for word in words_of(text.lower()))
        >= PALINDROMES
    ),
    # Each paragraph (a line) ends with the word that it begins with.
    "words:paragraph_last_first": lambda text, options: all(
        words[0] == words[-1]
        for line in text.split("\n")
        if (words := line.strip().lower().strip(EDGE).split())
    ),
    # Each word has a prime number of characters.
    "words:prime_lengths": lambda text, options: all(
        len(word) in _PRIMES for word in words_of(text)
    ),
    # No word more than `small_n` times.
    "words:repeats": lambda text, options: all(
        n <= options["small_n"] for n in Counter(words_of(text.lower())).values()
    ),
    "words:start_verb": start_verb,
    # One paragraph with at most three of the five vowels.
    "words:vowel": lambda text, options: (
        "\n" not in text.strip() and len(set(text.lower()) & set("aeiou")) <= VOWELS
    ),
    "words:words_position": second_and_last_but_one,
}
