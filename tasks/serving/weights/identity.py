"""The content id of a checkpoint.

In: complete weights. Out: `checkpoint:` and 16 hex digits over the names and the SHA-256 of the
files that determine its answers. A hash comes from reading the file, from stored hashes, or from
the file's name in a Hub cache, so that a folder and a cache have one id.
"""

import contextlib
import hashlib
import json
import os
import re
import time
import uuid
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
"""Smaller files are read at each start, which takes a hundredth of a second."""
SHA256 = re.compile(r"^[0-9a-f]{64}$")
MAIN_FILES = (CONFIG, "tokenizer.json", "chat_template.jinja")
FOLDER = "weights"
SETTLED_S = 2.0
"""Coarser than the times of any file system in use (FAT: 2 s)."""


Book = dict[str, dict[str, object]]
"""By path, a large file's `sha256`, and its `key` then: size, inode, and the times of the last
change of content and of attributes, in ns."""


def weights_id(folder: Path) -> str:
    """Return the content id of a checkpoint's folder; hashes of large files are stored in the
    store's home. Raises WeightsError if the weights are missing or incomplete."""
    return id_of(read_weights(folder), current_home().root)


def id_of(weights: Weights, root: Path | None = None) -> str:
    """Return the content id of a checkpoint.

    It covers `model.safetensors`, config.json, tokenizer.json and chat_template.jinja; with several
    files of weights all of these and their index, and without tokenizer.json the other files of the
    vocabulary; for GGUF, which contains everything, only its files. Times, owners and the folder's
    place are not in it. Hashes of large files are stored under `root`, a store's home, in one JSON
    file per checkpoint. Raises WeightsError if a file changes while it is read.
    """
    checkpoint = hashlib.sha256(os.fsencode(weights.folder.resolve())).hexdigest()[:16]
    book = None if root is None else root / FOLDER / f"hashes-{checkpoint}.json"
    known, used = Book(), Book()
    if book is not None:
        # A file that is not one of ours is none: the checkpoint is then hashed again.
        with contextlib.suppress(FileNotFoundError, ValueError, TypeError):
            known = dict(json.loads(book.read_bytes()))
    named = [
        [file.name, _sha256_of(file, known, used)[:ID_HEX_DIGITS]]
        for file in _identifying_files(weights)
    ]
    if book is not None and used != known:  # `used` has no files that are gone
        book.parent.mkdir(parents=True, exist_ok=True)
        temporary = book.with_suffix(f".{uuid.uuid4().hex[:8]}.tmp")  # two starts may write at once
        try:
            temporary.write_text(json.dumps(used, indent=1, sort_keys=True))
            os.replace(temporary, book)
        finally:
            temporary.unlink(missing_ok=True)
    return f"checkpoint:{content_hash(named)}"


def _identifying_files(weights: Weights) -> list[Path]:
    """Return the files that determine a checkpoint's answers, in hashing order."""
    files = list(weights.files)
    if weights.form == "gguf":
        return files
    names = list(MAIN_FILES)
    if [file.name for file in files] != [SINGLE]:
        names.insert(0, INDEX)
        if not (weights.folder / "tokenizer.json").is_file():
            names += [*TOKENIZERS[1:], "merges.txt"]
    return files + [path for name in names if (path := weights.folder / name).is_file()]


def _sha256_of(file: Path, known: Book, used: Book) -> str:
    """Return 64 hex digits: by a Hub cache's name, from `known`, or by reading. An entry enters
    `used` if its key identifies the file's content: two changes within one tick of the clock leave
    the same times, so its last change must be a while ago."""
    real = file.resolve()
    is_blob = real.parent.name == "blobs" and real.parent.parent.name.startswith("models--")
    if file.is_symlink() and is_blob and SHA256.match(real.name):
        return real.name
    before, entry = _key_of(real), known.get(str(real))
    if not isinstance(entry, dict) or entry.get("key") != before or "sha256" not in entry:
        with opened(real) as data:
            digest = hashlib.file_digest(data, "sha256")
        if _key_of(real) != before:
            raise WeightsError(f"{file}: changed while it was read; wait until it is written")
        entry = {"key": before, "sha256": digest.hexdigest()}
        is_settled = time.time() - max(before[2:]) / 1e9 > SETTLED_S
        if before[0] < WORTH_KEEPING_BYTES or not is_settled:
            return digest.hexdigest()
    used[str(real)] = entry
    return str(entry["sha256"])


def _key_of(path: Path) -> list[int]:
    state = path.stat()
    return [state.st_size, state.st_ino, state.st_mtime_ns, state.st_ctime_ns]
