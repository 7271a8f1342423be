"""Each card with who holds it: the rows of `tutti gpus`."""

import os
from dataclasses import dataclass, replace
from datetime import datetime

from tutti.storage import Catalog, holder_of
from tutti.tasks.gpus.inventory import Gpu, Inventory
from tutti.tasks.gpus.locks import is_locked
from tutti.tasks.gpus.nvml import processes_of_nvml

SHARE = "TUTTI_SHARE_GPUS"
"""1: a card is free also where programs that tutti did not start compute on it."""


@dataclass(frozen=True)
class ListedGpu:
    """A card and its holder."""

    host: str
    gpu: int
    uuid: str | None
    name: str
    memory_mb: int | None
    state: str
    """free, held, expired (the holder has not renewed its lease), in_use (by a process whose
    holder is not known here), or foreign (by a program that tutti did not start)."""
    run_id: str | None = None
    work: str | None = None
    pid: int | None = None
    since: datetime | None = None

    @property
    def told(self) -> str:
        """In a sentence's part: ``gpu 0 held by run:… (training) since 09:30:00 UTC``."""
        if self.state == "free":
            return f"gpu {self.gpu} free"
        if self.state == "foreign":
            return (
                f"gpu {self.gpu} in use by process {self.pid}, which tutti did not start (end it, "
                f"or set {SHARE}=1 to take the card beside it)"
            )
        if self.since is None:
            return f"gpu {self.gpu} in use by a process that no lease names"
        who = self.run_id or f"process {self.pid}"
        work = f" ({self.work})" if self.work else ""
        return f"gpu {self.gpu} held by {who}{work} since {self.since:%Y-%m-%d %H:%M:%S} UTC"


def list_gpus(catalog: Catalog, inventory: Inventory) -> list[ListedGpu]:
    """The cards, this machine's first. Raises StoreError."""
    others = [gpu for gpu in inventory.gpus if gpu not in inventory.here]
    others.sort(key=lambda gpu: (gpu.host, gpu.index))
    return [
        *(list_gpu(catalog, gpu, here=True) for gpu in inventory.here),
        *(list_gpu(catalog, gpu, here=False) for gpu in others),
    ]


def list_gpu(catalog: Catalog, gpu: Gpu, here: bool) -> ListedGpu:
    """One card; `here`: of this machine, so that its lock can be looked at."""
    fields = (gpu.host, gpu.index, gpu.uuid, gpu.name, gpu.memory_mb)
    holder = holder_of(catalog, gpu.lease_name)
    if holder is None:
        return _unheld(gpu, here, ListedGpu(*fields, state="free"))
    return ListedGpu(
        *fields,
        state="expired" if holder.is_late else "held",
        run_id=holder.note.get("run_id") or None,
        work=holder.note.get("work") or None,
        pid=holder.pid,
        since=holder.since,
    )


def _unheld(gpu: Gpu, here: bool, free: ListedGpu) -> ListedGpu:
    """A card without a lease: whether something runs on it all the same."""
    if not here:
        return free
    if is_locked(gpu.lease_name):
        return replace(free, state="in_use")
    foreign = foreign_process(gpu)
    return free if foreign is None else replace(free, state="foreign", pid=foreign)


def foreign_process(gpu: Gpu) -> int | None:
    """A process that computes on a card of this machine, by the driver. On a card without lease and
    lock it is a program that tutti did not start. None where TUTTI_SHARE_GPUS allows them."""
    if gpu.uuid is None or os.environ.get(SHARE) == "1":
        return None
    return next(iter(processes_of_nvml(gpu.uuid)), None)
