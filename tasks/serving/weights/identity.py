"""The content id of a checkpoint.

In: weights whose files are all there. Out: `checkpoint:` and 16 hex digits over the names and the
SHA-256 of the files that determine its answers. A file's hash is the same however it is found: by
reading it, from the hash book, or from its name in a Hub cache, where the blob of a large file is
named by its SHA-256. So a folder and a cache with the same files have the same id. A cache's name
is believed: whoever damages a blob without changing its length is not noticed here.
"""

import hashlib
import json
import os
import re
import time
import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from tutti.storage import content_hash, current_home
from tutti.tasks.serving.errors import WeightsError
from tutti.tasks.serving.weights.reading import (
    CONFIG,
    INDEX,
    SINGLE,
    TOKENIZERS,
    Weights,
    read_weights,
)
from tutti.tasks.serving.weights.tensor_files import opened

ID_HEX_DIGITS = len(content_hash(b""))
WORTH_KEEPING_BYTES = 16 << 20
"""Smaller files are read at each start: a hash book would save a hundredth of a second."""
SHA256 = re.compile(r"^[0-9a-f]{64}$")
MAIN_FILES = (CONFIG, "tokenizer.json", "chat_template.jinja")
FOLDER = "weights"
"""Of the hash books, in a store's home."""
SETTLED_S = 2.0
"""Coarser than the times of any file system in use (FAT: 2 s)."""
Key = tuple[int, int, int, int]
"""Size, inode, and the times of the last change of content and of attributes, in ns."""


@dataclass(frozen=True)
class KnownHash:
    """The hash of a file when its key was this."""

    key: Key
    sha256: str


class HashBook:
    """Hashes of large files, kept under `root` (a store's `home.root`) from one start to the next.

    A file is the same if its path, size, inode and times are; a hash is only kept for a file whose
    last change was a while ago, since two changes within one tick of the clock leave the same
    times. One JSON file a checkpoint, replaced whole.
    """

    def __init__(self, root: Path) -> None:
        self.folder = root / FOLDER

    def read(self, checkpoint: Path) -> dict[str, KnownHash]:
        """The hashes of a checkpoint's files by path. A file that is not one of ours is none: the
        checkpoint is then hashed again."""
        try:
            rows = json.loads(self._file(checkpoint).read_bytes())
            return {
                path: KnownHash(_key(row["key"]), str(row["sha256"])) for path, row in rows.items()
            }
        except (FileNotFoundError, ValueError, TypeError, KeyError, AttributeError):
            return {}

    def write(self, checkpoint: Path, hashes: Mapping[str, KnownHash]) -> None:
        """Keep the hashes of a checkpoint's files, in place of those kept before."""
        file = self._file(checkpoint)
        file.parent.mkdir(parents=True, exist_ok=True)
        rows = {path: {"key": each.key, "sha256": each.sha256} for path, each in hashes.items()}
        temporary = file.with_suffix(f".{uuid.uuid4().hex[:8]}.tmp")  # two starts may write at once
        try:
            temporary.write_text(json.dumps(rows, indent=1, sort_keys=True))
            os.replace(temporary, file)
        finally:
            temporary.unlink(missing_ok=True)

    def _file(self, checkpoint: Path) -> Path:
        name = hashlib.sha256(os.fsencode(checkpoint.resolve())).hexdigest()[:16]
        return self.folder / f"hashes-{name}.json"


def weights_id(folder: Path) -> str:
    """The content id of a checkpoint's folder; hashes of large files are kept in the store's home.

    Raises WeightsError where the weights are missing or not whole.
    """
    return id_of(read_weights(folder), HashBook(current_home().root))


def id_of(weights: Weights, book: HashBook | None = None) -> str:
    """The content id of a checkpoint.

    Over `model.safetensors`, config.json, tokenizer.json and chat_template.jinja; with several
    files of weights over all of these and their index, and without tokenizer.json over the other
    files of the vocabulary; for GGUF, which holds everything, over its files alone. Times, owners
    and the folder's place are not in it. `book` keeps the hashes of large files. Raises
    WeightsError where a file changes while it is read.
    """
    known = book.read(weights.folder) if book else {}
    used: dict[str, KnownHash] = {}
    named = [
        [file.name, _sha256_of(file, known, used)[:ID_HEX_DIGITS]]
        for file in _identifying_files(weights)
    ]
    if book is not None and used != known:  # `used` has no files that are gone
        book.write(weights.folder, used)
    return f"checkpoint:{content_hash(named)}"


def _identifying_files(weights: Weights) -> list[Path]:
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


def _sha256_of(file: Path, known: Mapping[str, KnownHash], used: dict[str, KnownHash]) -> str:
    """64 hex digits: by a Hub cache's name, from `known`, or by reading. What is worth keeping
    enters `used`."""
    real = file.resolve()
    is_blob = real.parent.name == "blobs" and real.parent.parent.name.startswith("models--")
    if file.is_symlink() and is_blob and SHA256.match(real.name):
        return real.name
    before, entry = _key_of(real), known.get(str(real))
    if entry is None or entry.key != before:
        with opened(real) as data:
            digest = hashlib.file_digest(data, "sha256")
        if _key_of(real) != before:
            raise WeightsError(f"{file}: changed while it was read; wait until it is written")
        entry = KnownHash(before, digest.hexdigest())
        is_settled = time.time() - max(before[2:]) / 1e9 > SETTLED_S
        if before[0] < WORTH_KEEPING_BYTES or not is_settled:
            return entry.sha256
    used[str(real)] = entry
    return entry.sha256


def _key_of(path: Path) -> Key:
    """What tells whether a file has changed."""
    found = path.stat()
    return (found.st_size, found.st_ino, found.st_mtime_ns, found.st_ctime_ns)


def _key(row: list[int]) -> Key:
    size, inode, content_ns, attributes_ns = map(int, row)
    return (size, inode, content_ns, attributes_ns)
