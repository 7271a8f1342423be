"""Gate: no task repeats a benchmark's question.

Refused is a task that shares 13 words in a row with a benchmark's text (GPT-3, arXiv 2005.14165,
appendix C), or, where either text is shorter, has all of its words in a row in the other; texts of
fewer than 6 words are too common to tell. Refused is also one whose cosine to a benchmark's text is
at least 0.75 by the local embedder (hashed words and 3-grams of characters). Only benchmarks that
share a third of a task's words, by weight, are compared so, which leaves few; embedding every task
would cost as much as all other gates together. Words weigh by how few benchmarks have them: among
thousands of questions of one template, other words for what all share make a text look far.
"""

from collections.abc import Sequence
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from tutti.storage import Home, query
from tutti.tasks.retrieval import NearnessIndex
from tutti.tasks.synthesis.domains import DomainTask
from tutti.tasks.synthesis.gating.example import EXAMPLE, EXTENDED, LOOKED_UP
from tutti.tasks.synthesis.gating.gate import PASSED, Examples, GateBench, Verdict
from tutti.tasks.synthesis.gating.seen import hash64
from tutti.tasks.synthesis.gating.wording import words_of

GRAM, LEAST_WORDS = 13, 6
NEAR = 0.75
SHARED = 1 / 3
"""The part of a task's words, rare ones weighing more, that a benchmark must share."""
MOST_COMPARED = 16
Hashes = NDArray[np.uint64]
_BASE = np.uint64(0x9E3779B97F4A7C15)
QUESTIONS = """
    with made as (select distinct task_id from tasks where template is not null)
    select distinct question from tasks
    where question is not null and template is null
        and coalesce(slots ->> 'id', '') not in (from made)
    order by question
"""


def benchmark_questions(home: Home) -> list[str]:
    """The questions of every benchmark in the store, and of sets over the standard library.

    Tasks of domains are not among them, nor where they were measured as a benchmark: those of
    another seed come from the same templates.
    """
    return [row["question"] for row in query(QUESTIONS, home)]


class Contamination:
    """Looks for a bench's `benchmarks` in what users are told."""

    name = "contamination"
    about = "The task repeats no benchmark's question: 13 words in a row, or a near embedding."

    async def judge(self, tasks: Sequence[DomainTask], bench: GateBench) -> list[Verdict]:
        """`measured` is the cosine, or 1 where words repeat."""
        if not bench.benchmarks:
            return [PASSED] * len(tasks)
        index = benchmark_index(tuple(bench.benchmarks))
        return [index.judge(task.scenario.text) for task in tasks]

    def examples(self) -> Examples:
        """A question pasted whole, a part of a long one, and one with some words replaced."""
        short = "How many apples does Tom have after he buys 7 bags of 4?"
        long = (
            "A train leaves the station at noon with 120 passengers; at each of the next 5 stops "
            "12 get off and 9 get on. How many passengers are on it in the end?"
        )
        reworded = "How many apples does Tom own after he buys 7 large bags of 4?"
        told = (f"You ask: {short}", f"Please help. {long[:100]}", reworded)
        bad = [EXTENDED.scenario.model_copy(update={"reason": each, "known": ""}) for each in told]
        bad[-1] = bad[-1].model_copy(update={"instructions": ""})
        return Examples(
            good=((EXAMPLE, EXTENDED), (EXAMPLE, LOOKED_UP)),
            bad=[(EXAMPLE, EXTENDED.model_copy(update={"scenario": each})) for each in bad],
            benchmarks=(short, long, "What is the capital of the country where tea is grown?"),
        )


