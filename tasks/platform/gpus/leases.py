"""Leases on GPUs: one holder per GPU, all GPUs of a claim or none; and the rows of `tutti gpus`.

The lease is the store's, with its fencing tokens: a thread renews it; a claim takes it at once from
a holder of this host that has ended, and after its time from one that does not answer. A lock on
the GPU's host shows whether a process still uses it: the kernel keeps the lock until the last
process that inherited it has ended. No claim holds a part of its GPUs while it waits for the rest,
so that two cannot wait for each other.
"""

import asyncio
import fcntl
import os
import random
import re
import threading
import time
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from contextlib import ExitStack, asynccontextmanager, contextmanager
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path
from typing import Any

import sqlalchemy as sa

from tutti.storage import (
    Catalog,
    Lease,
    LeaseLost,
    Renewals,
    StoreBusy,
    check_lease,
    held,
    holder_of,
)
from tutti.tasks.platform.gpus.errors import GpuLost, GpusBusy
from tutti.tasks.platform.gpus.inventory import (
    VISIBLE,
    Gpu,
    GpuClaim,
    Inventory,
    candidates,
    processes_of_nvml,
    read_inventory,
)

FOLDER = "TUTTI_GPU_LOCKS"
DEFAULT = Path("/tmp/tutti-gpus")
"""Not in TUTTI_HOME: two stores share the GPUs. Not by TMPDIR, which jobs may change."""


def take_lock(name: str) -> int | None:
    """The lock on `name` as a file descriptor, whose closing releases it; None if it is taken."""
    path = _path(name)
    if not path.parent.is_dir():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.parent.chmod(0o1777)
    flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC
    try:
        descriptor = os.open(path, flags)
    except FileNotFoundError:
        descriptor = os.open(path, flags | os.O_CREAT, 0o644)
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


SHARE = "TUTTI_SHARE_GPUS"  # 1: a GPU is free also beside foreign programs


@dataclass(frozen=True)
class ListedGpu:
    """A GPU and its holder."""

    host: str
    gpu: int
    uuid: str | None
    name: str
    memory_mb: int | None
    state: str  # free, held, expired, in_use (holder unknown here), foreign (not started by tutti)
    run_id: str | None = None
    work: str | None = None
    pid: int | None = None
    since: datetime | None = None

    @property
    def summary(self) -> str:
        """A phrase: ``gpu 0 held by run:… (training) since 09:30:00 UTC``."""
        if self.state == "free":
            return f"gpu {self.gpu} free"
        if self.state == "foreign":
            return (
                f"gpu {self.gpu} in use by process {self.pid}, which tutti did not start (end it, "
                f"or set {SHARE}=1 to take the GPU beside it)"
            )
        if self.since is None:
            return f"gpu {self.gpu} in use by a process that no lease names"
        who = self.run_id or f"process {self.pid}"
        work = f" ({self.work})" if self.work else ""
        return f"gpu {self.gpu} held by {who}{work} since {self.since:%Y-%m-%d %H:%M:%S} UTC"


def list_gpus(catalog: Catalog, inventory: Inventory) -> list[ListedGpu]:
    """The GPUs, this machine's first. Raises StoreError."""
    here = inventory.here
    ordered = sorted(inventory.gpus, key=lambda gpu: (gpu not in here, gpu.host, gpu.index))
    return [list_gpu(catalog, gpu, gpu in here) for gpu in ordered]


def list_gpu(catalog: Catalog, gpu: Gpu, here: bool) -> ListedGpu:
    """One GPU; `here`: of this machine, so that its lock and its processes can be examined."""
    free = ListedGpu(gpu.host, gpu.index, gpu.uuid, gpu.name, gpu.memory_mb, "free")
    holder = holder_of(catalog, gpu.lease_name)
    if holder is not None:
        run_id, work = (holder.note.get(name) or None for name in ("run_id", "work"))
        held_by = replace(free, run_id=run_id, work=work, pid=holder.pid, since=holder.since)
        return replace(held_by, state="expired" if holder.is_late else "held")
    if not here:
        return free
    if is_locked(gpu.lease_name):
        return replace(free, state="in_use")
    foreign = foreign_process(gpu)
    return free if foreign is None else replace(free, state="foreign", pid=foreign)


