"""Whether a text is a copy of one that is held out: as it is, within another, or changed a little.

In: texts that are held out, then texts. Out: of each a `Leak`, or None. `how` it was found:

- `same`: the same words in the same order, without regard to spaces.
- `words`: all words of one stand in the other in a row, or both share a run of 13, a third of the
  held-out text, that is no instruction of many.
- `near`: few words are put in, left out or replaced; or both have the same numbers and names in
  order, and the same other words in any.

Questions of one template are no copies: where both go on alike, a number, a sign or a negation that
differs makes another question, and so does a name or an opposite in another's place, or too many
other words for the text's length. Shingles are looked up as they are and not by MinHash, whose
estimate of the Jaccard index sees neither a text within another nor a changed number.
"""

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from tutti.tasks.leaks.aligned import Aligned, align, similarity
from tutti.tasks.leaks.words import COMMON_WORDS, Words, differs, squeeze, words_of
from tutti.tasks.retrieval import Embedder

RUN, SHINGLE, SPAN = 13, 3, 16
"""Words of a run that counts and of a shingle; letters of a span."""
WITHIN, AROUND, SHORTEST, SHORT, BESIDE = 5, 6, 3, 8, 12
"""Fewest words of a held-out text within another, and of a text within a held-out one. A held-out
text of `SHORTEST` to `SHORT` words is also found at an end of one with `BESIDE` words more."""
COVERED, OF_RUN = 0.85, 1 / 3
"""Shares of a text's words that are in order in the other, and of a held-out text in a run."""
REPLACED, LEAST_REPLACED = 1 / 16, 20
"""Share of words replaced or left out in a copy, and words of a text in which any may be."""
COMMON, KEPT, COMPARED, RARE = 50, 4, 8, 2
"""Shingles of more than COMMON texts find none but the texts whose KEPT rarest they are among; of
RARE or fewer, that text is meant."""
REWORDED, TEMPLATE = 0.7, 0.65
"""Least cosine of two texts by an embedder, for one to be the other reworded; with more words in
the same order they are of one template, and differ where it counts."""
NAME = 0.3
"""The part of the texts with a word that have it as a name, for it to be one."""

LIST_ENDS, LIST_STARTS = re.compile(r"\d [\d.]+ $"), re.compile(r"^ [\d.]+ \d")


@dataclass(frozen=True)
class Leak:
    """What a text copies."""

    place: int
    """Of the held-out text."""
    how: str
    covered: float = 1.0
    """The share of words that both have."""


