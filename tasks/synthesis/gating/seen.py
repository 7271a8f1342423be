"""The tasks so far, by MinHash: 128 numbers of 16 bits for each.

In: fingerprints, in order. Out: the earlier task that one repeats. Results do not depend on
Python's hash seed.

A signature has 128 numbers, each the least value of a permutation over a set (Broder 1997): 48 over
the words and pairs of words of the user's instructions, 80 over the facts: calls, facts to
communicate, slots. The share of equal numbers estimates 0.375 J(words) + 0.625 J(facts), J the
Jaccard index.

Locality-sensitive hashing by bands of the signature would put all tasks of a template into one
bucket, because they share most words. The bucket is the task's outcome instead, which a repeated
task shares: comparisons stay few, and a task about another customer is never compared.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache
from hashlib import blake2b

import numpy as np
from numpy.typing import NDArray

WORDS, FACTS = 48, 80
PERMUTATIONS = WORDS + FACTS
THRESHOLD = 0.65
"""Same facts (0.625) in almost any words; or 3 in 4 facts and half of the words."""
_DRAWN = np.random.default_rng(19).integers(0, 2**63, size=(2, PERMUTATIONS), dtype=np.uint64)
_FACTORS, _SHIFTS = _DRAWN[0] | np.uint64(1), _DRAWN[1]
_HALF = np.uint64(32)
Signature = NDArray[np.uint16]


@lru_cache(maxsize=65_536)
def hash64(text: str) -> int:
    """Return 64 bits of a text's hash, the same in every process."""
    return int.from_bytes(blake2b(text.encode(), digest_size=8).digest(), "little")


def min_hash(features: Iterable[str], first: int = 0, count: int = PERMUTATIONS) -> Signature:
    """Return the least values of `count` permutations from the `first` over a set, the 16 middle
    bits of each; all zero for an empty set."""
    hashes = np.fromiter((hash64(each) for each in features), dtype=np.uint64)
    if not hashes.size:
        return np.zeros(count, dtype=np.uint16)
    factors, shifts = _FACTORS[first : first + count], _SHIFTS[first : first + count]
    permuted = (np.multiply.outer(hashes, factors) + shifts) >> _HALF
    least: NDArray[np.uint64] = permuted.min(axis=0)
    return least.astype(np.uint16)


@dataclass(frozen=True)
class Fingerprint:
    """The features of a task that are compared."""

    task_id: str
    told: int
    """Hash of the words that the user is told, in order, and of the state at the beginning."""
    outcome: int
    """Hash of what solves the task: changing calls, facts to say, slots, entities."""
    signature: Signature
    chosen: frozenset[tuple[str, str]] = frozenset()
    """The choices of fields that the user names, as (field, choice)."""


def contrast(one: frozenset[tuple[str, str]], other: frozenset[tuple[str, str]]) -> bool:
    """Whether each names a choice of some field that the other does not. A choice that only one
    names means nothing, because other words may omit it ("open", "ask")."""
    mine, theirs = one - other, other - one
    return bool({field for field, _ in mine} & {field for field, _ in theirs})


@dataclass(frozen=True)
class Repeated:
    """The earlier task that a task repeats."""

    task_id: str
    similarity: float
    same_words: bool
    """Whether the user is told exactly the same."""


class Seen:
    """The tasks so far. Use a new one for each task set."""

    def __init__(self) -> None:
        self._ids: list[str] = []
        self._signatures = np.zeros((64, PERMUTATIONS), dtype=np.uint16)
        self._chosen: list[frozenset[tuple[str, str]]] = []
        self._told: dict[int, int] = {}
        self._outcomes: dict[int, list[int]] = {}

    def __len__(self) -> int:
        return len(self._ids)

    def find(self, task: Fingerprint) -> Repeated | None:
        """Return the nearest earlier task, if it is a duplicate. A `similarity` of 1 does not mean
        an equal text; see `same_words`."""
        place = self._told.get(task.told)
        if place is not None:
            return Repeated(self._ids[place], self._similarity(task, [place])[1], True)
        alike = self._outcomes.get(task.outcome, ())
        places = [each for each in alike if not contrast(self._chosen[each], task.chosen)]
        if not places:
            return None
        nearest, similarity = self._similarity(task, places)
        return Repeated(self._ids[nearest], similarity, False) if similarity >= THRESHOLD else None

    def add(self, task: Fingerprint) -> None:
        """Remember a task."""
        place = len(self._ids)
        if place == len(self._signatures):
            self._signatures = np.concatenate([self._signatures, np.zeros_like(self._signatures)])
        self._signatures[place] = task.signature
        self._ids.append(task.task_id)
        self._chosen.append(task.chosen)
        self._told.setdefault(task.told, place)
        self._outcomes.setdefault(task.outcome, []).append(place)

    def _similarity(self, task: Fingerprint, places: list[int]) -> tuple[int, float]:
        equal = (self._signatures[places] == task.signature).mean(axis=1)
        nearest = int(equal.argmax())
        return places[nearest], float(equal[nearest])
