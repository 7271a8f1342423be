"""Passages, the entries of an index, stored on disk as lines that are read one by one.

``documents.jsonl`` has them; ``offsets.npy`` (where each line starts) and ``ids.npy`` (sorted
hashes of the ids with their rows) are read through memory maps: opening a million documents takes
no longer than opening ten.
"""

import hashlib
import mmap
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, overload

import numpy as np
import orjson
from numpy.typing import NDArray

from tutti.storage import replacing
from tutti.tasks.retrieval.corpus import Document
from tutti.tasks.retrieval.errors import CorpusRefused, FilterUnknown, IndexDamaged

Rows = NDArray[np.int64]
DOCUMENTS, OFFSETS, IDS = "documents.jsonl", "offsets.npy", "ids.npy"
ID_ENTRY = np.dtype([("hash", "<u8"), ("row", "<i8")])
ID_NAMES, TEXT_NAMES = ("id", "_id"), ("text", "contents", "content")


@dataclass(frozen=True, slots=True)
class Passage:
    """One retrievable piece of text."""

    id: str  # unique in its corpus
    text: str  # the text that a search returns
    title: str = ""
    source: str = ""  # its origin: a file, a page, a module. Chunks of one source are adjacent.
    position: int = 0  # the index of the chunk in its source, from 0

    def as_row(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in self.__slots__}

    @classmethod
    def from_row(cls, row: dict[str, Any]) -> "Passage":
        """Read a row, also with ``_id``, ``contents`` or ``content``. Raises CorpusRefused."""
        name = next((row[key] for key in ID_NAMES if row.get(key) is not None), None)
        text = next((row[key] for key in TEXT_NAMES if isinstance(row.get(key), str)), None)
        if name is None or text is None:
            raise CorpusRefused(f"a document needs an id and a text; it has {sorted(row)}")
        source = str(row.get("source") or "")
        return cls(
            str(name), text, str(row.get("title") or ""), source, int(row.get("position", 0))
        )


def stdlib_passages(documents: Iterable[Document]) -> Iterator[Passage]:
    """The standard library's documents as passages; a module is their source."""
    counts: dict[str, int] = {}
    for document in documents:
        position = counts.get(document.module, 0)
        counts[document.module] = position + 1
        yield Passage(document.name, document.text, document.name, document.module, position)


def read_jsonl(path: Path) -> Iterator[Passage]:
    """Yield the passages of a JSONL file, one per line. Raises CorpusRefused naming the line."""
    with path.open("rb") as lines:
        for number, line in enumerate(lines, 1):
            if line.strip():
                yield _at_line(path, number, line)


def _at_line(path: Path, number: int, line: bytes) -> Passage:
    try:
        return _passage_of(line)
    except (orjson.JSONDecodeError, CorpusRefused, TypeError, ValueError) as error:
        raise CorpusRefused(f"{path}:{number}: {error}") from error


def _passage_of(line: bytes) -> Passage:
    row = orjson.loads(line)
    if not isinstance(row, dict):
        raise CorpusRefused("a line must hold an object")
    return Passage.from_row(row)


def hash_passages(passages: Iterable[Passage]) -> str:
    """SHA-256 over the passages in order, which identifies a corpus; one is held at a time."""
    digest = hashlib.sha256()
    for passage in passages:
        digest.update(orjson.dumps(passage.as_row()) + b"\n")
    return digest.hexdigest()


def write_passages(passages: Iterable[Passage], folder: Path) -> int:
    """Write the three files completely or not at all; return the number of passages.

    Raises CorpusRefused for a duplicate id and for an empty corpus.
    """
    offsets, hashes = [0], []
    with replacing(folder / DOCUMENTS) as staging:
        with staging.open("wb") as file:
            for passage in passages:
                line = orjson.dumps(passage.as_row()) + b"\n"
                file.write(line)
                offsets.append(offsets[-1] + len(line))
                hashes.append(_hash(passage.id))
        _write_places(offsets, hashes, staging, folder)
    return len(hashes)


def index_lines(path: Path, folder: Path) -> tuple[int, str]:
    """Write the position of each document in another program's JSONL file; return number and hash.

    Raises CorpusRefused as `read_jsonl` and `write_passages`.
    """
    offsets: list[int] = []
    hashes: list[int] = []
    digest, end = hashlib.sha256(), 0
    with path.open("rb") as file:
        for number, line in enumerate(file, 1):
            if line.strip():
                passage = _at_line(path, number, line)
                digest.update(orjson.dumps(passage.as_row()) + b"\n")
                hashes.append(_hash(passage.id))
                offsets.append(end)
            end += len(line)
    _write_places([*offsets, end], hashes, path, folder)
    return len(hashes), digest.hexdigest()


