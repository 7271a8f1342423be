"""Content hashes of large files, kept from one start to the next.

In: a folder of the store. Out: the hash of a file that has not changed since it was read. A file is
the same if its path, size, inode and times are; a hash is only kept for a file whose last change
was a while ago, since two changes within one tick of the clock leave the same times. One JSON file
a checkpoint, replaced whole.
"""

import hashlib
import json
import os
import time
import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

FOLDER = "weights"
SETTLED_S = 2.0
"""Coarser than the times of any file system in use (FAT: 2 s)."""
Key = tuple[int, int, int, int]
"""Size, inode, and the times of the last change of content and of attributes, in ns."""


@dataclass(frozen=True)
class KnownHash:
    """The hash of a file when its key was this."""

    key: Key
    sha256: str


def key_of(path: Path) -> Key:
    """What tells whether a file has changed."""
    found = path.stat()
    return (found.st_size, found.st_ino, found.st_mtime_ns, found.st_ctime_ns)


def is_settled(key: Key) -> bool:
    """Whether the file changed long enough ago for its times to tell a later change."""
    return time.time() - max(key[2:]) / 1e9 > SETTLED_S


class HashBook:
    """The hashes kept under `root` (a store's `home.root`)."""

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


def _key(row: list[int]) -> Key:
    size, inode, content_ns, attributes_ns = map(int, row)
    return (size, inode, content_ns, attributes_ns)
