"""Engines kept running for the next run: announced, looked up by id, used by one run at a time.

In: a catalog. An engine of `tutti serve --keep` is announced in the row of its process. A run uses
it under a lease. An idle engine may sleep (`IdleSleep`); it is woken and called once before a run
gets it, because a server whose engine hangs still answers /health.
"""

import asyncio
import json
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass

import sqlalchemy as sa

from tutti.storage import Catalog, StoreBusy, held, holder_of, start_ticks, this_host
from tutti.storage import catalog as cat
from tutti.tasks.serving.engines.control import fall_asleep, wake
from tutti.tasks.serving.errors import EngineFailed
from tutti.tasks.serving.registry.settings import ServerKind

SLEEP_AFTER_S = 60.0
"""Without use: between the runs of a person who works at something pass minutes, and waking a large
model takes half a minute."""
CALL_TIMEOUT_S = 30.0
KEPT = "kept"


@dataclass(frozen=True)
class EngineAddress:
    """The URL of an engine, its id, and the name of its model for calls to it."""

    engine_id: str
    url: str
    served_name: str


@dataclass(frozen=True)
class WarmEngine(EngineAddress):
    """An engine that another process keeps running on this machine."""

    pid: int


def announce(catalog: Catalog, key: dict[str, int], engine: WarmEngine) -> None:
    """Announce the engine that the process of `key` runs, until that process ends."""
    table = cat.processes
    row = (table.c.pid == key["pid"]) & (table.c.start_ticks == key["start_ticks"])
    with catalog.transaction() as connection:
        (detail,) = connection.execute(sa.select(table.c.detail).where(row)).one()
        told = json.loads(detail) | {KEPT: asdict(engine)}
        connection.execute(sa.update(table).where(row).values(detail=json.dumps(told)))


def warm_engines(catalog: Catalog, engine_id: str | None = None) -> list[WarmEngine]:
    """Return the kept engines on this machine with live keepers, of all ids or of one."""
    rows = catalog.rows(sa.select(cat.processes).where(cat.processes.c.host == this_host()))
    found = []
    for row in rows:
        kept = json.loads(row["detail"]).get(KEPT)
        if kept is None or "served_name" not in kept:  # an earlier version told no name
            continue
        if engine_id is not None and kept["engine_id"] != engine_id:
            continue
        if start_ticks(row["pid"]) == row["start_ticks"]:
            found.append(WarmEngine(**kept))
    return found


@contextmanager
def used(catalog: Catalog, engine: WarmEngine) -> Iterator[bool]:
    """Use a kept engine exclusively during the block; yield False if another run uses it."""
    with ExitStack() as stack:
        try:
            stack.enter_context(held(catalog, _lease_name(engine.url)))
            free = True
        except StoreBusy:
            free = False
        yield free


def is_ready(engine: WarmEngine, server: ServerKind) -> bool:
    """Whether a kept engine computes; one that sleeps is woken first. Not for use in an event loop.
    The reason for False is printed to stderr, and the run starts its own engine."""
    try:
        if server == "vllm":  # others do not sleep
            asyncio.run(wake(engine.url))
        _call(engine)
    except EngineFailed as error:
        print(f"tutti: the kept engine is not used: {error}", file=sys.stderr, flush=True)
        return False
    return True


def _call(engine: WarmEngine) -> None:
    """Let it compute one token. A refusal is valid, because an embedding model gives no text."""
    url = f"{engine.url}/v1/completions"
    body = json.dumps({"model": engine.served_name, "prompt": "1", "max_tokens": 1}).encode()
    request = urllib.request.Request(url, body, {"Content-Type": "application/json"})
    try:
        urllib.request.urlopen(request, timeout=CALL_TIMEOUT_S).close()
    except urllib.error.HTTPError as error:
        if error.code >= 500:
            raise EngineFailed(f"{url}: HTTP {error.code}") from None
    except (urllib.error.URLError, OSError) as error:
        raise EngineFailed(f"{url}: {error}") from None


class IdleSleep:
    """Lets a keeper's engines sleep while they are unused. Not for use in an event loop."""

    def __init__(self, urls: Sequence[str], clock: Callable[[], float] = time.monotonic) -> None:
        """`urls`: engines that can sleep and are awake."""
        self._urls, self._clock = urls, clock
        self._used_at, self._asleep = clock(), False

    def follow(self, used: bool) -> None:
        """Wake the engines when they are used, and put them to sleep after a minute without use.
        Raises EngineFailed if one does not do so; it is unusable then."""
        if used:
            self._used_at = self._clock()
        if used and self._asleep:
            self._asleep = False
            for url in self._urls:
                asyncio.run(wake(url))  # the run that uses it may have woken it
        elif not used and not self._asleep and self._clock() - self._used_at >= SLEEP_AFTER_S:
            self._asleep = True
            for url in self._urls:
                asyncio.run(fall_asleep(url))


def is_used(catalog: Catalog, url: str) -> bool:
    """Whether a run uses the kept engine at `url`."""
    return holder_of(catalog, _lease_name(url)) is not None


def _lease_name(url: str) -> str:
    return f"engine {this_host()} {url}"
