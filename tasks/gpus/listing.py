"""Each card with who holds it: the rows of `tutti gpus`."""

from dataclasses import dataclass
from datetime import datetime

from tutti.storage import Catalog, holder_of, now
from tutti.tasks.gpus.inventory import Gpu, Inventory
from tutti.tasks.gpus.locks import is_locked


@dataclass(frozen=True)
class ListedGpu:
    """A card and its holder."""

    host: str
    gpu: int
    uuid: str | None
    name: str
    memory_mb: int | None
    state: str
    """free, held, expired (the holder has not renewed its lease), or in_use (by a process whose
    holder is not known here)."""
    run_id: str | None = None
    work: str | None = None
    pid: int | None = None
    since: datetime | None = None

    @property
    def told(self) -> str:
        """In a sentence's part: ``gpu 0 held by run:… (training) since 09:30:00 UTC``."""
        if self.state == "free":
            return f"gpu {self.gpu} free"
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
        return ListedGpu(*fields, state="in_use" if here and is_locked(gpu.lease_name) else "free")
    late = holder.expires_at is not None and holder.expires_at < now()
    return ListedGpu(
        *fields,
        state="expired" if late else "held",
        run_id=holder.note.get("run_id") or None,
        work=holder.note.get("work") or None,
        pid=holder.pid,
        since=holder.since,
    )
