"""Whether a text is a copy of a held-out one: unchanged, within another, or slightly changed.

In: held-out texts, then texts. Out: for each a `Leak`, or None. `how` is one of:

- `same`: the same words in the same order, ignoring spaces.
- `words`: all words of one occur consecutively in the other.
- `near`: likewise, with few words inserted, deleted or replaced.
- `part`: a third of a held-out text occurs in the other, a run of 13 words with two numbers or
 names, or that is in no other. Questions about one story share as much, so this is checked only
 on request.

Questions of one template are not copies: inserting, deleting or replacing a number, sign, negation,
name or opposite makes another question. So does any other deleted or replaced word in a short text,
or in one that shares most shingles with other held-out ones and therefore is of a template.
Shingles are looked up exactly and not by MinHash, whose estimate of the Jaccard index detects
neither a text within another nor a changed number.
"""

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from itertools import chain, pairwise

from tutti.tasks.leaks.words import COMMON_WORDS, OPPOSITES, Words, differs, words_of
from tutti.tasks.retrieval import Embedder

EDGE = 4
"""A single word at this distance from the next equal ones is equal by chance."""
LEAST_SHARED = 0.7
"""Share of a text's different words that are in any text that has it."""


@dataclass(frozen=True)
class Difference:
    """The difference between a text and its occurrence in another."""

    covered: float
    """The share of the words that stand there, in order."""
    lost: int
    """Words left out that tell, and words replaced."""
    put_in: int
    """Words put in that tell."""
    in_a_row: bool
    """Whether all words of the text stand there with no others between."""


def compare(text: Words, whole: Words, near: slice, names: Collection[str]) -> Difference | None:
    """Return the difference between a text and its occurrence in `whole`, about `near`. None if
    nothing is equal, or if a number, sign, negation, name or opposite is deleted, inserted or
    replaced."""
    kinds, every = set(text.every), whole.every[near]
    if len(kinds & set(every)) < LEAST_SHARED * len(kinds):
        return None  # which spares the search for runs
    own, others, size = text.told, whole.told[near], len(text.every)
    sure = [p for p in _parts(text.every, every) if p[2] > 1 or p[0] == 0 or p[0] + 1 == size]
    if not sure:
        return None
    (first, _, _), (last, last_other, length) = sure[0], sure[-1]
    ends = [*filter(None, (*own[:first], *own[last + length :]))]
    if _facts(ends, names) or _goes_on(text.every, every[last_other + length :]):
        return None
    lost, put_in = _telling(ends), 0
    for (a, b, run), (next_a, next_b, _) in pairwise(sure):
        gone = [*filter(None, own[a + run : next_a])]
        new = [*filter(None, others[b + run : next_b])]
        if _facts(gone, names) != _facts(new, names):
            return None
        if gone and new:
            lost += max(len(gone), len(new))
        else:
            lost, put_in = lost + _telling(gone), put_in + _telling(new)
    alike = sum(part[2] for part in sure)
    return Difference(alike / size, lost, put_in, alike == size and not sure[1:])


def _goes_on(text: Sequence[str], after: Sequence[str]) -> bool:
    """Whether a sum or a row of numbers continues where the text ends."""
    if not after or not text[-1][0].isdigit():
        return False
    in_row = after[0][0].isdigit() and text[-2:-1] and text[-2][0].isdigit()
    return bool(in_row or (differs(after[0]) and not after[0][0].isalnum()))


def _facts(words: Sequence[str], names: Collection[str]) -> list[str]:
    return [word for word in words if differs(word) or word in OPPOSITES or word in names]


def _telling(words: Iterable[str]) -> int:
    """Return the number of words that distinguish questions."""
    return len(set(words) - COMMON_WORDS)


def _matcher(text: Sequence[str], whole: Sequence[str]) -> SequenceMatcher[str]:
    return SequenceMatcher(None, text, whole, autojunk=False)


def _parts(text: Sequence[str], whole: Sequence[str]) -> list[tuple[int, int, int]]:
    """Return runs of equal words (place in the text, place in the other, length), without distant
    single words."""
    parts = [(m.a, m.b, m.size) for m in _matcher(text, whole).get_matching_blocks()[:-1]]
    while len(parts) > 1 and parts[0][2] == 1 and parts[1][1] - parts[0][1] > EDGE:
        parts.pop(0)
    while len(parts) > 1 and parts[-1][2] == 1 and parts[-1][1] - sum(parts[-2][1:]) >= EDGE:
        parts.pop()
    return parts