def foreign_process(gpu: Gpu) -> int | None:
    """Return a process on a GPU that tutti did not start; None if TUTTI_SHARE_GPUS allows it."""
    if gpu.uuid is None or os.environ.get(SHARE) == "1":
        return None
    return next(iter(processes_of_nvml(gpu.uuid)), None)


POLL_S = 0.2
SILENT_SHARE = 0.6
"""A child's supervisor ends it after this share of a lease without a heartbeat. The rest is for its
end, and for the oldest lease, which is older than the heartbeat by a renewal's period at most:
another may take the GPU when the lease has run out."""

OnWait = Callable[[str], None]


class GpuLease:
    """A lease on GPUs, created by `lease_gpus`."""

    def __init__(self, catalog: Catalog, claim: GpuClaim, none_known: bool) -> None:
        self.gpus: tuple[Gpu, ...] = ()
        self.silence_s = claim.lease_s * SILENT_SHARE  # seconds without a renewal before the end
        self.leases: list[Lease] = []
        self.locks: list[int] = []  # file descriptors that users of the GPUs inherit
        self._catalog = catalog
        self._unasked = none_known and claim.wanted is None
        self._mutex = threading.Lock()
        self._error: GpuLost | None = None
        self._on_lost: list[Callable[[], None]] = []
        self._on_renewed: list[Callable[[], None]] = []
        self._renewed_at: dict[Gpu, float] = {}

    @property
    def environment(self) -> dict[str, str]:
        """The variables by which a child sees these GPUs only; none if no GPU is known."""
        if self._unasked:
            return {}
        uuids = [gpu.uuid for gpu in self.gpus if gpu.uuid]
        names = uuids if len(uuids) == len(self.gpus) else [str(gpu.index) for gpu in self.gpus]
        return {VISIBLE: ",".join(names), "CUDA_DEVICE_ORDER": "PCI_BUS_ID"}

    def watch(self, renewed: Callable[[], None], lost: Callable[[], None]) -> None:
        """Call `renewed` when all leases were renewed, and `lost` once one is lost, in other
        threads."""
        with self._mutex:
            self._on_renewed.append(renewed)
            self._on_lost.append(lost)
            late = self._error is not None
        if late:
            lost()

    def check(self) -> None:
        """Return if all GPUs are ours, by the catalog. Raises GpuLost, StoreError."""
        if self._error is not None:
            raise self._error
        for gpu, lease in zip(self.gpus, self.leases, strict=True):
            try:
                with self._catalog.transaction() as connection:
                    check_lease(connection, lease)
            except LeaseLost:
                raise _lost(gpu) from None

    def fence(self, connection: sa.Connection) -> None:
        """Make the caller's transaction depend on every lease. Raises GpuLost."""
        try:
            for lease in self.leases:
                check_lease(connection, lease)
        except LeaseLost as error:
            raise GpuLost(str(error)) from error

    def _lose(self, gpu: Gpu) -> None:
        with self._mutex:
            if self._error is not None:
                return
            self._error = _lost(gpu)
            callbacks = list(self._on_lost)
        for callback in callbacks:
            callback()

    def _renew(self, gpu: Gpu) -> None:
        """Renew a GPU's lease; report a heartbeat once the oldest lease is renewed."""
        with self._mutex:
            oldest = min((self._renewed_at.get(each, 0.0) for each in self.gpus), default=0.0)
            self._renewed_at[gpu] = time.monotonic()
            newer = min((self._renewed_at.get(each, 0.0) for each in self.gpus), default=0.0)
            callbacks = list(self._on_renewed) if newer > oldest else []
        for callback in callbacks:
            callback()


def _lost(gpu: Gpu) -> GpuLost:
    return GpuLost(
        f"gpu {gpu.index} was taken over by another run, because this one had not renewed its "
        "lease; what ran on the GPU was ended. Run the same command again to go on."
    )


