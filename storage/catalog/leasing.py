"""Leases with fencing tokens: which process, on any host, may work on a name and commit for it.

A lease that is not renewed expires, and another process takes it with a higher token. A commit
under a lease checks the token in its own transaction, so that a worker that was presumed dead
cannot commit late work. A clock that jumps can end a lease early, but never lets two commit.
"""

import json
import os
import socket
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from pathlib import Path

import sqlalchemy as sa

from tutti.storage.base.clock import aware
from tutti.storage.base.errors import LeaseLost, StoreBusy, StoreError
from tutti.storage.base.home import Home
from tutti.storage.catalog.boundary import store_boundary
from tutti.storage.catalog.store import Catalog, database_now
from tutti.storage.catalog.tables import leases

LEASE_S = 60.0  # how long a vanished host blocks others
RENEWALS = 4  # renewals per lease period: a slow disk may cost some of them


@dataclass(frozen=True)
class Lease:
    """The right to work on `name` until it expires."""

    name: str
    token: int


@dataclass(frozen=True)
class Holder:
    """The process that holds a lease."""

    host: str
    pid: int
    here: bool
    """Whether it runs on this machine since its last boot, so that its pid can be checked."""
    since: datetime | None = None
    note: Mapping[str, str] = field(default_factory=dict)
    """What the holder said of itself."""
    is_late: bool = field(default=False, compare=False)
    """Whether the lease has run out, so that another process may take it."""


_OURS: set[tuple[Home, Lease]] = set()


def acquire(
    catalog: Catalog, name: str, seconds: float = LEASE_S, note: Mapping[str, str] | None = None
) -> Lease:
    """Take the lease on `name`. Raises StoreBusy with its holder and the remaining time.

    `note` is what `holder_of` tells of this holder. A lease of a process on this host that has
    ended is taken immediately.
    """
    ours: list[tuple[Home, Lease]] = []
    try:
        with catalog.transaction() as connection:
            holder = _me() | ({"note": dict(note)} if note else {})
            lease = _acquire(connection, catalog.home, name, seconds, json.dumps(holder))
            # Before the commit: another thread may see the lease as soon as it is committed.
            ours.append((catalog.home, lease))
            _OURS.update(ours)
        return lease
    except BaseException:
        _OURS.difference_update(ours)
        raise


def _acquire(
    connection: sa.Connection, home: Home, name: str, seconds: float, holder: str
) -> Lease:
    at = database_now(connection)
    query = sa.select(leases).where(leases.c.name == name).with_for_update()
    found = connection.execute(query).mappings().first()
    values = {"holder": holder, "acquired_at": at}
    values["expires_at"] = at + timedelta(seconds=seconds)
    if found is None:
        try:
            row = values | {"name": name, "token": 1}
            connection.execute(sa.insert(leases).values(row))
        except sa.exc.IntegrityError:  # another host was slightly faster
            raise StoreBusy(f"{name}: another process has just taken it") from None
        return Lease(name, 1)
    left_s = (aware(found["expires_at"]) - at).total_seconds()
    held_by = found["holder"]
    if held_by and left_s > 0 and not _gone(held_by, home, Lease(name, found["token"])):
        raise StoreBusy(_busy(name, held_by, left_s))
    token = found["token"] + 1
    mine = sa.update(leases).where(leases.c.name == name, leases.c.token == found["token"])
    if connection.execute(mine.values(values | {"token": token})).rowcount != 1:
        raise StoreBusy(f"{name}: another process has just taken it")
    return Lease(name, token)


def renew(catalog: Catalog, lease: Lease, seconds: float = LEASE_S) -> None:
    """Extend the lease to `seconds` from now. Raises LeaseLost if another process has taken it."""
    with catalog.transaction() as connection:
        until = database_now(connection) + timedelta(seconds=seconds)
        if connection.execute(_ours(lease).values(expires_at=until)).rowcount != 1:
            raise _lost(lease)


def release(catalog: Catalog, lease: Lease) -> None:
    """Release the lease; one that another process has taken is left alone."""
    _OURS.discard((catalog.home, lease))
    with catalog.transaction() as connection:
        connection.execute(_ours(lease).values(holder=""))


