"""Before parts are read: the lock between readers and the compactor, and the check of the parts.

An open connection holds ``readers.lock``, shared; the compactor moves files only while it holds it
alone. The kernel releases the locks of a killed process. A store at a URL has no locks: its
replaced parts stay until their grace is over. A part is hashed again only if its modification time
differs from the last verification, so that an untouched store opens at once.
"""

import fcntl
import hashlib
import os
import time
import weakref
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

import sqlalchemy as sa

from tutti.storage import catalog as cat
from tutti.storage.base.errors import PartDamaged, StoreError
from tutti.storage.base.home import FileState, Home, LocalFiles, files_of

LOCK = "readers.lock"
RETRY_S = 0.01


class ReaderLock:
    """A share of the store's lock, held until `release`, or until this object is collected."""

    def __init__(self, home: Home) -> None:
        descriptor = _opened(home)
        if descriptor is not None:
            fcntl.flock(descriptor, fcntl.LOCK_SH)
        self._end = weakref.finalize(self, _close, descriptor)

    def release(self) -> None:
        """Release the share; a second call does nothing."""
        self._end()

    def release_with(self, holder: object) -> None:
        """Hold the share until `holder` is collected."""
        weakref.finalize(holder, self.release)

    def __enter__(self) -> "ReaderLock":
        return self

    def __exit__(self, *_: object) -> None:
        self.release()


@contextmanager
def without_readers(home: Home, wait_s: float) -> Iterator[bool]:
    """Hold the store's lock exclusively; yield False if readers still held it after `wait_s`
    seconds. Readers that start meanwhile wait."""
    descriptor = _opened(home)
    if descriptor is None:
        yield False
        return
    try:
        yield _alone(descriptor, time.monotonic() + wait_s)
    finally:
        _close(descriptor)


def _alone(descriptor: int, until: float) -> bool:
    while True:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() > until:
                return False
            time.sleep(RETRY_S)
        else:
            return True


def _opened(home: Home) -> int | None:
    """Open the lock's file; None for a store at a URL, and for one that cannot have it."""
    if not isinstance(files_of(home), LocalFiles):
        return None
    for flags in (os.O_RDWR | os.O_CREAT, os.O_RDONLY):
        with suppress(OSError):
            return os.open(home.root / LOCK, flags | os.O_CLOEXEC, 0o666)
    return None


def _close(descriptor: int | None) -> None:
    if descriptor is not None:
        os.close(descriptor)


MISSING = "the part is missing"
REPLACED_FOLDER = "replaced"
"""Where files of replaced parts wait, under their path in the store, for their grace to end."""
MEND = "`tutti verify --repair` sets it aside; restore it from a copy if you have one"


def check_parts(catalog: cat.Catalog, parts: list[dict[str, Any]]) -> None:
    """Check parts (rows of the catalog). Raises PartDamaged for the first damaged one."""
    states = _states(catalog.home, parts)
    seen: list[dict[str, Any]] = []
    for part in parts:
        state = states.get(part["path"])
        if problem := damage(catalog.home, part, state):
            raise PartDamaged(f"{files_of(catalog.home).url(part['path'])}: {problem}; {MEND}")
        if state is not None and state.mtime_ns != part["mtime_ns"]:
            seen.append({"of": part["part_id"], "seen_ns": state.mtime_ns})
    if seen:
        _remember(catalog, seen)


def damage(home: Home, part: dict[str, Any], state: FileState | None) -> str:
    """Return the damage of a part according to its state; empty if it is intact. The part is read
    only if its modification time differs from the last verification."""
    if state is None:
        return MISSING
    if state.bytes != part["bytes"]:
        return _length(state.bytes, part)
    return "" if state.mtime_ns == part["mtime_ns"] else read_whole(home, part)[1]


def read_whole(home: Home, part: dict[str, Any]) -> tuple[bytes, str]:
    """Return a part's bytes, and its damage according to the checksum; empty if it is intact."""
    data = _bytes(home, part["path"])
    if data is None:
        return b"", MISSING
    if len(data) != part["bytes"]:
        return data, _length(len(data), part)
    whole = hashlib.sha256(data).hexdigest() == part["sha256"]
    return data, "" if whole else "its checksum is not the one it was written with"


def _bytes(home: Home, path: str) -> bytes | None:
    """Return a part's bytes, also if a compaction replaced it since its entry was read."""
    for place in (path, f"{REPLACED_FOLDER}/{path}"):
        with suppress(FileNotFoundError):
            return files_of(home).get(place)
    return None


def _length(found: int, part: dict[str, Any]) -> str:
    return f"{found} bytes long, {part['bytes']} were written"


def _states(home: Home, parts: Iterable[dict[str, Any]]) -> dict[str, FileState | None]:
    files = files_of(home)
    if isinstance(files, LocalFiles):
        return {part["path"]: files.state(part["path"]) for part in parts}
    # One listing is cheaper than one request per part. Object stores verify checksums themselves,
    # so the upload time is ignored.
    return {state.path: FileState(state.path, state.bytes, None) for state in files.list("tables")}


def _remember(catalog: cat.Catalog, seen: list[dict[str, Any]]) -> None:
    """Store the times of intact parts, so that the next reader need not hash them."""
    change = sa.update(cat.parts).where(cat.parts.c.part_id == sa.bindparam("of"))
    try:
        with catalog.transaction() as connection:
            connection.execute(change.values(mtime_ns=sa.bindparam("seen_ns")), seen)
    except StoreError:
        return  # a read-only store can still be read, only without this speed-up
