"""The teacher's work folder: paid answers, faults, products and batches, in one SQLite file.

Every write is one transaction that SQLite has fsynced (`synchronous=FULL`) when the call returns.
Only one process may use it, because a second one would pay for the same calls.
"""

import fcntl
import json
import sqlite3
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal

from tutti.errors import UsageError
from tutti.tasks.synthesis.teacher.faults import Fault

FILE, LOCK = "teacher.sqlite", "teacher.lock"
TABLES = """
create table if not exists answers
    (key text primary key, question text, request text, answer text, at text);
create table if not exists faults
    (id text primary key, question text, kind text, detail text, remedy text, at text);
create table if not exists products
    (run text, step text, row text, status text, product text, reason text, at text,
     primary key (run, step, row));
create table if not exists modes (model text primary key, mode text, reason text);
create table if not exists batches (key text primary key, batch_id text, state text, at text);
"""
Status = Literal["kept", "rejected"]


@dataclass(frozen=True)
class Product:
    """A product of a step."""

    status: Status
    value: Any
    reason: str


class TeacherStore:
    """The store of one work folder; `open_store` opens it."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._sql = connection

    def answer(self, key: str) -> dict[str, Any] | None:
        """Return the answer paid for under `key`."""
        row = self._sql.execute("select answer from answers where key = ?", (key,)).fetchone()
        return None if row is None else dict(json.loads(row[0]))

    def keep_answer(self, key: str, question: str, request: Any, answer: Any) -> None:
        """Store an answer; it is on disk when this returns."""
        values = (key, question, json.dumps(request), json.dumps(answer), _now())
        self._sql.execute("insert or ignore into answers values (?, ?, ?, ?, ?)", values)

    def note_fault(self, question: str, fault: Fault, remedy: str, once: str = "") -> None:
        """Store a fault. `once` identifies one that a later run meets again in a stored answer."""
        values = (once or uuid.uuid4().hex, question, fault.kind, fault.detail, remedy, _now())
        self._sql.execute("insert or ignore into faults values (?, ?, ?, ?, ?, ?)", values)

    def product(self, run: str, step: str, row: str) -> Product | None:
        """Return a product that an earlier run finished."""
        found = self._sql.execute(
            "select status, product, reason from products where run = ? and step = ? and row = ?",
            (run, step, row),
        ).fetchone()
        return None if found is None else Product(found[0], json.loads(found[1]), found[2])

    def keep_product(self, run: str, step: str, row: str, product: Product) -> None:
        """Store a product, accepted or rejected."""
        value = json.dumps(product.value)
        values = (run, step, row, product.status, value, product.reason, _now())
        self._sql.execute("insert or replace into products values (?, ?, ?, ?, ?, ?, ?)", values)

    def rejects(self, run: str) -> list[tuple[str, str, str]]:
        """Return (step, row, reason) of the rejected products of a run."""
        rows = self._sql.execute(
            "select step, row, reason from products where run = ? and status = 'rejected' "
            "order by rowid",
            (run,),
        )
        return [(str(step), str(row), str(reason)) for step, row, reason in rows]

    def mode(self, model: str) -> str | None:
        """Return the form of answer that `model` supports, if known."""
        row = self._sql.execute("select mode from modes where model = ?", (model,)).fetchone()
        return None if row is None else str(row[0])

    def keep_mode(self, model: str, mode: str, reason: str) -> None:
        """Store the form of answer that `model` supports, and why no better one works."""
        self._sql.execute("insert or replace into modes values (?, ?, ?)", (model, mode, reason))

    def batch(self, key: str) -> tuple[str, str] | None:
        """Return (id, state) of the batch of some requests; the id is empty during submission."""
        row = self._sql.execute(
            "select batch_id, state from batches where key = ?", (key,)
        ).fetchone()
        return None if row is None else (str(row[0]), str(row[1]))

    def keep_batch(self, key: str, batch_id: str, state: str) -> None:
        """Store a batch's id and state."""
        values = (key, batch_id, state, _now())
        self._sql.execute("insert or replace into batches values (?, ?, ?, ?)", values)


@contextmanager
def open_store(folder: Path) -> Iterator[TeacherStore]:
    """Open the store of a folder. Raises UsageError if another process has it open."""
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / LOCK).open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise UsageError(
                f"{folder}: another process works there; wait for it or name another folder"
            ) from None
        connection = sqlite3.connect(folder / FILE, isolation_level=None)
        try:
            connection.execute("pragma journal_mode = wal")
            connection.execute("pragma synchronous = full")
            connection.executescript(TABLES)
            yield TeacherStore(connection)
        finally:
            connection.close()


def _now() -> str:
    return datetime.now(UTC).isoformat()
