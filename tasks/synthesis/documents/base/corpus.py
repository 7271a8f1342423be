"""The documents of the questions: an index's passages, and its search in this process."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from math import log
from pathlib import Path
from random import Random

from tutti.errors import UsageError
from tutti.storage import Catalog
from tutti.tasks.retrieval import MANIFEST, Index, Passage
from tutti.tasks.synthesis.documents.base.sentences import sentences_of
from tutti.tasks.synthesis.gating.wording import words_of

MOST_PASSAGES = 20_000
"""Passages that are read for questions; of a larger index so many whole documents are drawn. The
search is over all."""
LONGEST = 500
"""Passages of a document that are read before and after a drawn one."""
KIND = "index:"

PlainSentence = tuple[str, frozenset[str]]
"""A sentence as plain text, and its words."""


@dataclass
class Corpus:
    """An index's documents."""

    index_id: str
    index: Index
    passages: Sequence[Passage]
    """Those that questions may be about, in the index's order."""
    _by_id: dict[str, Passage] = field(default_factory=dict)
    _sentences: dict[str, list[PlainSentence]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._by_id = {each.id: each for each in self.passages}

    @cached_property
    def sources(self) -> int:
        """Number of documents of the passages."""
        return len({each.source or each.id for each in self.passages})

    def passage(self, passage_id: str) -> Passage | None:
        """Return a passage by its id, or None."""
        return self._by_id.get(passage_id)

    def sentences(self, passage: Passage) -> list[PlainSentence]:
        """Return the sentences of a passage, each with its words; they are parsed once."""
        if passage.id not in self._sentences:
            plain = [each.plain for each in sentences_of(passage.text)]
            self._sentences[passage.id] = [(each, frozenset(words_of(each))) for each in plain]
        return self._sentences[passage.id]

    def weight(self, word: str) -> float:
        """The weight of a word: ``ln((1 + n) / (1 + df))`` over the passages, at least 0.01."""
        passages, _ = self._counts
        return max(0.01, log((1 + len(self.passages)) / (1 + passages[word])))

    def documents_with(self, word: str) -> int:
        """Return the number of documents with a word."""
        _, documents = self._counts
        return documents[word]

    @cached_property
    def _counts(self) -> tuple[Counter[str], Counter[str]]:
        """Return by word the numbers of passages and of documents with it."""
        passages, words = Counter[str](), dict[str, set[str]]()
        for each in self.passages:
            own = set(words_of(each.text))
            passages.update(own)
            words.setdefault(each.source or each.id, set()).update(own)
        return passages, Counter(word for own in words.values() for word in own)

    def search(self, queries: Sequence[str], hits: int) -> list[list[Passage]]:
        """Return the best hits of each query, best first. Raises EmbedderFailed."""
        if not queries:
            return []
        found = self.index.search(list(queries), min(hits, len(self.index.documents)))
        return [[hit.document for hit in each] for each in found]


def find_index_folder(named: str, catalog: Catalog) -> Path:
    """Return the folder of an index by its id, with or without ``index:``, or by its folder. Raises
    UsageError for anything else, and for an index whose files are missing."""
    entry = catalog.artifact(named if named.startswith(KIND) else KIND + named)
    if entry is not None:
        folder = entry["path"]
        if folder is None or not (folder / MANIFEST).is_file():
            raise UsageError(
                f"index: {entry['artifact_id']} is known, but its stored passages are gone "
                f"({folder}); `tutti index FOLDER` builds it again"
            )
        return Path(folder)
    place = Path(named)
    if (place / MANIFEST).is_file():
        return place
    if place.exists():
        raise UsageError(
            f"index: {named} holds documents and no index; `tutti index {named}` builds one and "
            "prints its id"
        )
    raise UsageError(
        f"index: there is no index {named!r}; `tutti index FOLDER` builds one and prints its id"
    )


def open_corpus(named: str, catalog: Catalog, seed: int = 0) -> Corpus:
    """Open the documents of an index. `seed` draws a sample from more than `MOST_PASSAGES`. Raises
    UsageError for an unknown index, or one without passages or text."""
    folder = find_index_folder(named, catalog)
    try:
        index = Index(folder)
    except FileNotFoundError as error:
        raise UsageError(
            f"index: {folder} has no stored passages ({Path(error.filename).name} is missing); "
            "build it again with `tutti index`"
        ) from None
    except ValueError as error:  # of an embedder that only a program can give
        raise UsageError(f"index: {error}") from None
    passages = _drawn(index, seed)
    if not any(each.text.strip() for each in passages):
        raise UsageError(f"index: {index.index_id} has no text in its {len(passages)} passages")
    return Corpus(index.index_id, index, passages)


def _drawn(index: Index, seed: int) -> list[Passage]:
    count = len(index.documents)
    if count <= MOST_PASSAGES:
        return list(index.documents)
    rng, taken = Random(f"{seed}/passages"), set[int]()
    while len(taken) < MOST_PASSAGES:
        taken |= _document_of(index, rng.randrange(count))
    return [index.documents[row] for row in sorted(taken)]


def _document_of(index: Index, row: int) -> set[int]:
    """The rows of a row's document, whose passages are adjacent; for a very long one a part."""
    source, rows = index.documents[row].source, {row}
    for step in (-1, 1):
        for at in range(row + step, row + step * LONGEST, step):
            is_there = source and 0 <= at < len(index.documents)
            if not is_there or index.documents[at].source != source:
                break
            rows.add(at)
    return rows
