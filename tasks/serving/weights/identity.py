"""The content id of a checkpoint.

In: weights whose files are all there. Out: `checkpoint:` and 16 hex digits over the names and the
SHA-256 of the files that determine its answers. A file's hash is the same however it is found: by
reading it, from the hash book, or from its name in a Hub cache, where the blob of a large file is
named by its SHA-256. So a folder and a cache with the same files have the same id. A cache's name
is believed: whoever damages a blob without changing its length is not noticed here.
"""

import hashlib
import re
from collections.abc import Callable
from pathlib import Path

from tutti.storage import content_hash
from tutti.tasks.serving.errors import WeightsError
from tutti.tasks.serving.weights.files import opened
from tutti.tasks.serving.weights.hash_book import HashBook, KnownHash, is_settled, key_of
from tutti.tasks.serving.weights.reading import CONFIG, INDEX, SINGLE, TOKENIZERS, Weights

CHUNK_BYTES = 8 << 20
ID_HEX_DIGITS = len(content_hash(b""))
WORTH_KEEPING_BYTES = 16 << 20
"""Smaller files are read at each start: a hash book would save a hundredth of a second."""
SHA256 = re.compile(r"^[0-9a-f]{64}$")
MAIN_FILES = (CONFIG, "tokenizer.json", "chat_template.jinja")

Progress = Callable[[int, int], None]
"""Called with the bytes hashed so far, and those to hash in all."""


def weights_id(
    weights: Weights, known: HashBook | None = None, progress: Progress | None = None
) -> str:
    """The content id of a checkpoint.

    Over `model.safetensors`, config.json, tokenizer.json and chat_template.jinja; with several
    files of weights over all of these and their index, and without tokenizer.json over the other
    files of the vocabulary; for GGUF, which holds everything, over its files alone. Times, owners
    and the folder's place are not in it. `known` keeps the hashes of large files. Raises
    WeightsError where a file changes while it is read.
    """
    hashes = _Hashes(weights, known, progress)
    files = identifying_files(weights)
    named = [[file.name, hashes.of(file)[:ID_HEX_DIGITS]] for file in files]
    hashes.keep()
    return f"checkpoint:{content_hash(named)}"


def identifying_files(weights: Weights) -> list[Path]:
    """The files that determine a checkpoint's answers, in the order in which they are hashed."""
    files = list(weights.files)
    if weights.form == "gguf":
        return files
    names = list(MAIN_FILES)
    if [file.name for file in files] != [SINGLE]:
        names.insert(0, INDEX)
        if not (weights.folder / "tokenizer.json").is_file():
            names += [*TOKENIZERS[1:], "merges.txt"]
    return files + [path for name in names if (path := weights.folder / name).is_file()]


def is_blob_of_cache(path: Path) -> bool:
    """Whether a file lies where a Hub cache keeps the contents of its files."""
    return path.parent.name == "blobs" and path.parent.parent.name.startswith("models--")


class _Hashes:
    """SHA-256 of a checkpoint's files, each read at most once."""

    def __init__(self, weights: Weights, known: HashBook | None, progress: Progress | None) -> None:
        self.weights, self.book, self.progress = weights, known, progress
        self.known = known.read(weights.folder) if known else {}
        self.used: dict[str, KnownHash] = {}
        unread = [file for file in weights.files if self._found(file) is None]
        self.total = sum(file.stat().st_size for file in unread)
        self.done = 0

    def of(self, file: Path) -> str:
        """64 hex digits. Raises WeightsError."""
        return self._found(file) or self._read(file)

    def keep(self) -> None:
        """Write down what had to be read, without entries of files that are gone."""
        if self.book is not None and self.used != self.known:
            self.book.write(self.weights.folder, self.used)

    def _found(self, file: Path) -> str | None:
        """Its hash, where that needs no reading."""
        real = file.resolve()
        if file.is_symlink() and is_blob_of_cache(real) and SHA256.match(real.name):
            return real.name
        entry = self.known.get(str(real))
        if entry is None or entry.key != key_of(real):
            return None
        self.used[str(real)] = entry
        return entry.sha256

    def _read(self, file: Path) -> str:
        real = file.resolve()
        before = key_of(real)
        digest = hashlib.sha256()
        with opened(real) as data:
            while chunk := data.read(CHUNK_BYTES):
                digest.update(chunk)
                self._tell(file, len(chunk))
        if key_of(real) != before:
            raise WeightsError(f"{file}: changed while it was read; wait until it is written")
        if before[0] >= WORTH_KEEPING_BYTES and is_settled(before):
            self.used[str(real)] = KnownHash(before, digest.hexdigest())
        return digest.hexdigest()

    def _tell(self, file: Path, count: int) -> None:
        if self.progress is not None and file in self.weights.files:
            self.done += count
            self.progress(self.done, self.total)