@contextmanager
def lease_gpus(
    catalog: Catalog,
    claim: GpuClaim,
    on_wait: OnWait = lambda text: None,
    stopped: threading.Event | None = None,
) -> Iterator[GpuLease]:
    """Hold GPUs during the block, those with the lowest indices that are free.

    `on_wait` gets the holders' names; setting `stopped` ends the wait. Raises NoSuchGpu, GpusBusy
    with the holders after `claim.wait_s`, GpuError.
    """
    search, stopped = _Search(catalog, claim, on_wait), stopped or threading.Event()
    with ExitStack() as stack:
        while (lease := search.attempt(stack)) is None:
            if stopped.wait(search.pause_s()):
                raise GpusBusy("gpus: not waited for any longer, because the run was stopped")
        yield lease


@asynccontextmanager
async def lease_gpus_async(
    catalog: Catalog, claim: GpuClaim, on_wait: OnWait = lambda text: None
) -> AsyncIterator[GpuLease]:
    """Lease as `lease_gpus` does, while the event loop runs."""
    search = _Search(catalog, claim, on_wait)
    with ExitStack() as stack:
        while (lease := await _whole(asyncio.to_thread(search.attempt, stack))) is None:
            await asyncio.sleep(search.pause_s())
        yield lease


async def _whole(attempt: Coroutine[Any, Any, GpuLease | None]) -> GpuLease | None:
    """Run the attempt to its end, also if cancelled: the stack must be open to release its GPUs."""
    task = asyncio.ensure_future(attempt)
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        await task
        raise


class _Search:
    def __init__(self, catalog: Catalog, claim: GpuClaim, on_wait: OnWait) -> None:
        inventory = read_inventory(catalog.home)
        self._catalog, self._claim, self._on_wait = catalog, claim, on_wait
        self._gpus, self._needed = candidates(claim, inventory)
        self._none_known = not inventory.here
        self._deadline = time.monotonic() + claim.wait_s
        self._shown = ""

    def attempt(self, stack: ExitStack) -> GpuLease | None:
        """Take all GPUs, to be released by `stack`; or None, with nothing held."""
        lease = GpuLease(self._catalog, self._claim, self._none_known)
        with ExitStack() as taken:
            found: list[Gpu] = []
            for gpu in self._gpus:
                if len(found) == self._needed:
                    break
                if self._take(gpu, lease, taken):
                    found.append(gpu)
            if len(found) == self._needed:
                lease.gpus = tuple(found)
                stack.push(taken.pop_all())
                return lease
        shown = [list_gpu(self._catalog, gpu, here=True).summary for gpu in self._gpus]
        text = f"{self._needed} GPU{'' if self._needed == 1 else 's'}: {', '.join(shown)}"
        if time.monotonic() > self._deadline:
            raise GpusBusy(f"waited {self._claim.wait_s:.0f} s for {text}; run it again later")
        if text != self._shown:
            self._shown = text
            self._on_wait(f"waiting for {text}")
        return None

    def pause_s(self) -> float:
        """The time until the next attempt: random, so that two claims do not meet each time."""
        return random.uniform(0.5, 1.5) * POLL_S

    def _take(self, gpu: Gpu, lease: GpuLease, taken: ExitStack) -> bool:
        lock = take_lock(gpu.lease_name)
        if lock is None:
            return False
        claim = self._claim
        renewals = Renewals(lambda: lease._renew(gpu), lambda error: lease._lose(gpu))
        with ExitStack() as mine:
            mine.callback(os.close, lock)
            if foreign_process(gpu) is not None:
                return False  # its memory is not ours to count on
            held_lease = held(self._catalog, gpu.lease_name, claim.lease_s, claim.note, renewals)
            try:
                lease.leases.append(mine.enter_context(held_lease))
            except StoreBusy:
                return False
            lease.locks.append(lock)
            taken.push(mine.pop_all())
        return True
