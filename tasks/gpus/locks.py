"""A lock a card on its host, which the processes that use the card inherit.

The lease in the catalog says who may use a card. The lock says whether a process still does: the
kernel keeps it until the last process that inherited it has ended, also where the holder was killed
and its child is not gone yet, or where two stores on one host know nothing of each other.
"""

import fcntl
import os
import re
from pathlib import Path

FOLDER = "TUTTI_GPU_LOCKS"
DEFAULT = Path("/tmp/tutti-gpus")
"""Not in TUTTI_HOME: two stores on one host share its cards. Not by TMPDIR, which jobs may change.
The files are empty."""


def take_lock(name: str) -> int | None:
    """The lock on `name` as a file descriptor, whose closing releases it; None if it is taken."""
    descriptor = _open(name)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(descriptor)
        return None
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor


def is_locked(name: str) -> bool:
    """Whether a process on this host uses the card."""
    if not _path(name).exists():
        return False
    descriptor = take_lock(name)
    if descriptor is None:
        return True
    os.close(descriptor)
    return False


def _path(name: str) -> Path:
    folder = Path(os.environ.get(FOLDER) or DEFAULT)
    return folder / f"{re.sub(r'[^A-Za-z0-9.-]', '_', name)}.lock"


def _open(name: str) -> int:
    """Read-only, which is enough for a lock: the file may be another user's."""
    path = _path(name)
    if not path.parent.is_dir():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.parent.chmod(0o1777)
    flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC
    try:
        return os.open(path, flags)
    except FileNotFoundError:
        return os.open(path, flags | os.O_CREAT, 0o644)
