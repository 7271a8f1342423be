"""Which GPUs there are: from a file, else from NVML.

The file is named by TUTTI_GPUS, or is ``gpus.yaml`` in TUTTI_HOME or among the deployments. It
lists the cards of any number of hosts; a card without `host` is this machine's. Without a file,
NVML is asked, where the package nvidia-ml-py is installed. Where CUDA_VISIBLE_DEVICES is set, as by
Slurm, this machine has those cards only.
"""

import os
import socket
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from pydantic import BaseModel, ConfigDict, Field, model_validator

from tutti.storage import Home
from tutti.tasks.config import read_document
from tutti.tasks.gpus.errors import GpuError
from tutti.tasks.gpus.nvml import cards_of_nvml
from tutti.tasks.project import DEPLOYMENTS

VARIABLE = "TUTTI_GPUS"
FILE = "gpus.yaml"
VISIBLE = "CUDA_VISIBLE_DEVICES"


class Gpu(BaseModel):
    """A card."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    host: str = Field(default_factory=socket.gethostname, description="name of its machine")
    index: int = Field(ge=0, description="its number there, in the order of the PCI bus")
    uuid: str | None = Field(None, min_length=1, description="GPU-…, as nvidia-smi -L says")
    name: str = Field("", description="NVIDIA H100 80GB HBM3")
    memory_mb: int | None = Field(None, ge=1, description="memory in MiB")

    @property
    def lease_name(self) -> str:
        """The name of its lease: its own where it is known, for hosts can be renamed."""
        return f"gpu {self.uuid or f'{self.host}/{self.index}'}"


class _GpuFile(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)

    gpus: tuple[Gpu, ...] = Field(description="the cards")

    @model_validator(mode="after")
    def _each_once(self) -> "_GpuFile":
        places = [(gpu.host, gpu.index) for gpu in self.gpus]
        uuids = [gpu.uuid for gpu in self.gpus if gpu.uuid]
        for host, index in places:
            if places.count((host, index)) > 1:
                raise ValueError(f"gpus: index {index} of host {host} is listed twice")
        for uuid in uuids:
            if uuids.count(uuid) > 1:
                raise ValueError(f"gpus: uuid {uuid} is listed twice")
        return self


@dataclass(frozen=True)
class Inventory:
    """The cards that are known."""

    gpus: tuple[Gpu, ...]
    source: str
    """The file, or NVML."""
    absent: str = ""
    """Why this machine has none; empty if it has one."""

    @property
    def here(self) -> tuple[Gpu, ...]:
        """This machine's cards, by index."""
        mine = [gpu for gpu in self.gpus if gpu.host == socket.gethostname()]
        return tuple(sorted(mine, key=lambda gpu: gpu.index))


def read_inventory(home: Home) -> Inventory:
    """The cards, and where they are listed. Raises GpuError with file, line, field and value, or
    with what NVML said."""
    file = _file(home)
    if file is None:
        cards, absent = cards_of_nvml()
        return _visible(tuple(Gpu.model_validate(card) for card in cards), "NVML", absent)
    try:
        listed = read_document(file, GpuError).check(_GpuFile).gpus
    except FileNotFoundError:
        raise GpuError(f"{VARIABLE}: {file}: no such file") from None
    return _visible(listed, str(file), f"{file} lists no GPU of host {socket.gethostname()}")


def _file(home: Home) -> Path | None:
    if named := os.environ.get(VARIABLE):
        return Path(named)
    return next((p for p in (home.root / FILE, DEPLOYMENTS / FILE) if p.is_file()), None)


def _visible(gpus: tuple[Gpu, ...], source: str, absent: str) -> Inventory:
    known = Inventory(gpus, source)
    if not known.here:
        return Inventory(gpus, source, absent)
    asked = os.environ.get(VISIBLE)
    if asked is None:
        return known
    seen = list(_named_in(asked, known.here))
    others = [gpu for gpu in gpus if gpu not in known.here]
    none = "" if seen else f"{VISIBLE}={asked!r} leaves none of {len(known.here)}"
    return Inventory((*others, *seen), source, none)


def _named_in(asked: str, gpus: Sequence[Gpu]) -> Iterator[Gpu]:
    """The cards that CUDA would show: those before the first name that is none, as it does."""
    for name in (each.strip() for each in asked.split(",")):
        found = [gpu for gpu in gpus if _is_named(gpu, name)]
        if len(found) != 1:
            return
        yield found[0]


def _is_named(gpu: Gpu, name: str) -> bool:
    if name.isdecimal():
        return gpu.index == int(name)
    return bool(name) and gpu.uuid is not None and gpu.uuid.startswith(name)
