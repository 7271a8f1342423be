"""Histories of a store whose processes are killed: the processes, and the invariants.

In: a seed, a scenario, the number of kills. A history starts real processes (kill_worker), kills
them at random moments or at chosen steps of the protocol, reads the store meanwhile and in between,
and checks every read against the results announced as finished.
"""

import contextlib
import json
import os
import select
import signal
import socket
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any

import duckdb
import sqlalchemy as sa

from tests.storage import kill_worker as worker
from tutti import storage
from tutti.storage import catalog as cat
from tutti.storage.maintenance import compact, verify

PATIENCE_S = 120.0  # for what must happen; a busy machine may be slow
POINT_S = 1.0  # for a child to come to its trap; then it is killed where it is
SHORT_LEASE_S = 0.4
LEASE_S = 60.0
DISK_BYTES = 24 * 2**20  # SQLite's log grows to 4 MB before it is folded in
CUTS = 30  # a commit of a writer each
SWEEPS = ("sweep:1", "sweep:2")

Messages = list[dict[str, Any]]


class Child:
    """One process of kill_worker."""

    def __init__(self, channel: socket.socket, name: str, order: dict[str, Any]) -> None:
        self.name, self.order, self._channel = name, order, channel
        self.said: Messages = []
        self._rest = b""
        self._read(until=lambda: bool(self.said))
        self.pid = int(self.said[0]["pid"])
        self._handle = os.pidfd_open(self.pid)  # its id may be another's once it is dead
        self._over = False
        channel.sendall(json.dumps(order).encode() + b"\n")

    def signal(self, which: int) -> None:
        """Send a signal, unless the process is dead."""
        if not self._over:
            with contextlib.suppress(ProcessLookupError):
                signal.pidfd_send_signal(self._handle, which)

    @property
    def dead(self) -> bool:
        """Return whether the process has ended; all its output has been read by then."""
        return self._over

    @property
    def stopped(self) -> bool:
        """Return whether it was stopped by SIGSTOP."""
        try:
            stat = Path(f"/proc/{self.pid}/stat").read_text()
        except (FileNotFoundError, ProcessLookupError):
            return False
        return stat.rpartition(")")[2].split()[0] == "T"

    def hear(self, wait_s: float = 0.0) -> Messages:
        """Return its messages since the last call."""
        before = len(self.said)
        self._read(until=lambda: len(self.said) > before, timeout_s=wait_s)
        return self.said[before:]

    def has(self, what: str) -> list[Any]:
        """Return the values of all its messages of one kind."""
        return [message[what] for message in self.said if what in message]

    def _read(self, until: Callable[[], bool], timeout_s: float = PATIENCE_S) -> None:
        end = time.monotonic() + timeout_s
        while not getattr(self, "_over", False):
            ready, _, _ = select.select([self._channel], [], [], max(0.0, end - time.monotonic()))
            if not ready:
                return
            try:
                data = self._channel.recv(65536)
            except ConnectionResetError:  # killed before it had read its order
                data = b""
            *lines, self._rest = (self._rest + data).split(b"\n")
            self.said += [json.loads(line) for line in lines]
            if not data:
                self._end()
            elif until():
                end = 0.0  # what else is there is taken, but not waited for

    def _end(self) -> None:
        """Wait for the end of the process, whose socket is closed."""
        select.select([self._handle], [], [], PATIENCE_S)
        os.close(self._handle)
        self._channel.close()
        self._over = True


class Nursery:
    """Process that forks the children, all of which end with it."""

    def __init__(self, environment: dict[str, str]) -> None:
        ours, theirs = socket.socketpair()
        command = [sys.executable, worker.__file__, str(theirs.fileno())]
        self._process = subprocess.Popen(command, pass_fds=[theirs.fileno()], env=environment)
        theirs.close()
        self._requests = ours

    def fork(self, name: str, order: dict[str, Any]) -> Child:
        ours, theirs = socket.socketpair()
        socket.send_fds(self._requests, [b"f"], [theirs.fileno()])
        theirs.close()
        return Child(ours, name, order)

    def close(self) -> None:
        """End the process and thereby every child."""
        self._requests.close()
        self._process.kill()
        self._process.wait()


