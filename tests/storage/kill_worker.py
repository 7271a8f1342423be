"""Child program of test_kills: it writes, compacts or verifies until it is killed.

``python tests/storage/kill_worker.py FD`` imports the store once and then forks a child for each
socket that it gets over FD (an import costs more than a child's whole life). A child sends its pid,
reads one order (JSON: role, store, kill point) and sends its results, one line of JSON each.
"""

import ctypes
import errno
import json
import logging
import os
import signal
import socket
import stat
import sys
import threading
import time
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import count, islice
from pathlib import Path
from random import Random
from typing import Any

import duckdb
import pyarrow.parquet
import sqlalchemy as sa

from tutti import storage
from tutti.storage import catalog as cat
from tutti.storage.catalog import leasing as leases
from tutti.storage.maintenance import compact, verify

Say = Callable[..., None]
Order = dict[str, Any]

PR_SET_PDEATHSIG = 1
RETRY_S = 0.02
FOREVER = 10**6  # samples of a writer that ends only by being killed

TEMPORARY = ("temporary half written", "temporary written", "temporary synced")
PLACED = ("part renamed", "folder synced")
TRANSACTION = ("before a transaction", "transaction begun", "before its commit", "committed")
SET_ASIDE = ("replaced file about to move", "replaced file moved")
REMOVAL = ("replaced file about to go", "replaced file gone")
PRELOADED = (duckdb, pyarrow.parquet, storage.BufferedWriter, storage.connect)


# Where a child dies


class Trap:
    """Kills or stops this process when it reaches a point for the nth time.

    action: "kill" immediately; "soon", some milliseconds later, which may be inside a system call;
    "stop" with SIGSTOP.
    """

    def __init__(self, plan: Order, say: Say) -> None:
        self._point, self._left = plan.get("point"), plan.get("nth", 1)
        self._action, self._delay_s = plan.get("action", "kill"), plan.get("delay_s", 0.0)
        self._say, self._lock = say, threading.Lock()

    def aims_at(self, point: str) -> bool:
        """Return whether the next time at `point` is the last."""
        return point == self._point and self._left == 1

    def reach(self, point: str) -> None:
        """Report that this thread is at `point`."""
        if point != self._point:
            return
        with self._lock:
            self._left -= 1
            if self._left:
                return
            self._say(at=point)
            if self._action == "soon":
                threading.Thread(target=self._kill, daemon=True).start()
            else:
                os.kill(os.getpid(), signal.SIGSTOP if self._action == "stop" else signal.SIGKILL)

    def _kill(self) -> None:
        time.sleep(self._delay_s)
        os.kill(os.getpid(), signal.SIGKILL)