def check_lease(connection: sa.Connection, lease: Lease) -> None:
    """Make the caller's transaction depend on the lease. Raises LeaseLost. An expired lease that
    nobody took is still valid: its token is the highest."""
    query = sa.select(leases.c.token).where(leases.c.name == lease.name).with_for_update()
    if connection.execute(query).scalar() != lease.token:
        raise _lost(lease)


@dataclass(frozen=True)
class Renewals:
    """What the thread that renews a lease calls: after each renewal, and once it is lost."""

    renewed: Callable[[], None] = lambda: None
    lost: Callable[[LeaseLost], None] = lambda error: None


@contextmanager
def held(
    catalog: Catalog,
    name: str,
    seconds: float = LEASE_S,
    note: Mapping[str, str] | None = None,
    renewals: Renewals = Renewals(),
) -> Iterator[Lease]:
    """Hold the lease on `name` during the block, renewed by a thread. Raises StoreBusy."""
    lease = acquire(catalog, name, seconds, note)
    over = threading.Event()

    def keep() -> None:
        while not over.wait(seconds / RENEWALS):
            try:
                renew(catalog, lease, seconds)
            except LeaseLost as error:
                renewals.lost(error)
                return  # the next commit under it raises this
            except StoreError:
                continue  # busy or full: there are more renewals per lease period
            renewals.renewed()

    thread = threading.Thread(target=keep, name=f"lease {name}", daemon=True)
    thread.start()
    try:
        yield lease
    finally:
        over.set()
        thread.join()
        release(catalog, lease)


def holder_of(catalog: Catalog, name: str) -> Holder | None:
    """The holder of the lease on `name`; None if there is none, or its process has ended.

    Nothing is known of a process on another host, or before the last boot, but that it renews its
    lease: it has ended when the lease has run out. A live process of this host holds the lease
    until another one takes it.
    """
    with store_boundary(catalog.home), catalog.engine.connect() as connection:
        at = database_now(connection)
        query = sa.select(leases).where(leases.c.name == name)
        found = connection.execute(query).mappings().first()
    if found is None or not found["holder"]:
        return None
    if _gone(found["holder"], catalog.home, Lease(name, found["token"])):
        return None
    who = json.loads(found["holder"])
    is_here, is_late = who["host"] == this_host(), aware(found["expires_at"]) <= at
    if is_late and not is_here:
        return None
    return Holder(
        host=who["host"].split("/")[0],
        pid=who["pid"],
        here=is_here,
        since=aware(found["acquired_at"]),
        note=who.get("note", {}),
        is_late=is_late,
    )


def start_ticks(pid: int) -> int | None:
    """When process `pid` started, in clock ticks since boot; None if it does not exist."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return None
    fields = stat.rpartition(")")[2].split()
    return None if fields[0] == "Z" else int(fields[19])  # a zombie counts as ended


def this_host() -> str:
    """This machine's name and boot id: process ids are meaningful only within these."""
    boot = Path("/proc/sys/kernel/random/boot_id")
    return f"{socket.gethostname()}/{boot.read_text().strip()[:8] if boot.exists() else ''}"


def _me() -> dict[str, object]:
    pid = os.getpid()
    return {"host": this_host(), "pid": pid, "start_ticks": start_ticks(pid)}


def _gone(holder: str, home: Home, lease: Lease) -> bool:
    who = json.loads(holder)
    if who["host"] != this_host():
        return False  # processes of another host cannot be checked
    if who["pid"] == os.getpid() and (home, lease) not in _OURS:
        return True  # taken for this process or an earlier one with its pid, but never confirmed
    return bool(start_ticks(who["pid"]) != who["start_ticks"])


def _busy(name: str, holder: str, left_s: float) -> str:
    who = json.loads(holder)
    return (
        f"{name} is held by process {who['pid']} on {who['host'].split('/')[0]}; wait for it to "
        f"end (if it is gone for good, its lease runs out in {left_s:.0f} s)"
    )


def _ours(lease: Lease) -> sa.Update:
    return sa.update(leases).where(leases.c.name == lease.name, leases.c.token == lease.token)


def _lost(lease: Lease) -> LeaseLost:
    return LeaseLost(
        f"{lease.name}: another process took it over while this one did not answer; nothing more "
        "can be committed here. What was committed before is safe."
    )