@dataclass
class Hand:
    """Deck of kill points; every card is drawn once before any is repeated, so that each step is
    hit."""

    rng: Random
    cards: list[dict[str, Any]]
    left: list[dict[str, Any]] = field(default_factory=list)

    def draw(self) -> dict[str, Any]:
        """Return the next kill point."""
        if not self.left:
            self.left = self.rng.sample(self.cards, len(self.cards))
        card = dict(self.left.pop())
        card["nth"] = self.rng.randint(card.pop("first", 1), card.get("nth", 1))
        card["delay_s"] = self.rng.uniform(0.0, card.get("delay_s", 0.0))
        return card


def cards(points: tuple[str, ...], nth: int) -> list[dict[str, Any]]:
    """Return cards for each point, for shortly after some, and for any moment."""
    at = [{"point": point, "nth": nth} for point in points]
    # A kill from beside lands within the system calls of what comes next.
    soon = [
        {"point": point, "nth": nth, "action": "soon", "delay_s": 0.004}
        for point in ("before its commit", "transaction begun", "part renamed")
    ]
    return at + soon + [{"delay_s": 0.3}] * 4


WRITER_CARDS = cards(worker.TEMPORARY + worker.PLACED + worker.TRANSACTION, nth=8)
LOOSE_CARDS = cards(worker.TEMPORARY + worker.PLACED + worker.TRANSACTION, nth=4)
MERGE_CARDS = cards(
    worker.TEMPORARY + worker.PLACED + worker.SET_ASIDE * 2 + worker.TRANSACTION, nth=6
)
REMOVE_CARDS = cards(worker.REMOVAL * 3 + worker.SET_ASIDE + worker.TRANSACTION, nth=6)
# The first transaction takes the lease; who sleeps before it holds none.
STOPS = [{"point": point, "nth": 3, "action": "stop"} for point in worker.PLACED] + [
    {"point": "before a transaction", "first": 2, "nth": 6, "action": "stop"},
    {"point": "transaction begun", "first": 2, "nth": 6, "action": "stop"},
    {"point": "temporary written", "nth": 3, "action": "stop"},
]

WHOLE = """
with m as (
    select attempt_id, count(*) as n, count(distinct position) as places, max(position) + 1 as top,
        bool_and(starts_with(content, attempt_id || '#' || position || '#')
            and sweep_id = regexp_extract(attempt_id, '[^/]+')) as fit
    from messages group by all
), c as (
    select attempt_id, count(*) as n, count(distinct call_id) as ids
    from calls where role is distinct from 'loose' group by all
)
select attempt_id, a.sample_id, a.status, a.steps, a.calls,
    coalesce(m.n, 0), coalesce(m.places, 0), coalesce(m.top, 0), coalesce(m.fit, true),
    coalesce(c.n, 0), coalesce(c.ids, 0)
from attempts a full join m using (attempt_id) full join c using (attempt_id)
"""
LOOSE = """
select split_part(id, '/', 1) as name, count(*), count(distinct id),
    max(split_part(id, '/', 2)::int) + 1
from (select {id} as id from {table} where {where}) group by all
"""
LOOSE_TABLES = (
    ("calls", "call_id", "role = 'loose'"),
    ("gateway_events", "program_id", "true"),
)
SUMMARY = """
select (select (count(*), sum(hash(attempt_id))) from attempts),
    (select (count(*), sum(hash(content))) from messages),
    (select (count(*), sum(hash(call_id))) from calls)
"""