def _write_places(offsets: list[int], hashes: list[int], lines: Path, folder: Path) -> None:
    if not hashes:
        raise CorpusRefused("the corpus is empty: an index needs at least one document")
    entries = np.zeros(len(hashes), dtype=ID_ENTRY)
    entries["hash"], entries["row"] = hashes, np.arange(len(hashes))
    entries = entries[np.argsort(entries["hash"], kind="stable")]
    np.save(folder / OFFSETS, np.array(offsets, dtype=np.int64))
    _refuse_twins(entries, lines, folder / OFFSETS)
    np.save(folder / IDS, entries)


def _refuse_twins(entries: NDArray[Any], lines: Path, offsets: Path) -> None:
    again = np.flatnonzero(entries["hash"][1:] == entries["hash"][:-1])
    if not again.size:
        return
    starts = np.load(offsets)
    with lines.open("rb") as file:
        for place in again.tolist():
            names = []
            for row in entries["row"][place : place + 2].tolist():
                file.seek(starts[row])
                names.append(_passage_of(file.readline()).id)
            if names[0] == names[1]:
                raise CorpusRefused(f"two documents have the id {names[0]!r}")


class PassageStore(Sequence[Passage]):
    """The passages of a folder, read on demand; thread-safe."""

    def __init__(self, folder: Path, documents: Path | None = None) -> None:
        """`documents`: the lines of another program, if they are not in the folder."""
        self._is_own = documents is None
        # As plain arrays over the maps: asking a memmap for one value costs five times as much.
        self._offsets = np.asarray(np.load(folder / OFFSETS, mmap_mode="r"))
        self._ids = np.asarray(np.load(folder / IDS, mmap_mode="r"))
        path = documents or folder / DOCUMENTS
        with path.open("rb") as file:
            self._lines = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        if self._offsets[-1] != len(self._lines) or len(self._ids) != len(self):
            raise IndexDamaged(f"{path} does not fit {OFFSETS} and {IDS}")

    def __len__(self) -> int:
        return len(self._offsets) - 1

    @overload
    def __getitem__(self, row: int) -> Passage: ...
    @overload
    def __getitem__(self, row: slice) -> list[Passage]: ...
    def __getitem__(self, row: int | slice) -> Passage | list[Passage]:
        if isinstance(row, slice):
            return [self[nth] for nth in range(*row.indices(len(self)))]
        if not 0 <= row < len(self):
            raise IndexError(f"row {row} of {len(self)} passages")
        line = self._lines[self._offsets[row] : self._offsets[row + 1]]
        return Passage(**orjson.loads(line)) if self._is_own else _passage_of(line)

    def rows_of(self, ids: Iterable[str]) -> Rows:
        """Rows of documents, ascending, each once. Raises FilterUnknown with the unknown id."""
        wanted = list(dict.fromkeys(ids))
        hashes = np.array([_hash(name) for name in wanted], dtype=np.uint64)
        starts = np.searchsorted(self._ids["hash"], hashes)
        found = [
            self._row_of(*pair)
            for pair in zip(wanted, hashes.tolist(), starts.tolist(), strict=True)
        ]
        return np.sort(np.array(found, dtype=np.int64))

    def _row_of(self, name: str, hashed: int, start: int) -> int:
        for place in range(start, len(self._ids)):
            entry = self._ids[place]
            if int(entry["hash"]) != hashed:
                break
            if self[int(entry["row"])].id == name:
                return int(entry["row"])
        raise FilterUnknown(f"the index has no document {name!r:.100}")

    def neighbours(self, row: int, reach: int) -> list[Passage]:
        """Up to `reach` passages before and after `row` from the same source, in order."""
        source, found = self[row].source, []
        for step in (-1, 1):
            for nth in range(1, reach + 1):
                other = row + step * nth
                if not 0 <= other < len(self) or self[other].source != source:
                    break
                found.append(other)
        return [self[other] for other in sorted(found)]


def _hash(name: str) -> int:
    return int.from_bytes(hashlib.blake2b(name.encode(), digest_size=8).digest(), "little")