class LeakIndex:
    """Texts that are held out, read once."""

    def __init__(self, texts: Iterable[str]) -> None:
        self.texts = list(texts)
        self._held = [words_of(text) for text in self.texts]
        self._same: dict[str, int] = {}
        for place, words in enumerate(self._held):
            if words.every:
                self._same.setdefault(words.squeezed, place)
        once = {place: self._held[place] for place in self._same.values()}
        counts = Counter(word for words in once.values() for word in set(words.every))
        named = Counter(name for words in once.values() for name in words.names)
        self._names = {name for name, count in named.items() if count > NAME * counts[name]}
        shingles = {place: _shingles(words.every) for place, words in once.items()}
        self._shingled = _by_rarest(shingles, COMMON, KEPT)
        spans = {p: _spans(s) for s, p in self._same.items() if len(once[p].every) >= WITHIN}
        self._spanned = _by_rarest(spans, 0, 1)
        self._facts = defaultdict(list)
        for place, words in once.items():
            self._facts[frozenset(self._facts_of(words))].append(place)

    def find(self, text: str) -> Leak | None:
        """What a text copies, by the first way that finds something."""
        words = words_of(text)
        if words.every and words.squeezed in self._same:
            return Leak(self._same[words.squeezed], "same")
        within = self._within(words)
        if within is not None:
            return Leak(within, "words")
        compared = (self._compared(words, *each) for each in self._candidates(words))
        return next((leak for leak in compared if leak), None) or self._reordered(words)

    def find_all(
        self, texts: Sequence[str], embedder: Embedder | None = None, least: float = REWORDED
    ) -> list[Leak | None]:
        """What each of the texts copies. With an embedder, `reworded` is one with the numbers and
        names of a held-out text, other words, and a cosine of at least `least` to it.

        Raises EmbedderFailed.
        """
        once: dict[str, Leak | None] = {text: self.find(text) for text in dict.fromkeys(texts)}
        if embedder is not None:
            left = [text for text, leak in once.items() if leak is None]
            once |= self._reworded(left, embedder, least)
        return [once[text] for text in texts]

    def _reworded(
        self, texts: Sequence[str], embedder: Embedder, least: float
    ) -> dict[str, Leak | None]:
        """Texts that say a held-out one in other words."""
        every = {text: words_of(text) for text in texts}
        facts = {text: frozenset(self._facts_of(words)) for text, words in every.items()}
        alike = {text: self._facts[each] for text, each in facts.items() if each in self._facts}
        places = sorted({place for each in alike.values() for place in each})
        own = embedder.embed(list(alike))
        held = dict(zip(places, embedder.embed([self.texts[p] for p in places]), strict=True))
        return {
            text: Leak(place, "reworded", float(held[place] @ vector))
            for (text, near), vector in zip(alike.items(), own, strict=True)
            for place in near
            if held[place] @ vector >= least
            and similarity(self._held[place].every, every[text].every) < TEMPLATE
        }

    def _within(self, words: Words) -> int | None:
        """A held-out text that stands within a text, in a row."""
        own, every = words.squeezed, words.spelled
        for start in range(len(own) - SPAN + 1):
            for place in self._spanned.get(own[start : start + SPAN], ()):
                held = self._held[place].squeezed
                at = own.find(held)
                if at >= 0 and not _goes_on(own[:at], held, own[at + len(held) :]):
                    return place
        for size in range(max(SHORTEST, len(every) - BESIDE), min(SHORT, len(every))):
            for part, beside in ((every[:size], every[size]), (every[-size:], every[-size - 1])):
                known = self._same.get(squeeze(part))
                if known is not None and not differs(beside):
                    return known
        return None

    def _candidates(self, words: Words) -> Iterator[tuple[int, list[int]]]:
        """Held-out texts that share shingles, most first, and where the text has them."""
        found = defaultdict(list)
        for at, shingle in enumerate(_shingles(words.every)):
            for place in self._shingled.get(shingle, ()):
                found[place].append(at)
        for place in sorted(found, key=lambda each: -len(found[each]))[:COMPARED]:
            if len(found[place]) >= min(2, len(self._held[place].every) - SHINGLE - 1):
                yield place, found[place]

    def _compared(self, words: Words, place: int, shared: Sequence[int]) -> Leak | None:
        """Compare with one held-out text, around the `shared` places."""
        held, every = self._held[place].every, words.every
        first = max(shared, key=lambda at: sum(at <= each < at + len(held) for each in shared))
        own = every[max(0, first - len(held)) : first + 2 * len(held)]
        if len(shared) < RUN - SHINGLE and not _may_copy(set(held), set(own), set(every)):
            return None
        found = align(held, own, self._names, words.names | self._names)
        if found is None:
            return None
        (start, _, size), within = found.longest, found.alike / len(held)
        if self._tells(held[start : start + size], len(held)):
            return Leak(place, "words", within)
        least = min(len(held), len(every))
        most = least * REPLACED if least >= LEAST_REPLACED else 0
        if (
            len(held) >= WITHIN
            and within >= COVERED
            and (
                found.replaced + found.left_out + found.ends <= most
                and found.put_in <= max(1, len(held) * REPLACED)
            )
        ):
            return Leak(place, "near", within)
        return self._around(every, place, found) if found.replaced <= most else None

    def _around(self, every: Sequence[str], place: int, found: Aligned) -> Leak | None:
        """A text that stands within a held-out one."""
        tells = any(differs(word) or word in self._names for word in every)
        start, (_, last, size) = found.parts[0][1], found.parts[-1]
        share = found.alike / len(every)
        if (
            len(every) < (AROUND if tells else RUN)
            or start > 0
            or last + size < len(every)
            or share < COVERED
            or max(found.put_in, found.left_out) > len(every) * REPLACED
        ):
            return None
        return Leak(place, "near" if found.parts[1:] else "words", share)

    def _tells(self, run: Sequence[str], of: int) -> bool:
        """Whether a run of words is long enough, and is no instruction that many texts have."""
        rare = sum(0 < len(self._shingled.get(each, ())) <= RARE for each in _shingles(run))
        facts = sum(word[0].isdigit() or word in self._names for word in run)
        most = rare >= 0.7 * (len(run) - SHINGLE + 1)
        return len(run) >= max(RUN, of * OF_RUN) and (most or (facts > 1 and rare > 1))

    def _reordered(self, words: Words) -> Leak | None:
        """A held-out text with the same numbers and names in order, and the same other words."""
        own, facts = set(words.every) - COMMON_WORDS, self._facts_of(words)
        for place in self._facts.get(frozenset(facts), ()):
            held = set(self._held[place].every) - COMMON_WORDS
            if (
                len(held) >= SHORTEST
                and max(len(own - held), len(held - own)) <= len(held) * REPLACED
                and facts == self._facts_of(self._held[place])
                and [*filter(differs, words.every)] == [*filter(differs, self._held[place].every)]
            ):
                return Leak(place, "near", len(own & held) / len(own | held))
        return None

    def _facts_of(self, words: Words) -> tuple[str, ...]:
        names = words.names | self._names
        return tuple(dict.fromkeys(word for word in words.every if differs(word) or word in names))


def _may_copy(held: set[str], own: set[str], every: set[str]) -> bool:
    """Whether one may hold the other: most of its words, and all of its numbers."""
    most = COVERED * min(len(held), len(every))
    only = [any(map(differs, one - other)) for one, other in ((held, own), (every, held))]
    return len(held & own) >= most and not all(only)


def _shingles(words: Sequence[str]) -> list[str]:
    return [" ".join(words[n : n + SHINGLE]) for n in range(max(1, len(words) - SHINGLE + 1))]


def _spans(text: str) -> list[str]:
    return [text[n : n + SPAN] for n in range(0, max(1, len(text) - SPAN + 1), SPAN)]


def _by_rarest(parts: Mapping[int, Sequence[str]], most: int, kept: int) -> dict[str, list[int]]:
    """Texts by their parts: by those that at most `most` of them have, and by their `kept` rarest
    ones."""
    counts = Counter(part for each in parts.values() for part in set(each))
    found = defaultdict(list)
    for place, each in parts.items():
        ordered = sorted(set(each), key=lambda part: (counts[part], part))
        for nth, part in enumerate(ordered):
            if nth < kept or counts[part] <= most:
                found[part].append(place)
    return dict(found)


def _goes_on(before: str, held: str, after: str) -> bool:
    """Whether a number, a sum or a row of numbers goes on around a text without spaces."""
    ends = (
        held[-1].isdigit() and after and (differs(after[0]) or LIST_ENDS.search(held + after[:1]))
    )
    starts = (
        held[0].isdigit()
        and before
        and (differs(before[-1]) or LIST_STARTS.search(before[-1:] + held))
    )
    return bool(ends or starts)
