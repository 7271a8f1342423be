"""Whether one text stands in another, word by word, and what differs where it does.

In: the words of both, and which are names. Out: `Difference`, or None for another question.
"""

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from itertools import pairwise

from tutti.tasks.leaks.words import COMMON_WORDS, OPPOSITES, Words, differs

EDGE = 4
"""A lone word so far from the next equal ones is equal by chance."""
LEAST_SHARED = 0.7
"""Share of a text's different words that are in any text where it stands."""
Part = tuple[int, int, int]
"""Equal words: place in the text, place in the other, how many."""


@dataclass(frozen=True)
class Difference:
    """How the place in a text where another stands differs from it."""

    covered: float
    """The share of the words that stand there, in order."""
    lost: int
    """Words left out that tell, and words replaced."""
    put_in: int
    """Words put in that tell."""
    in_a_row: bool
    """All words of the text stand there, and no others between."""


def compare(text: Words, whole: Words, near: slice, names: Collection[str]) -> Difference | None:
    """How a text differs from the place in `whole`, about `near`, where it stands. None where
    nothing is equal, or where a number, sign, negation, name or opposite is left out, put in or
    replaced."""
    kinds = set(text.every)
    if len(kinds & set(whole.every[near])) < LEAST_SHARED * len(kinds):
        return None  # which spares the search for runs
    own, others = text.told, whole.told[near]
    parts = _parts(text.every, whole.every[near])
    size = len(own)
    sure = [each for each in parts if each[2] > 1 or each[0] == 0 or each[0] + 1 == size]
    if not sure:
        return None
    (first, _, _), (last, _, length) = sure[0], sure[-1]
    ends = _told([*own[:first], *own[last + length :]])
    if _facts(ends, names) or _goes_on(text.every, whole.every[near], sure[-1]):
        return None
    lost, put_in = _telling(ends), 0
    for at, other in _between(sure):
        gone, new = _told(own[at]), _told(others[other])
        if _facts(gone, names) != _facts(new, names):
            return None
        if gone and new:
            lost += max(len(gone), len(new))
        else:
            lost, put_in = lost + _telling(gone), put_in + _telling(new)
    alike = sum(part[2] for part in sure)
    return Difference(alike / size, lost, put_in, alike == size and not sure[1:])


def similarity(held: Sequence[str], own: Sequence[str]) -> float:
    """The share of both texts' words that are equal, in order."""
    return SequenceMatcher(None, held, own, autojunk=False).ratio()


def longest_run(text: Sequence[str], whole: Sequence[str]) -> tuple[Sequence[str], float]:
    """The longest run of words that both have, and the share of the text's words in any run."""
    runs = SequenceMatcher(None, text, whole, autojunk=False).get_matching_blocks()
    longest = max(runs, key=lambda run: run.size)
    covered = sum(run.size for run in runs) / len(text)
    return text[longest.a : longest.a + longest.size], covered


def _goes_on(text: Sequence[str], whole: Sequence[str], last: Part) -> bool:
    """Whether a sum or a row of numbers goes on where the text ends."""
    after = whole[last[1] + last[2] :][:1]
    if not after or not text[-1][0].isdigit():
        return False
    in_row = after[0][0].isdigit() and text[-2:-1] and text[-2][0].isdigit()
    return bool(in_row or (differs(after[0]) and not after[0][0].isalnum()))


def _told(words: Iterable[str | None]) -> list[str]:
    return [word for word in words if word is not None]


def _facts(words: Sequence[str], names: Collection[str]) -> list[str]:
    return [word for word in words if differs(word) or word in OPPOSITES or word in names]


def _telling(words: Iterable[str]) -> int:
    """How many words tell one question from another."""
    return len(set(words) - COMMON_WORDS)


def _parts(text: Sequence[str], whole: Sequence[str]) -> list[Part]:
    """Runs of equal words, without lone words that are far off."""
    found = SequenceMatcher(None, text, whole, autojunk=False).get_matching_blocks()[:-1]
    parts = [(each.a, each.b, each.size) for each in found]
    while len(parts) > 1 and parts[0][2] == 1 and parts[1][1] - parts[0][1] > EDGE:
        parts.pop(0)
    while len(parts) > 1 and parts[-1][2] == 1 and parts[-1][1] - sum(parts[-2][1:]) >= EDGE:
        parts.pop()
    return parts


def _between(parts: Sequence[Part]) -> Iterator[tuple[slice, slice]]:
    """What stands between two parts that are alike, in both texts."""
    for (a, b, size), (next_a, next_b, _) in pairwise(parts):
        yield slice(a + size, next_a), slice(b + size, next_b)
