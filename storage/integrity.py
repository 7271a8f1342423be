"""Checks that a part is unchanged since it was entered: by size and time first, then by checksum.

A reader checks each part's size and modification time. A part is read and hashed again only if its
modification time differs from when it was last verified. A file that was cut short or changed is
therefore refused before any query reads it, and an untouched store opens at once.
"""

import hashlib
from collections.abc import Iterable
from typing import Any

import sqlalchemy as sa

from tutti.storage import catalog as cat
from tutti.storage.errors import PartDamaged, StoreError
from tutti.storage.files import FileState, LocalFiles, files_of
from tutti.storage.home import Home

MISSING = "the part is missing"
MEND = "`tutti verify --repair` sets it aside; restore it from a copy if you have one"


def check_parts(catalog: cat.Catalog, parts: list[dict[str, Any]]) -> None:
    """Check parts (rows of the catalog). Raises PartDamaged for the first that is not whole."""
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
    """What is wrong with a part, by its state; empty when nothing is.

    Only a part with another time than when it was last seen whole is read.
    """
    if state is None:
        return MISSING
    if state.bytes != part["bytes"]:
        return _length(state.bytes, part)
    return "" if state.mtime_ns == part["mtime_ns"] else read_whole(home, part)[1]


def read_whole(home: Home, part: dict[str, Any]) -> tuple[bytes, str]:
    """A part's bytes, and what is wrong with them by their checksum; empty when nothing is."""
    try:
        data = files_of(home).get(part["path"])
    except FileNotFoundError:
        return b"", MISSING
    if len(data) != part["bytes"]:
        return data, _length(len(data), part)
    whole = hashlib.sha256(data).hexdigest() == part["sha256"]
    return data, "" if whole else "its checksum is not the one it was written with"


def _length(found: int, part: dict[str, Any]) -> str:
    return f"{found} bytes long, {part['bytes']} were written"


def _states(home: Home, parts: Iterable[dict[str, Any]]) -> dict[str, FileState | None]:
    files = files_of(home)
    if isinstance(files, LocalFiles):
        return {part["path"]: files.state(part["path"]) for part in parts}
    # One listing is cheaper than a request a part. Object stores keep checksums of their own, so
    # the time a part was uploaded is not asked for.
    return {state.path: FileState(state.path, state.bytes, None) for state in files.list("tables")}


def _remember(catalog: cat.Catalog, seen: list[dict[str, Any]]) -> None:
    """Enter the times of parts found whole, so that the next reader need not hash them."""
    change = sa.update(cat.parts).where(cat.parts.c.part_id == sa.bindparam("of"))
    try:
        with catalog.transaction() as connection:
            connection.execute(change.values(mtime_ns=sa.bindparam("seen_ns")), seen)
    except StoreError:
        return  # a store that cannot be written can still be read, only not faster next time
