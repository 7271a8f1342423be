"""IFBench's instructions on the choice and order of words, and on sentences.

Each check takes a non-empty response and the instruction's options.
"""

import importlib
import re
import string
from collections import Counter
from itertools import groupby, pairwise
from typing import Any

from tutti.tasks.scoring.ifbench.text import EDGE, bare, sentences, tokens, words_of
from tutti.tasks.scoring.ifeval.check import Options
from tutti.tasks.scoring.score import ScorerFailed

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


def vowels(response: str, options: Options) -> bool:
    """One paragraph with at most three of the five vowels."""
    text = response.strip().lower()
    return "\n" not in text and len(set(text) & set("aeiou")) <= VOWELS


def consonants(response: str, options: Options) -> bool:
    """Two consonants side by side in each word."""
    return all(_CLUSTER.search(word) for word in response.lower().split())


def alliteration(response: str, options: Options) -> bool:
    """Each sentence has more words that share their first letter with a neighbour."""
    counts = [_alliterative(sentence) for sentence in sentences(response)]
    return all(before < after for before, after in pairwise(counts))


def _alliterative(sentence: str) -> int:
    words = (word.lstrip(EDGE) for word in sentence.lower().split())
    runs = [len(list(run)) for _, run in groupby(word[0] for word in words if word)]
    return sum(run for run in runs if run > 1)


def palindromes(response: str, options: Options) -> bool:
    """At least ten palindromes of five or more characters."""
    words = words_of(response.lower())
    found = sum(len(word) >= PALINDROME_CHARS and word == word[::-1] for word in words)
    return found >= PALINDROMES


def prime_lengths(response: str, options: Options) -> bool:
    """Each word has a prime number of characters."""
    return all(len(word) in _PRIMES for word in words_of(response))


def repeats(response: str, options: Options) -> bool:
    """No word more than `small_n` times."""
    return all(n <= options["small_n"] for n in Counter(words_of(response.lower())).values())


def keyword_in_sentence(response: str, options: Options) -> bool:
    """`word` is in the `N`-th sentence."""
    found, place = sentences(response), int(options["N"])
    pattern = rf"\b{re.escape(options['word'])}\b"
    return len(found) >= place and bool(re.search(pattern, found[place - 1], re.IGNORECASE))


def syllables(response: str, options: Options) -> bool:
    """Words with odd and even numbers of syllables alternate, by the package that the published
    program counts them with. Raises ScorerFailed where it is not installed."""
    try:
        library: Any = importlib.import_module("syllapy")
    except ImportError as error:
        raise ScorerFailed(
            "ifbench: words:odd_even_syllables needs the package syllapy: pip install syllapy"
        ) from error
    odd = [library.count(word) % 2 for word in words_of(response.lower())]
    return all(one != other for one, other in pairwise(odd))


def start_verb(response: str, options: Options) -> bool:
    """Raises ScorerFailed: the published program asks a part-of-speech tagger, which cannot be
    had here."""
    raise ScorerFailed("ifbench: words:start_verb is not scored: it needs a part-of-speech tagger")


def last_first(response: str, options: Options) -> bool:
    """Each sentence begins with the last word of the one before."""
    for before, after in pairwise(sentences(response)):
        last, first = before.rstrip(EDGE).split()[-1:], after.lstrip(EDGE).split()[:1]
        if not last or not first or last[0].lower() != first[0].lower():
            return False
    return True


def paragraph_ends(response: str, options: Options) -> bool:
    """Each paragraph (a line) ends with the word that it begins with."""
    lines = (line.strip().lower().strip(EDGE).split() for line in response.split("\n"))
    return all(words[0] == words[-1] for words in lines if words)


def increment(response: str, options: Options) -> bool:
    """Each sentence has `small_n` words more than the one before."""
    counts = [len(words_of(sentence)) for sentence in sentences(response)]
    return all(after - before == options["small_n"] for before, after in pairwise(counts))


def no_consecutive(response: str, options: Options) -> bool:
    """No two neighbouring words begin with the same letter."""
    words = words_of(response.lower())
    return all(one[0] != other[0] for one, other in pairwise(words))


def keyword_at(response: str, options: Options) -> bool:
    """The `m`-th word of the `n`-th sentence is `keyword`."""
    found, place = sentences(response), int(options["n"])
    if len(found) < place:
        return False
    words = [word for word in tokens(found[place - 1]) if bare(word)]
    wanted = options["keyword"].strip().lower()
    return words[int(options["m"]) - 1 : int(options["m"])] != [] and (
        words[int(options["m"]) - 1].lower() == wanted
    )


def second_and_last_but_one(response: str, options: Options) -> bool:
    """The second word and the last but one are `keyword`; a sign at the end is no word."""
    words = [word.lower() for word in tokens(response)]
    if words and words[-1] in string.punctuation:
        words = words[:-1]
    return len(words) > 1 and words[1] == words[-2] == options["keyword"].strip().lower()


def three_alike(response: str, options: Options) -> bool:
    """Three sentences of as many characters. That their words differ is not checked by the
    published program, nor here."""
    lengths = [len(sentence) for sentence in sentences(response)]
    return len(lengths) == 3 and len(set(lengths)) == 1