SHINGLE, SPAN = 3, 16
"""Words of a shingle, letters of a span."""
WITHIN, AROUND, PLAIN = 5, 6, 13
"""Fewest words of a held-out text within another, and of a text within a held-out one with a number
or name, and without."""
SHORTEST, SHORT, BESIDE = 3, 8, 12
"""A held-out text of `SHORTEST` to `SHORT` words is also found at an end of one with `BESIDE` words
more."""
COVERED = 0.85
"""Share of a text's words that are in order in the other."""
REPLACED, LEAST_REPLACED = 1 / 16, 20
"""Share of words replaced or left out in a copy, and words of a text in which any may be."""
TEMPLATED = 0.5
"""Share of a held-out text's shingles that others have too, from which on it is of a template."""
OWN = 0.7
"""Share of the shingles of a run that no other held-out text has, for it to be no instruction."""
COMMON, KEPT, COMPARED = 50, 4, 8
"""Shingles of more than COMMON texts find none but the texts whose KEPT rarest they are among."""
REWORDED, TEMPLATE = 0.7, 0.65
"""Least cosine of two texts by an embedder, for one to be the other reworded; with more words in
the same order they are of one template, and differ where it counts."""
NAME = 0.3
"""The part of the texts with a word that have it as a name, for it to be one."""


@dataclass(frozen=True)
class Leak:
    """A copy of a held-out text."""

    place: int
    """Position of the held-out text."""
    how: str
    covered: float = 1.0
    """The share of words that both have."""


