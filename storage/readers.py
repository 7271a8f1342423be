"""The lock between readers and the compactor, which moves replaced parts out of ``tables/``.

A connection resolves the paths of its parts once. While it is open it holds ``readers.lock`` in the
store, shared with other readers. The compactor moves files only while it holds the lock alone, so
that no open connection loses a part. The kernel releases the locks of a killed process.

A store at a URL has no locks and no rename: its replaced parts stay until their grace is over.
"""

import fcntl
import os
import time
import weakref
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from tutti.storage.files import LocalFiles, files_of
from tutti.storage.home import Home

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
        """Give the share back; a second call does nothing."""
        self._end()

    def release_with(self, holder: object) -> None:
        """Keep the share until `holder` is collected."""
        weakref.finalize(holder, self.release)

    def __enter__(self) -> "ReaderLock":
        return self

    def __exit__(self, *_: object) -> None:
        self.release()


@contextmanager
def without_readers(home: Home, wait_s: float) -> Iterator[bool]:
    """Hold the store's lock alone; yields False if readers still held it after `wait_s` seconds.

    Readers that start meanwhile wait.
    """
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
    """The lock's file; None for a store at a URL, and for one that cannot have it."""
    if not isinstance(files_of(home), LocalFiles):
        return None
    for flags in (os.O_RDWR | os.O_CREAT, os.O_RDONLY):
        with suppress(OSError):
            return os.open(home.root / LOCK, flags | os.O_CLOEXEC, 0o666)
    return None


def _close(descriptor: int | None) -> None:
    if descriptor is not None:
        os.close(descriptor)
