"""Verifies a store: parts against checksums, the folder against the catalog, states against rows.

`repair` moves faulty files aside and never deletes them.
"""

import io
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import sqlalchemy as sa

from tutti.storage import catalog as cat
from tutti.storage.base.columns import COLUMNS
from tutti.storage.base.home import FileState, files_of
from tutti.storage.maintenance.compaction import REPLACED
from tutti.storage.programs.states import lost_programs, record_lost
from tutti.storage.read.readers import MISSING, REPLACED_FOLDER, read_whole
from tutti.storage.read.views import connect

MIN_AGE_S = 600.0  # a younger file may belong to a writer that has not entered it yet
REPAIR_RUN = "verify"
"""`run_id` of attempts that a repair records."""
Part = dict[str, Any]


@dataclass(frozen=True)
class StoreFault:
    """A fault in the store."""

    kind: str
    """damaged, missing, orphan, lost (attempts without rows), doubled (rows) or open (programs)."""
    path: str
    """The file, relative to the store; the attempt's id for lost, doubled and open."""
    reason: str
    repaired: str = ""
    """The repair that was made; empty if none was."""


@dataclass
class VerificationReport:
    """Counts of the verified items, and the faults."""

    parts: int = 0
    bytes: int = 0
    files: int = 0
    attempts: int = 0
    replaced_files: int = 0
    """Files of replaced parts that wait in ``replaced/`` for their grace to end."""
    waiting_files: int = 0
    """Those that are still in ``tables/``, where other programs see their rows twice."""
    findings: list[StoreFault] = field(default_factory=list)


def verify(
    catalog: cat.Catalog,
    *,
    repair: bool = False,
    min_age_s: float = MIN_AGE_S,
    on_progress: Callable[[int, int], None] = lambda done, total: None,
) -> VerificationReport:
    """Verify everything; with `repair`, move damaged and unknown files into ``quarantine/``.

    Programs that a killed gateway left running become attempts that are void. Attempts without rows
    are marked lost, so that their samples are run again. Files that are not
    entered and younger than `min_age_s` seconds are left to their writers. Raises StoreError.
    """
    report = VerificationReport()
    with cat.store_boundary(catalog.home):
        # Listed first: what a writer enters meanwhile is then known, and not an orphan.
        files = files_of(catalog.home)
        found = [*files.list("tables"), *files.list(REPLACED_FOLDER)]
    parts = catalog.rows(sa.select(cat.parts))
    live = [part for part in parts if part["removed_at"] is None]
    report.files, report.parts = len(found), len(live)
    for done, part in enumerate(live):
        on_progress(done, len(live))
        report.bytes += part["bytes"]
        with cat.store_boundary(catalog.home):
            problem = _problem(catalog, part)
        if problem:
            report.findings.append(_set_aside(catalog, part, problem, repair))
    gone = ("quarantined", "removed")
    known = {part["path"] for part in parts if part["removed_why"] not in gone}
    replaced = {part["path"] for part in parts if part["removed_why"] in REPLACED}
    aside = {f"{REPLACED_FOLDER}/{path}" for path in replaced}
    report.replaced_files = sum(file.path in aside for file in found)
    report.waiting_files = sum(file.path in replaced for file in found)
    known |= aside
    report.findings += _orphans(catalog, found, known, repair, min_age_s)
    if repair or not report.findings:
        report.attempts, findings = _attempts(catalog, repair)
        report.findings += findings + _programs(catalog, repair)
    on_progress(len(live), len(live))
    return report


def _problem(catalog: cat.Catalog, part: Part) -> str:
    data, problem = read_whole(catalog.home, part)
    if problem:
        return problem
    if part["table_name"] not in COLUMNS:
        return f"there is no table {part['table_name']!r}"
    try:
        footer = pq.read_metadata(io.BytesIO(data))
    except pa.ArrowException as error:
        return f"it is no Parquet file: {error}"
    if footer.num_rows != part["rows"]:
        return f"{footer.num_rows} rows, {part['rows']} were entered"
    return ""


def _set_aside(catalog: cat.Catalog, part: Part, problem: str, repair: bool) -> StoreFault:
    missing = problem == MISSING
    kind = "missing" if missing else "damaged"
    if not repair:
        return StoreFault(kind, part["path"], problem)
    if not missing:
        _quarantine(catalog, part["path"])
    values = {"removed_at": cat.now(), "removed_why": "quarantined"}
    with catalog.transaction() as connection:
        mine = cat.parts.c.part_id == part["part_id"]
        connection.execute(sa.update(cat.parts).where(mine).values(values))
    done = "taken out of the catalog" if missing else "moved to quarantine/"
    return StoreFault(kind, part["path"], problem, done)


def _orphans(
    catalog: cat.Catalog, found: list[FileState], known: set[str], repair: bool, min_age_s: float
) -> Iterator[StoreFault]:
    oldest_ns = (cat.now().timestamp() - min_age_s) * 1e9
    for file in found:
        young = file.mtime_ns is not None and file.mtime_ns > oldest_ns
        if file.path in known or young:
            continue
        if files_of(catalog.home).state(file.path) is None:
            continue  # a compaction removed it since the listing
        reason = "a file that no catalog entry names; no reader sees it"
        if repair:
            _quarantine(catalog, file.path)
        yield StoreFault("orphan", file.path, reason, "moved to quarantine/" if repair else "")


def _quarantine(catalog: cat.Catalog, path: str) -> None:
    with cat.store_boundary(catalog.home):
        files_of(catalog.home).move(path, f"quarantine/{path}")


def _attempts(catalog: cat.Catalog, repair: bool) -> tuple[int, list[StoreFault]]:
    """Compare the states of attempts with their rows. The states are read first: an attempt that
    ends meanwhile then has additional rows and not missing ones."""
    states = cat.attempt_states
    done = catalog.rows(sa.select(states.c.attempt_id).where(states.c.state == "done"))
    connection = connect(catalog.home, macros=())
    try:
        query = "select attempt_id, count(*) from attempts group by all"
        rows = dict(connection.execute(query).fetchall())
    finally:
        connection.close()
    lost = [row["attempt_id"] for row in done if row["attempt_id"] not in rows]
    if repair and lost:
        mark = sa.update(states).where(states.c.attempt_id == sa.bindparam("of"))
        with catalog.transaction() as transaction:
            transaction.execute(mark.values(state="lost"), [{"of": each} for each in lost])
    then = "its sample will be run again" if repair else ""
    findings = [StoreFault("lost", each, "it is done, but has no row", then) for each in lost]
    findings += [
        StoreFault("doubled", each, f"it has {count} rows")
        for each, count in rows.items()
        if count > 1
    ]
    return len(rows), findings


def _programs(catalog: cat.Catalog, repair: bool) -> list[StoreFault]:
    lost = lost_programs(catalog)
    if repair:
        record_lost(catalog, lost, REPAIR_RUN)
    then = "recorded as cancelled" if repair else ""
    reason = "its gateway ended without recording the attempt"
    return [StoreFault("open", each, reason, then) for each in lost]