class LeakIndex:
    """An index of held-out texts, read once."""

    def __init__(self, texts: Iterable[str]) -> None:
        self.texts = list(texts)
        self._held = [words_of(text) for text in self.texts]
        self._same: dict[tuple[tuple[str, ...], str], int] = {}
        for place, words in enumerate(self._held):
            if words.every:
                self._same.setdefault(words.same, place)
        once = {place: self._held[place] for place in self._same.values()}
        counts = Counter(word for words in once.values() for word in set(words.every))
        named = Counter(name for words in once.values() for name in words.names)
        self._names = {name for name, count in named.items() if count > NAME * counts[name]}
        shingles = {place: _shingles(words.every) for place, words in once.items()}
        self._counts, self._shingled = _by_rarest(shingles, COMMON, KEPT)
        long = {place: w.letters for place, w in once.items() if w.size >= WITHIN}
        starts = {place: range(0, max(1, len(t) - SPAN + 1), SPAN) for place, t in long.items()}
        spans = {place: [t[n : n + SPAN] for n in starts[place]] for place, t in long.items()}
        _, self._spanned = _by_rarest(spans, 0, 1)
        self._facts, self._signed = defaultdict(list), defaultdict(list)
        for place, words in once.items():
            if words.tells_by_signs and len(words.every) <= SHORT:
                self._signed[words.signs].append(place)
            self._facts[frozenset(self._facts_of(words))].append(place)

    def find(self, text: str, strict: bool = False) -> Leak | None:
        """The held-out text that a text copies, by the first rule that applies. `strict`, where no
        honest text has a held-out one's template or story: also `part` of a held-out text, or one
        with more words replaced."""
        words = words_of(text)
        if words.every and words.same in self._same:
            return Leak(self._same[words.same], "same")
        within = self._within(words)
        if within is not None:
            is_all = self._held[within].letters == words.letters
            return Leak(within, "same" if is_all else "words")
        near = [*self._candidates(words)]
        compared = (self._compared(words, *each, strict) for each in near)
        parts = (self._in_part(words, place) for place, _ in near if strict)
        return next((leak for leak in chain(compared, parts) if leak), None)

    def find_all(
        self, texts: Sequence[str], embedder: Embedder | None = None, least: float = REWORDED
    ) -> list[Leak | None]:
        """The held-out text that each text copies. With an embedder, `reworded` is a text with the
        numbers and names of a held-out one, other words, and a cosine of at least `least` to it.
        Raises EmbedderFailed."""
        once: dict[str, Leak | None] = {text: self.find(text) for text in dict.fromkeys(texts)}
        if embedder is not None:
            left = [text for text, leak in once.items() if leak is None]
            once |= self._reworded(left, embedder, least)
        return [once[text] for text in texts]

    def _reworded(
        self, texts: Sequence[str], embedder: Embedder, least: float
    ) -> dict[str, Leak | None]:
        """Return texts that express a held-out one in other words."""
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
            and _matcher(self._held[place].every, every[text].every).ratio() < TEMPLATE
        }

    def _within(self, words: Words) -> int | None:
        """Return a held-out text that occurs consecutively within a text."""
        own, every = words.letters, words.every
        spans = (own[start : start + SPAN] for start in range(max(1, len(own) - SPAN + 1)))
        spanned = (self._spanned.get(span, ()) for span in spans)
        for place in chain(self._signed.get(words.signs, ()), *spanned):
            if self._held[place].stands_in(words):
                return place
        for size in range(max(SHORTEST, len(every) - BESIDE), min(SHORT, len(every))):
            for part, beside in ((every[:size], every[size]), (every[-size:], every[-size - 1])):
                known = self._same.get((part, ""))
                if known is not None and not differs(beside):
                    return known
        return None

    def _candidates(self, words: Words) -> Iterator[tuple[int, list[int]]]:
        """Yield held-out texts that share all signs, then those that share shingles, most first,
        and the places of these in the text."""
        yield from ((place, [0]) for place in self._signed.get(words.signs, ())[:COMPARED])
        found = defaultdict(list)
        for at, shingle in enumerate(_shingles(words.every)):
            for place in self._shingled.get(shingle, ()):
                found[place].append(at)
        for place in sorted(found, key=lambda each: -len(found[each]))[:COMPARED]:
            if len(found[place]) >= min(2, len(self._held[place].every) - SHINGLE - 1):
                yield place, found[place]

    def _compared(
        self, words: Words, place: int, shared: Sequence[int], strict: bool
    ) -> Leak | None:
        """Compare with one held-out text, around the `shared` places."""
        held, every = self._held[place], words.every
        names, size = words.names | self._names, len(held.every)
        first = max(shared, key=lambda at: sum(at <= each < at + size for each in shared))
        if held.size >= WITHIN:
            around = slice(max(0, first - size), first + 2 * size)
            found = compare(held, words, around, names)
            if found is not None and self._copies(found, held, words, place, strict):
                return Leak(place, "near", found.covered)
        tells = any(differs(word) or word in self._names for word in every)
        if (AROUND if tells else PLAIN) <= len(every) < size:
            found = compare(words, held, slice(None), names)
            if found is not None and self._copies(found, words, held, place, strict):
                return Leak(place, "words" if found.in_a_row else "near", found.covered)
        return None

    def _in_part(self, words: Words, place: int) -> Leak | None:
        """Compare with one held-out text of which a distinctive run occurs in a text."""
        held = self._held[place].every
        runs = _matcher(held, words.every).get_matching_blocks()
        longest = max(runs, key=lambda each: each.size)
        run = held[longest.a : longest.a + longest.size]
        rare = sum(self._counts[each] == 1 for each in _shingles(run))
        facts = sum(word[0].isdigit() or word in self._names for word in run)
        is_own = rare >= OWN * len(_shingles(run))
        if len(run) >= max(PLAIN, len(held) / 3) and (is_own or (facts > 1 and rare > 1)):
            return Leak(place, "part", sum(each.size for each in runs) / len(held))
        return None

    def _copies(
        self, found: Difference, text: Words, whole: Words, place: int, strict: bool
    ) -> bool:
        """Whether the difference is small enough for a copy."""
        size = len(text.every)
        alike = found.covered >= COVERED and text.signs_stand_in(whole, found.in_a_row)
        if not alike or (strict and size > SHORT):
            return alike
        shingles = _shingles(self._held[place].every)
        shared = sum(self._counts[each] > 1 for each in shingles)
        most = 0.0 if shared >= TEMPLATED * len(shingles) else size * REPLACED
        return found.put_in <= max(1, most) and (
            found.lost <= (most if size >= LEAST_REPLACED else 0)
        )

    def _facts_of(self, words: Words) -> tuple[str, ...]:
        names = words.names | self._names
        return tuple(dict.fromkeys(word for word in words.every if differs(word) or word in names))


def _shingles(words: Sequence[str]) -> list[str]:
    return [" ".join(words[n : n + SHINGLE]) for n in range(max(1, len(words) - SHINGLE + 1))]


def _by_rarest(
    parts: Mapping[int, Sequence[str]], most: int, kept: int
) -> tuple[Counter[str], dict[str, list[int]]]:
    """Return the number of texts with each part; and the texts by those of their parts that at most
    `most` texts have, and by their `kept` rarest ones."""
    counts = Counter(part for each in parts.values() for part in set(each))
    found = defaultdict(list)
    for place, each in parts.items():
        ordered = sorted(set(each), key=lambda part: (counts[part], part))
        for nth, part in enumerate(ordered):
            if nth < kept or counts[part] <= most:
                found[part].append(place)
    return counts, dict(found)