class BenchmarkIndex:
    """Benchmarks' texts, read once: runs of words, who has which word, and embeddings."""

    def __init__(self, texts: Sequence[str]) -> None:
        self.texts = texts
        split = [words_of(text) for text in texts]
        self._tokens = np.fromiter((hash64(w) for words in split for w in words), dtype=np.uint64)
        lengths = np.array([len(words) for words in split])
        self._ends = np.repeat(np.cumsum(lengths), lengths)
        """Of each token, where its text ends."""
        self._whole = _whole_texts(split)
        self._runs: dict[int, Hashes] = {}
        self._postings, self._weights = _postings(split)
        self._unknown = float(np.log(1 + len(texts))) + 1
        """Weight of a word that no benchmark has."""
        self._near: NearnessIndex | None = None

    def judge(self, text: str) -> Verdict:
        """The verdict on one text."""
        if self.repeats(text):
            return Verdict(False, "a run of its words stands in a benchmark's text", 1.0)
        found = self.similar(text, 1)
        if not found:
            return PASSED
        ((nearest, cosine),) = found
        why = f"near a benchmark's text: {self.texts[nearest][:80]!r}"
        return Verdict(cosine < NEAR, why if cosine >= NEAR else "", cosine)

    def repeats(self, text: str) -> bool:
        """Whether a run of its words stands in one of the texts."""
        words = words_of(text)
        return self._repeats(np.fromiter((hash64(word) for word in words), dtype=np.uint64))

    def similar(self, text: str, most: int) -> list[tuple[int, float]]:
        """Places of the nearest texts among those that share enough words, with their cosines,
        nearest first."""
        places = self._alike(words_of(text))
        if not places:
            return []
        if self._near is None:
            self._near = NearnessIndex(self.texts)
        cosines = self._near.cosines([text], places)[0]
        order = np.argsort(-cosines, kind="stable")[:most]
        return [(places[int(nth)], float(cosines[nth])) for nth in order]

    def _repeats(self, hashes: Hashes) -> bool:
        length = min(GRAM, len(hashes))
        if length < LEAST_WORDS:
            return False
        if _any_in(_runs(hashes, length), self._runs_of(length)):
            return True
        shorter = ((n, whole) for n, whole in self._whole.items() if n < length)
        return any(_any_in(_runs(hashes, n), whole) for n, whole in shorter)

    def _runs_of(self, length: int) -> Hashes:
        """All runs of so many words within a text, sorted."""
        if length not in self._runs:
            runs = _runs(self._tokens, length)
            within = np.arange(len(runs)) + length <= self._ends[: len(runs)]
            self._runs[length] = np.unique(runs[within])
        return self._runs[length]

    def _alike(self, words: Sequence[str]) -> list[int]:
        """The texts that share enough words, most first."""
        distinct = set(words)
        known = [word for word in distinct if word in self._postings]
        if not known:
            return []
        postings = [self._postings[word] for word in known]
        weights = np.repeat([self._weights[w] for w in known], [len(each) for each in postings])
        shared = np.bincount(np.concatenate(postings), weights)
        total = sum(self._weights.get(word, self._unknown) for word in distinct)
        places = np.flatnonzero(shared >= SHARED * total)
        order = np.argsort(-shared[places], kind="stable")[:MOST_COMPARED]
        return [int(place) for place in places[order]]


@lru_cache(maxsize=2)
def benchmark_index(texts: tuple[str, ...]) -> BenchmarkIndex:
    """The index of benchmarks' texts; that of the latest two lists is kept."""
    return BenchmarkIndex(texts)


def _whole_texts(split: Sequence[Sequence[str]]) -> dict[int, Hashes]:
    """The texts shorter than a run, by their number of words."""
    found: dict[int, list[int]] = {}
    for words in split:
        if LEAST_WORDS <= len(words) < GRAM:
            hashes = np.fromiter((hash64(word) for word in words), dtype=np.uint64)
            found.setdefault(len(words), []).append(int(_runs(hashes, len(words))[0]))
    return {n: np.unique(np.array(each, dtype=np.uint64)) for n, each in found.items()}


def _postings(
    split: Sequence[Sequence[str]],
) -> tuple[dict[str, NDArray[np.int32]], dict[str, float]]:
    """Of each word the texts that have it, and its weight: ``ln((1 + n) / (1 + df)) + 1``."""
    found: dict[str, list[int]] = {}
    for place, words in enumerate(split):
        for word in set(words):
            found.setdefault(word, []).append(place)
    count = len(split)
    weights = {w: float(np.log((1 + count) / (1 + len(p)))) + 1 for w, p in found.items()}
    return {word: np.array(places, dtype=np.int32) for word, places in found.items()}, weights


def _runs(hashes: Hashes, length: int) -> Hashes:
    """A hash of each run of so many tokens: a polynomial modulo 2^64."""
    powers = np.ones(length, dtype=np.uint64)
    powers[1:] = np.multiply.accumulate(np.full(length - 1, _BASE))
    if len(hashes) < length:
        return np.zeros(0, dtype=np.uint64)
    windows = np.lib.stride_tricks.sliding_window_view(hashes, length)
    found: Hashes = (windows * powers).sum(axis=1, dtype=np.uint64)
    return found


def _any_in(some: Hashes, ordered: Hashes) -> bool:
    """Whether any of `some` is in a sorted array."""
    if not ordered.size or not some.size:
        return False
    places = np.searchsorted(ordered, some)
    places[places == len(ordered)] = 0
    return bool((ordered[places] == some).any())
