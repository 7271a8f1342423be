"""Engines that are kept running for the next run: announced, found by id, used by one at a time.

In: a catalog. An engine of `tutti serve --keep` is announced in the row of its process, with its id
and address. Who needs an engine of that id uses it under a lease, so that no two sweeps share a
cache and a load; without one it starts its own.
"""

import json
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass

import sqlalchemy as sa

from tutti.storage import Catalog, StoreBusy, held, holder_of, start_ticks, this_host
from tutti.storage import catalog as cat

KEPT = "kept"
"""In the detail of a process: the engine that it keeps."""


@dataclass(frozen=True)
class WarmEngine:
    """An engine that another process keeps running on this machine."""

    engine_id: str
    url: str
    pid: int


def announce(catalog: Catalog, key: dict[str, int], engine_id: str, url: str) -> None:
    """Let others find the engine that the process of `key` runs, until that process ends."""
    table = cat.processes
    row = (table.c.pid == key["pid"]) & (table.c.start_ticks == key["start_ticks"])
    with catalog.transaction() as connection:
        (detail,) = connection.execute(sa.select(table.c.detail).where(row)).one()
        told = json.loads(detail) | {KEPT: {"engine_id": engine_id, "url": url}}
        connection.execute(sa.update(table).where(row).values(detail=json.dumps(told)))


def warm_engines(catalog: Catalog, engine_id: str | None = None) -> list[WarmEngine]:
    """The engines that are kept on this machine, of all ids or of one, whose keepers live."""
    rows = catalog.rows(sa.select(cat.processes).where(cat.processes.c.host == this_host()))
    found = []
    for row in rows:
        kept = json.loads(row["detail"]).get(KEPT)
        if kept is None or (engine_id is not None and kept["engine_id"] != engine_id):
            continue
        if start_ticks(row["pid"]) == row["start_ticks"]:
            found.append(WarmEngine(kept["engine_id"], kept["url"], row["pid"]))
    return found


@contextmanager
def used(catalog: Catalog, engine: WarmEngine) -> Iterator[bool]:
    """Use a kept engine alone during the block; False where another run uses it."""
    with ExitStack() as stack:
        try:
            stack.enter_context(held(catalog, _lease_name(engine.url)))
            free = True
        except StoreBusy:
            free = False
        yield free


def is_used(catalog: Catalog, url: str) -> bool:
    """Whether a run uses the kept engine at `url`."""
    return holder_of(catalog, _lease_name(url)) is not None


def _lease_name(url: str) -> str:
    return f"engine {this_host()} {url}"
