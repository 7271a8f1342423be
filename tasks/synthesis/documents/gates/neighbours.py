"""The most frequent word between two words of the documents.

It is the guess of a reader who knows the style of the documents, but not their content.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from tutti.tasks.retrieval import Passage
from tutti.tasks.synthesis.documents.base.from_passages import GAP
from tutti.tasks.synthesis.gating.wording import words_of
from tutti.tasks.task_sets import Task

LEAST_BETWEEN, LEAST_BESIDE = 2, 4
"""Occurrences between the same two words, or beside one of them, that make a guess."""
USUAL = 0.5
"""The share of these that must have the same word."""
Place = tuple[str, str]
"""The word before and the word after; one may be empty: not looked at."""


@dataclass
class Neighbours:
    """Counts of the words at the places that questions ask about."""

    _counts: dict[Place, Counter[str]] = field(default_factory=dict)

    def read(self, tasks: Iterable[Task], passages: Iterable[Passage]) -> None:
        """Count the words at these questions' places in passages; places counted before stay."""
        wanted = {place for each in tasks for place in _places(each)} - self._counts.keys()
        if not wanted:
            return
        found: dict[Place, Counter[str]] = {place: Counter() for place in wanted}
        for passage in passages:
            words = words_of(passage.text)
            for before, word, after in zip(words, words[1:], words[2:], strict=False):
                here = ((before, after), (before, ""), ("", after))
                for place in found.keys() & here:
                    found[place][word] += 1
        self._counts |= found

    def guess(self, task: Task) -> tuple[str, float]:
        """Return the usual word in the gap, with its share; empty if none is usual."""
        own = words_of(task.answer)
        if len(own) != 1:
            return "", 0.0
        for place in _places(task):
            counts = self._counts.get(place, Counter()).copy()
            counts[own[0]] -= 1  # the sentence itself
            total = counts.total()
            word, times = max(counts.items(), key=lambda each: (each[1], each[0]))
            least = LEAST_BETWEEN if all(place) else LEAST_BESIDE
            if total >= least and times / total >= USUAL:
                return word, times / total
        return "", 0.0


def _places(task: Task) -> Sequence[Place]:
    """Return the places of a question's gap, the narrowest first; none without a gap."""
    before, gap, after = task.question.rpartition("? ")[2].partition(GAP)
    if not gap:
        return ()
    one, other = words_of(before)[-1:], words_of(after)[:1]
    found: list[Place] = []
    if one and other:
        found.append((one[0], other[0]))
    found += [(word, "") for word in one] + [("", word) for word in other]
    return found
