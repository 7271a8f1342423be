"""Two texts word by word: what they share in order, and whether what differs asks something else.

In: the words of a held-out text and of another, and which words are names. Out: `Aligned`, or None
for another question.
"""

from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from itertools import pairwise

from tutti.tasks.leaks.words import COMMON_WORDS, OPPOSITES, differs

WIDEST, EDGE = 12, 4
"""Most words that differ between two parts that are alike, and before the first or after the
last."""
Part = tuple[int, int, int]
"""Equal words: place in the held-out text, place in the other, how many."""
Names = Collection[str]


@dataclass
class Aligned:
    """What two texts share, in order. Of the words that differ only those count that tell."""

    parts: Sequence[Part]
    replaced: int = 0
    put_in: int = 0
    left_out: int = 0
    ends: int = 0
    """Words left out before the first part or after the last."""

    @property
    def longest(self) -> Part:
        """The longest run of equal words."""
        return max(self.parts, key=lambda part: part[2])

    @property
    def alike(self) -> int:
        """How many words are equal."""
        return sum(part[2] for part in self.parts)


def align(
    held: Sequence[str], own: Sequence[str], names: Names, own_names: Names
) -> Aligned | None:
    """Align two texts. None where nothing is equal, or where a number, sign or negation differs
    between equal parts, or a name or an opposite stands in another's place."""
    parts = _parts(held, own)
    sure = [each for each in parts if each[2] > 1 or each[0] == 0 or each[0] + 1 == len(held)]
    if not sure:
        return None
    found = Aligned(parts)
    for lost, more in _between(held, own, sure):
        gone = [word for word in lost if differs(word) or word in OPPOSITES or word in names]
        new = [word for word in more if differs(word) or word in OPPOSITES or word in own_names]
        if (gone and new and gone != new) or [*filter(differs, gone)] != [*filter(differs, new)]:
            return None
        fewer, further = _telling(lost, more), _telling(more, lost)
        found.replaced += max(fewer, further) if fewer and further else 0
        found.put_in += 0 if fewer else further
        found.left_out += 0 if more else fewer
    for lost, more in _at_ends(held, own, sure):
        for one, other in zip(lost, more, strict=False):
            if one != other and (
                (differs(one) and differs(other))
                or (one in OPPOSITES and other in OPPOSITES)
                or (one in names and other in own_names)
            ):
                return None
        found.ends += _telling(lost, ())
    return None if _goes_on(held, own, parts[-1]) else found


def _goes_on(held: Sequence[str], own: Sequence[str], last: Part) -> bool:
    """Whether a sum or a row of numbers goes on in one text where the other ends."""
    end, own_end = last[0] + last[2], last[1] + last[2]
    after = own[own_end : own_end + 1] if end == len(held) else held[end : end + 1]
    if not after or (end < len(held) and own_end < len(own)) or not held[end - 1][0].isdigit():
        return False
    in_row = after[0][0].isdigit() and held[end - 2 : end - 1] and held[end - 2][0].isdigit()
    return bool(in_row or (differs(after[0]) and not after[0][0].isalnum()))


def similarity(held: Sequence[str], own: Sequence[str]) -> float:
    """The share of both texts' words that are equal, in order."""
    return SequenceMatcher(None, held, own, autojunk=False).ratio()


def _telling(some: Sequence[str], others: Sequence[str]) -> int:
    """How many words only the first have that tell one question from another."""
    return len((Counter(some) - Counter(others)).keys() - COMMON_WORDS)


def _parts(held: Sequence[str], own: Sequence[str]) -> list[Part]:
    """Runs of equal words, without lone words that are far off."""
    found = SequenceMatcher(None, held, own, autojunk=False).get_matching_blocks()[:-1]
    parts = [(each.a, each.b, each.size) for each in found]
    while len(parts) > 1 and parts[0][2] == 1 and parts[1][1] - parts[0][1] > EDGE:
        parts.pop(0)
    while len(parts) > 1 and parts[-1][2] == 1 and parts[-1][1] - sum(parts[-2][1:]) >= EDGE:
        parts.pop()
    return parts


def _between(
    held: Sequence[str], own: Sequence[str], sure: Sequence[Part]
) -> Iterator[tuple[Sequence[str], Sequence[str]]]:
    """What differs between two parts that are alike."""
    for (a, b, size), (next_a, next_b, _) in pairwise(sure):
        if next_a - a - size <= WIDEST and next_b - b - size <= WIDEST:
            yield held[a + size : next_a], own[b + size : next_b]


def _at_ends(
    held: Sequence[str], own: Sequence[str], sure: Sequence[Part]
) -> Iterator[tuple[Sequence[str], Sequence[str]]]:
    """Few words of the held-out text before the first part and after the last, nearest first, and
    what stands there in the other."""
    (a, b, _), (last_a, last_b, size) = sure[0], sure[-1]
    if a <= EDGE:
        yield held[:a][::-1], own[:b][::-1]
    if len(held) - last_a - size <= EDGE:
        yield held[last_a + size :], own[last_b + size :]