@dataclass
class History:
    """A store, its processes, their announcements, and the results of readers."""

    home: storage.Home
    nursery: Nursery
    rng: Random
    moods: Path
    children: list[Child] = field(default_factory=list)
    announced: set[str] = field(default_factory=set)
    loose: Counter[str] = field(default_factory=Counter)
    seen: set[str] = field(default_factory=set)
    measured: set[str] = field(default_factory=set)
    reads: int = 0
    kills: Counter[str] = field(default_factory=Counter)
    refused: int = 0
    reader: duckdb.DuckDBPyConnection | None = None
    told: list[tuple[Any, ...]] = field(default_factory=list)
    hands: dict[str, Hand] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.moods.mkdir()
        with storage.open_catalog(self.home) as catalog:
            for name in SWEEPS:
                catalog.upsert(cat.sweeps, {"sweep_id": name, "name": name, "spec": "{}"})
                cell: dict[str, Any] = {
                    "cell_id": f"cell of {name}",
                    "sweep_id": name,
                    "benchmark": "",
                    "model": "",
                }
                cell |= {"policy": "", "concurrency": 1, "repeat": 0, "position": 0, "samples": 0}
                cell |= {"task_set_id": "", "index_id": "", "status": "running"}
                catalog.upsert(cat.cells, cell)

    # processes

    def start(self, role: str, trap: dict[str, Any] | None = None, **order: Any) -> Child:
        """Start a process; `trap` defines where it dies."""
        name = f"{role}{len(self.children)}"
        common: dict[str, Any] = {
            "role": role,
            "name": name,
            "root": str(self.home.root),
            "trap": trap or {},
        }
        common |= {"moods": str(self.moods), "seed": self.rng.getrandbits(32)}
        # SQLite folds its log in now and then; for some processes that is at every commit.
        common |= {"log_pages": self.rng.choice((1, 1000))}
        common |= {"catalog_url": os.environ.get("TUTTI_CATALOG_URL"), "until": worker.FOREVER}
        child = self.nursery.fork(name, common | order)
        self.children.append(child)
        return child

    def writer(self, sweep: str, trap: dict[str, Any] | None = None, **order: Any) -> Child:
        """Start a writer of `sweep`."""
        return self.start("writer", trap, sweep=sweep, **{"lease_s": LEASE_S} | order)

    def draw(self, name: str, of: list[dict[str, Any]]) -> dict[str, Any]:
        """Return where the next process of this kind dies."""
        return self.hands.setdefault(name, Hand(self.rng, of)).draw()

    def hear(self) -> None:
        """Process the messages of the processes."""
        for child in self.children:
            for message in child.hear():
                assert "failed" not in message, f"{child.name}: {message['failed']}"
                self.announced.update(message.get("finished", ()))
                if "loose" in message:
                    name, count = message["loose"]
                    self.loose[name] = count
                self.refused += "refused" in message
                kinds = {kind for kind, _, _ in message.get("verified", ())}
                assert kinds <= {"orphan"}, f"{child.name} found {message['verified']}"

    def until(self, happened: Callable[[], Any], what: str, reading: bool = False) -> None:
        """Wait until something happened; if `reading`, read meanwhile."""
        end = time.monotonic() + PATIENCE_S
        while not happened():
            assert time.monotonic() < end, f"waited {PATIENCE_S:.0f} s for: {what}; {self}"
            self.read() if reading else time.sleep(0.005)
            self.hear()

    def fall(self, victims: list[Child], reading: bool = True) -> None:
        """Let each of `victims` die by its trap, at a random moment, or when it is late."""
        timers = [self._timer(child) for child in victims]
        try:
            self.until(lambda: all(child.dead for child in victims), "deaths", reading)
        finally:
            for timer in timers:
                timer.cancel()
        for child in victims:
            self.count(child)
        self.read()

    def kill(self, child: Child, why: str) -> None:
        """Kill a process now."""
        child.signal(signal.SIGKILL)
        self.until(lambda: child.dead, f"the end of {child.name}")
        self.count(child, why)

    def _timer(self, child: Child) -> threading.Timer:
        trap = child.order["trap"]
        delay_s = POINT_S if "point" in trap else trap["delay_s"]
        timer = threading.Timer(delay_s, child.signal, [signal.SIGKILL])
        timer.start()
        return timer

    def count(self, child: Child, why: str = "") -> None:
        """Record a death caused by the history."""
        ended = [key for key in ("ended", "refused") if child.has(key)]
        assert not ended, f"{child.name} was not killed, it {ended[0]}"
        trap = child.order["trap"]
        where = (child.has("at") or ["any moment"])[0]
        if trap.get("action") == "soon" and child.has("at"):
            where = f"soon after: {where}"
        self.kills[f"{child.order['role']}, {why or where}"] += 1

    def __str__(self) -> str:
        last = [
            (child.name, child.dead, child.order["trap"], child.said[-2:])
            for child in self.children
        ]
        return f"{sum(self.kills.values())} kills, {self.reads} reads; {last[-4:]}"

    # reads

    def read(self) -> None:
        """Read the store with a new connection and check all of it."""
        self.hear()
        announced, loose = set(self.announced), dict(self.loose)
        connection = storage.connect(self.home)
        try:
            rows = connection.execute(WHOLE).fetchall()
            self._check_loose(connection, loose)
        finally:
            connection.close()
        self.reads += 1
        self._check_attempts(rows, announced)
        if self.reader is not None:
            assert self.reader.execute(SUMMARY).fetchall() == self.told, "an old reader's answer"

    def _check_attempts(self, rows: list[tuple[Any, ...]], announced: set[str]) -> None:
        partial = [
            row
            for row in rows
            if row[1] is None or row[5:] != (row[3],) * 3 + (True,) + (row[4],) * 2
        ]
        assert not partial, f"attempts with other rows than they had: {partial[:3]}"
        doubled = [name for name, n in Counter(row[0] for row in rows).items() if n > 1]
        assert not doubled, f"attempts seen twice: {doubled[:3]}"
        done = Counter(row[1] for row in rows if row[2] == "ok")
        again = [name for name, n in done.items() if n > 1]
        assert not again, f"samples measured twice: {again[:3]}"
        visible = {row[0] for row in rows}
        assert announced <= visible, f"finished and lost: {sorted(announced - visible)[:3]}"
        assert self.seen <= visible, f"seen before, gone now: {sorted(self.seen - visible)[:3]}"
        self.seen, self.measured = visible, set(done)

    def _check_loose(
        self, connection: duckdb.DuckDBPyConnection, announced: dict[str, int]
    ) -> None:
        for table, key, where in LOOSE_TABLES:
            sql = LOOSE.format(id=key, table=table, where=where)
            found = {name: counts for name, *counts in connection.execute(sql).fetchall()}
            for name, (rows, distinct, top) in found.items():
                assert rows == distinct == top, f"{table} of {name}: {rows}, {distinct}, {top}"
            for name, count in announced.items():
                got = found.get(name, [0])[0]
                assert got >= count, f"{table} of {name}: {got} of {count} announced"

    def keep_reading(self) -> None:
        """Open a reader that stays open and is used by every later read."""
        self.stop_reading()
        self.reader = storage.connect(self.home)
        self.told = self.reader.execute(SUMMARY).fetchall()

    def stop_reading(self) -> None:
        """Close the reader."""
        if self.reader is not None:
            self.reader.close()
        self.reader = None

    # the end

    def finish(self) -> None:
        """Verify, repair, let the writers complete everything, and compact: every sample must be
        stored once."""
        self.stop_reading()
        assert all(child.dead for child in self.children)
        with storage.open_catalog(self.home) as catalog:
            report = verify(catalog, repair=True, min_age_s=0)
            assert {found.kind for found in report.findings} <= {"orphan"}, report.findings
            self.read()
            self._states_agree(catalog)
            wanted = self._complete()
            assert {state for _, state in self._states_agree(catalog)} == {"done"}
            assert wanted <= self.measured, f"not done: {sorted(wanted - self.measured)[:3]}"
            compact(catalog, grace_s=0)
            self.read()
            assert verify(catalog, min_age_s=0).findings == []

    def _complete(self) -> set[str]:
        """Run both sweeps to their end, a little beyond their current state, and return their
        samples."""
        until = dict.fromkeys(SWEEPS, 3)
        for sweep, number, _ in (name.split("/") for name in self.seen):
            until[sweep] = max(until[sweep], int(number) + 3)
        writers = [self.writer(sweep, until=until[sweep]) for sweep in SWEEPS]
        self.until(lambda: all(child.dead for child in writers), "the rest")
        assert all(child.has("ended") for child in writers)
        self.read()
        return {f"{sweep}/{number}" for sweep in SWEEPS for number in range(until[sweep])}

    def _states_agree(self, catalog: cat.Catalog) -> list[tuple[str, str]]:
        """Check that an attempt is done if and only if its rows are stored."""
        states = cat.attempt_states
        query = sa.select(states.c.attempt_id, states.c.state)
        rows = [(row["attempt_id"], row["state"]) for row in catalog.rows(query)]
        done = {attempt for attempt, state in rows if state == "done"}
        assert done == self.seen, f"states and rows differ: {sorted(done ^ self.seen)[:3]}"
        return rows

    def end(self) -> None:
        """End every process of this history in all cases."""
        self.stop_reading()
        for child in self.children:
            child.signal(signal.SIGKILL)
        for child in self.children:
            while not child.dead:
                child.hear(wait_s=PATIENCE_S)