def set_points(trap: Trap, moods: Path, log_pages: int) -> None:
    """Wrap the functions of the commit protocol, so that each of its steps is a point.

    A file `moods`/full, `moods`/readonly or `moods`/unanswered simulates that state of disk or
    catalog for this process, for cases that this machine cannot produce.
    """
    real_fsync, real_unlink, real_replace = os.fsync, os.unlink, os.replace
    real_transaction, real_rows = cat.Catalog.transaction, cat.Catalog.rows
    committed, asked = count(), count()

    def fsync(fd: Any) -> None:
        if stat.S_ISDIR(os.fstat(fd).st_mode):
            trap.reach("part renamed")
            real_fsync(fd)
            trap.reach("folder synced")
            return
        if (moods / "full").exists():
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        if trap.aims_at("temporary half written"):
            os.ftruncate(fd, os.fstat(fd).st_size // 2)
        trap.reach("temporary half written")
        trap.reach("temporary written")
        real_fsync(fd)
        trap.reach("temporary synced")

    def unlink(path: Any, **options: Any) -> None:
        replaced = str(path).endswith(".parquet")
        if replaced:
            trap.reach("replaced file about to go")
        real_unlink(path, **options)
        if replaced:
            trap.reach("replaced file gone")

    def move(source: Any, target: Any, **options: Any) -> None:
        replaced = "/replaced/" in str(target)
        if replaced:
            trap.reach("replaced file about to move")
        real_replace(source, target, **options)
        if replaced:
            trap.reach("replaced file moved")

    @contextmanager
    def transaction(self: cat.Catalog) -> Iterator[sa.Connection]:
        trap.reach("before a transaction")
        with real_transaction(self) as connection, refusing(connection, moods / "readonly"):
            if connection.dialect.name == "sqlite":
                connection.exec_driver_sql(f"PRAGMA wal_autocheckpoint={log_pages}")
            trap.reach("transaction begun")
            yield connection
            trap.reach("before its commit")
        trap.reach("committed")
        if (moods / "unanswered").exists() and next(committed) % 2:
            raise storage.StoreError("what was committed is in, but the answer did not come")

    def rows(self: cat.Catalog, query: Any) -> list[dict[str, Any]]:
        if (moods / "unanswered").exists() and next(asked) % 2:
            raise storage.StoreError("the catalog cannot be asked")
        return real_rows(self, query)

    os.fsync, os.unlink = fsync, unlink
    os.replace = move  # type: ignore[assignment]
    cat.Catalog.transaction, cat.Catalog.rows = transaction, rows  # type: ignore[method-assign]


@contextmanager
def refusing(connection: sa.Connection, flag: Path) -> Iterator[None]:
    """Make the database itself refuse every change with its own error while `flag` exists."""
    if not flag.exists():
        yield
    elif connection.dialect.name == "postgresql":
        connection.exec_driver_sql("SET TRANSACTION READ ONLY")
        yield
    else:
        connection.exec_driver_sql("PRAGMA query_only=ON")
        try:
            yield
        finally:
            connection.exec_driver_sql("PRAGMA query_only=OFF")


# What is written: rows that tell from themselves whether they are whole


def attempt_rows(sweep: str, number: int, attempt: int) -> dict[str, list[Any]]:
    """Return an attempt's rows; its own row has the number of its messages and calls."""
    sample = f"{sweep}/{number}"
    attempt_id = f"{sample}/{attempt}"
    rng = Random(attempt_id)
    of = {"attempt_id": attempt_id, "cell_id": f"cell of {sweep}"}
    # Rows of messages name no sweep: it comes from their cell.
    messages = [
        of | {"position": i, "content": f"{attempt_id}#{i}#" + rng.randbytes(200).hex()}
        for i in range(rng.randint(1, 6))
    ]
    calls = [
        of | {"call_id": f"{attempt_id}#{i}", "sweep_id": sweep, "step": i}
        for i in range(rng.randint(0, 4))
    ]
    own = of | {"sweep_id": sweep, "sample_id": sample, "attempt": attempt, "status": "ok"}
    own |= {"steps": len(messages), "calls": len(calls)}
    return {"attempts": [own], "messages": messages, "calls": calls}


def enter(catalog: cat.Catalog, sweep: str, number: int, lease: storage.Lease) -> int:
    """Enter the next attempt at a sample, as a sweep does, and return its number."""
    states, sample = cat.attempt_states, f"{sweep}/{number}"
    latest = sa.select(sa.func.max(states.c.attempt)).where(states.c.sample_id == sample)
    with catalog.transaction() as connection:
        leases.check_lease(connection, lease)
        attempt = (connection.execute(latest).scalar() or 0) + 1
        row = {"attempt_id": f"{sample}/{attempt}", "cell_id": f"cell of {sweep}", "trial": 0}
        row |= {"sample_id": sample, "task_id": str(number), "attempt": attempt, "run_id": "r"}
        row |= {"state": "running", "lease_token": lease.token}
        connection.execute(sa.insert(states).values(row))
    return attempt


def ending(attempt_id: str, status: str) -> Callable[[sa.Connection], None]:
    """Return the change of an attempt's commit in the catalog: running becomes done, once."""
    states = cat.attempt_states
    mine = sa.update(states).where(states.c.attempt_id == attempt_id, states.c.state == "running")

    def complete(connection: sa.Connection) -> None:
        ended = connection.execute(mine.values(state="done", status=status)).rowcount
        assert ended == 1, f"{attempt_id} was committed before"

    return complete


def end_lost(catalog: cat.Catalog, sweep: str, lease: storage.Lease) -> None:
    """Record attempts that an earlier process left running as lost."""
    states = cat.attempt_states
    running = (states.c.cell_id == f"cell of {sweep}") & (states.c.state == "running")
    lost = catalog.rows(sa.select(states).where(running))
    rows = [
        {"attempt_id": row["attempt_id"], "sweep_id": sweep, "sample_id": row["sample_id"]}
        | {"attempt": row["attempt"], "status": "infra_error", "steps": 0, "calls": 0}
        for row in lost
    ]
    ends = [ending(row["attempt_id"], "infra_error") for row in lost]

    def complete(connection: sa.Connection) -> None:
        for end in ends:
            end(connection)

    if rows:
        storage.commit(catalog, {"attempts": rows}, complete, lease)


def insist(act: Callable[[], Any], say: Say) -> Any:
    """Call `act`; while the store refuses writes, report it and retry."""
    while True:
        try:
            return act()
        except (storage.LeaseLost, storage.RowRefused, storage.PartDamaged):
            raise
        except storage.StoreError as error:
            say(trouble=str(error))
            time.sleep(RETRY_S)


# Roles


def write_attempts(catalog: cat.Catalog, order: Order, say: Say) -> None:
    """Run the unfinished samples of a sweep under its lease, as a sweep's runner does."""
    sweep, rng = order["sweep"], Random(order["seed"])
    with took(catalog, sweep, order["lease_s"], say) as lease:
        say(holding=lease.token)
        insist(lambda: end_lost(catalog, sweep, lease), say)
        missing = _missing(catalog, sweep, order["until"])
        with storage.BufferedWriter(catalog, lease=lease, commit_s=0.05) as writer:
            while batch := list(islice(missing, rng.randint(1, 3))):
                ids = [_write_one(catalog, writer, sweep, n, lease, say) for n in batch]
                insist(writer.flush, say)
                say(finished=ids)


def _missing(catalog: cat.Catalog, sweep: str, until: int) -> Iterator[int]:
    states = cat.attempt_states
    done = (states.c.cell_id == f"cell of {sweep}") & (states.c.state == "done")
    query = sa.select(states.c.task_id).where(done & (states.c.status == "ok"))
    finished = {int(row["task_id"]) for row in catalog.rows(query)}
    return (number for number in range(until) if number not in finished)


def _write_one(
    catalog: cat.Catalog,
    writer: storage.BufferedWriter,
    sweep: str,
    number: int,
    lease: storage.Lease,
    say: Say,
) -> str:
    attempt = insist(lambda: enter(catalog, sweep, number, lease), say)
    attempt_id = f"{sweep}/{number}/{attempt}"
    writer.put(attempt_rows(sweep, number, attempt), ending(attempt_id, "ok"))
    return attempt_id


@contextmanager
def took(catalog: cat.Catalog, name: str, seconds: float, say: Say) -> Iterator[storage.Lease]:
    """Hold a lease as soon as it is free."""
    while True:
        try:
            holding = leases.held(catalog, name, seconds)
            lease = holding.__enter__()
            break
        except storage.StoreError as error:
            say(trouble=str(error))
            time.sleep(RETRY_S)
    try:
        yield lease
    finally:
        holding.__exit__(None, None, None)


def write_loose(catalog: cat.Catalog, order: Order, say: Say) -> None:
    """Write rows that belong to no group, as the gateway does: `add`, without a lease."""
    name, rng, given = order["name"], Random(order["seed"]), 0
    with storage.BufferedWriter(catalog, commit_s=0.02) as writer:
        while given < order["until"]:
            for _ in range(rng.randint(1, 8)):
                writer.add("calls", {"call_id": f"{name}/{given}", "role": "loose"})
                writer.add("gateway_events", {"program_id": f"{name}/{given}", "event": "loose"})
                given += 1
            insist(writer.flush, say)
            say(loose=[name, given])


def compact_on(catalog: cat.Catalog, order: Order, say: Say) -> None:
    """Compact repeatedly."""
    while True:
        done = insist(lambda: compact(catalog, grace_s=order["grace_s"]), say)
        if done.sources or done.files_removed:
            say(compacted=done.sources, removed=done.files_removed)
        time.sleep(RETRY_S)


def verify_on(catalog: cat.Catalog, order: Order, say: Say) -> None:
    """Verify and repair, once or repeatedly."""
    for _ in range(order["until"]):
        report = verify(catalog, repair=True, min_age_s=order["min_age_s"])
        say(verified=[[found.kind, found.path, found.reason] for found in report.findings])


ROLES: dict[str, Callable[[cat.Catalog, Order, Say], None]] = {
    "writer": write_attempts,
    "loose": write_loose,
    "compactor": compact_on,
    "verifier": verify_on,
}


# Processes


def serve(channel: socket.socket) -> None:
    """Run one child."""
    lock = threading.Lock()

    def say(**what: Any) -> None:
        with lock:
            channel.sendall(json.dumps(what).encode() + b"\n")

    say(pid=os.getpid())
    order = json.loads(channel.makefile().readline())
    try:
        obey(order, say)
    except storage.LeaseLost as error:
        say(refused=str(error))
    except Exception:
        say(failed=traceback.format_exc())
    else:
        say(ended=True)


def obey(order: Order, say: Say) -> None:
    """Execute the order."""
    if order["catalog_url"]:
        os.environ["TUTTI_CATALOG_URL"] = order["catalog_url"]
    set_points(Trap(order["trap"], say), Path(order["moods"]), order["log_pages"])
    with insist(lambda: storage.open_catalog(storage.Home(Path(order["root"]))), say) as catalog:
        say(ready=True)
        ROLES[order["role"]](catalog, order, say)


def main() -> None:
    """Fork a child for each socket received; end when the sending side is closed."""
    assert all(PRELOADED)
    logging.getLogger("psycopg").setLevel(logging.ERROR)  # it warns of each refused transaction
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # nobody waits: a dead child is gone at once
    requests = socket.socket(fileno=int(sys.argv[1]))
    while True:
        request, descriptors, _, _ = socket.recv_fds(requests, 1, 1)
        if not request:
            return
        if os.fork() == 0:
            ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
            requests.close()
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            serve(socket.socket(fileno=descriptors[0]))
            os._exit(0)
        os.close(descriptors[0])


if __name__ == "__main__":
    main()
