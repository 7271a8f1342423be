"""IFBench's instructions on numbers and shares: words, names, pronouns, kinds of sentences.

Each check takes a non-empty response and the instruction's options.
"""

import re

from tutti.tasks.scoring.ifbench.text import EDGE, bare, sentences, tokens
from tutti.tasks.scoring.ifeval.check import Options

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


def word_range(response: str, options: Options) -> bool:
    """From `min_words` to `max_words` words."""
    return int(options["min_words"]) <= len(_WORD.findall(response)) <= int(options["max_words"])


def unique_words(response: str, options: Options) -> bool:
    """At least `N` different words, in any case."""
    return len({word.strip(EDGE) for word in response.lower().split()}) >= int(options["N"])


def stop_words(response: str, options: Options) -> bool:
    """At most `percentage` % of the words are NLTK's English stop words."""
    words = _WORD.findall(response.lower())
    stops = sum(word in _STOP_WORDS for word in words)
    return bool(words) and 100 * stops / len(words) <= float(options["percentage"])


def _ending(response: str, mark: str) -> int:
    return sum(sentence.endswith(mark) for sentence in sentences(response))


def two_to_one(response: str, options: Options) -> bool:
    """Twice as many sentences end in a full stop as in a question mark."""
    return _ending(response, ".") == 2 * _ending(response, "?")


def balanced(response: str, options: Options) -> bool:
    """As many sentences end in a full stop as in a question mark and an exclamation mark."""
    return _ending(response, ".") == _ending(response, "?") == _ending(response, "!")


def conjunctions(response: str, options: Options) -> bool:
    """At least `small_n` coordinating conjunctions that differ; the published program counts
    "and" and "And," as two, and so does this."""
    found = {word for word in response.split() if word.strip(EDGE).lower() in _CONJUNCTIONS}
    return len(found) >= int(options["small_n"])


def names(response: str, options: Options) -> bool:
    """At least `N` of the listed names."""
    return sum(re.search(rf"\b{name}\b", response) is not None for name in _NAMES) >= int(
        options["N"]
    )


def overlap(response: str, options: Options) -> bool:
    """`percentage` % of the response's different trigrams of characters, within two points, are
    in `reference_text`."""
    mine, its = _trigrams(response), _trigrams(options["reference_text"])
    if not mine:
        return False
    return abs(100 * len(mine & its) / len(mine) - float(options["percentage"])) <= _OVERLAP_MARGIN


def _trigrams(text: str) -> set[str]:
    return {text[start : start + 3] for start in range(len(text) - 2)}


def numbers(response: str, options: Options) -> bool:
    """Exactly `N` numbers; punctuation within a number does not part it."""
    return len(re.findall(r"\d+", bare(response))) == int(options["N"])


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


def pronouns(response: str, options: Options) -> bool:
    """At least `N` pronouns."""
    words = tokens(response.lower().replace("/", " "))
    return sum(word in _PRONOUNS for word in words) >= int(options["N"])


def keywords(response: str, options: Options) -> bool:
    """The five keywords once, twice, three, five and seven times, in any case."""
    text = response.lower()
    wanted = [options[f"keyword{place}"].strip().lower() for place in range(1, 6)]
    return all(text.count(w) == n for w, n in zip(wanted, _KEYWORD_TIMES, strict=True))
