"""The known GPUs, and which of them a job asks for.

A file lists the GPUs of any number of hosts: TUTTI_GPUS names it, or it is ``gpus.yaml`` in
TUTTI_HOME or among the deployments. Without a file, NVML is asked. A driver that does not answer is
an error: a job would run on the CPU without a message. CUDA_VISIBLE_DEVICES narrows this machine's
GPUs.
"""

import os
import socket
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

from pydantic import Field, model_validator

from tutti.storage import Home
from tutti.tasks.platform import DEPLOYMENTS, Strict, read_document
from tutti.tasks.platform.gpus.errors import GpuError, NoSuchGpu

GpuFields = dict[str, Any]  # fields of a `Gpu`
MIB = 2**20


def gpus_of_nvml(nvml: Any = None) -> tuple[list[GpuFields], str]:
    """Return this machine's GPUs in PCI order, or none and why. Raises GpuError."""
    try:
        nvml = nvml if nvml is not None else import_module("pynvml")
    except ImportError:
        return [], "the package nvidia-ml-py is not installed (pip install 'tutti[gpu]')"
    try:
        nvml.nvmlInit()
    except nvml.NVMLError as error:
        if getattr(error, "value", None) == nvml.NVML_ERROR_LIBRARY_NOT_FOUND:
            return [], "NVML: no NVIDIA driver"
        raise GpuError(_broken(error)) from error
    try:
        gpus = [_fields(nvml, index) for index in range(nvml.nvmlDeviceGetCount())]
    except nvml.NVMLError as error:
        raise GpuError(_broken(error)) from error
    finally:
        nvml.nvmlShutdown()
    return gpus, "" if gpus else "NVML lists no GPU"


def processes_of_nvml(uuid: str, nvml: Any = None) -> list[int]:
    """Return the pids that compute on a GPU, by the driver (in a container the host's)."""
    try:
        nvml = nvml if nvml is not None else import_module("pynvml")
    except ImportError:
        return []
    try:
        nvml.nvmlInit()
    except nvml.NVMLError:  # `gpus_of_nvml` has reported it
        return []
    try:
        gpu = nvml.nvmlDeviceGetHandleByUUID(uuid)
        return sorted({each.pid for each in nvml.nvmlDeviceGetComputeRunningProcesses(gpu)})
    except nvml.NVMLError:  # a GPU of a list that this driver does not have
        return []
    finally:
        nvml.nvmlShutdown()


def _fields(nvml: Any, index: int) -> GpuFields:
    gpu = nvml.nvmlDeviceGetHandleByIndex(index)
    try:
        divided = nvml.nvmlDeviceGetMigMode(gpu)[0]
    except nvml.NVMLError:  # a GPU that cannot be divided has no such mode
        divided = 0
    if divided:
        raise GpuError(
            f"gpu {index}: MIG is on, and tutti leases whole GPUs; turn it off, or list the "
            "other GPUs in gpus.yaml"
        )
    return {
        "index": index,
        "uuid": _text(nvml.nvmlDeviceGetUUID(gpu)),
        "name": _text(nvml.nvmlDeviceGetName(gpu)),
        "memory_mb": nvml.nvmlDeviceGetMemoryInfo(gpu).total // MIB,
    }


def _text(value: str | bytes) -> str:
    return value.decode() if isinstance(value, bytes) else value  # older versions give bytes


def _broken(error: Exception) -> str:
    return (
        f"NVML: {error}; `nvidia-smi` says more. To run without it, name a list of GPUs in "
        "TUTTI_GPUS (docs/gpus.md)"
    )


VARIABLE = "TUTTI_GPUS"
FILE = "gpus.yaml"
VISIBLE = "CUDA_VISIBLE_DEVICES"


class Gpu(Strict):
    """A GPU."""

    host: str = Field(default_factory=socket.gethostname, description="name of its machine")
    index: int = Field(ge=0, description="its number there, in the order of the PCI bus")
    uuid: str | None = Field(None, min_length=1, description="GPU-…, as nvidia-smi -L says")
    name: str = Field("", description="NVIDIA H100 80GB HBM3")
    memory_mb: int | None = Field(None, ge=1, description="memory in MiB")

    @property
    def lease_name(self) -> str:
        """The name of its lease: by its uuid if known, because hosts can be renamed."""
        return f"gpu {self.uuid or f'{self.host}/{self.index}'}"


class _GpuFile(Strict):
    gpus: tuple[Gpu, ...] = Field(description="the GPUs")

    @model_validator(mode="after")
    def _each_once(self) -> "_GpuFile":
        names = [f"index {gpu.index} of host {gpu.host}" for gpu in self.gpus]
        names += [f"uuid {gpu.uuid}" for gpu in self.gpus if gpu.uuid]
        for name, count in Counter(names).items():
            if count > 1:
                raise ValueError(f"gpus: {name} is listed twice")
        return self


@dataclass(frozen=True)
class Inventory:
    """The known GPUs."""

    gpus: tuple[Gpu, ...]
    source: str  # the file, or NVML
    absent: str = ""  # why this machine has none; empty if it has one

    @property
    def here(self) -> tuple[Gpu, ...]:
        """This machine's GPUs, by index."""
        mine = [gpu for gpu in self.gpus if gpu.host == socket.gethostname()]
        return tuple(sorted(mine, key=lambda gpu: gpu.index))


def read_inventory(home: Home) -> Inventory:
    """The GPUs, and where they are listed. Raises GpuError with file, line, field and value."""
    listed_in = (p for p in (home.root / FILE, DEPLOYMENTS / FILE) if p.is_file())
    named = os.environ.get(VARIABLE)
    file = Path(named) if named else next(listed_in, None)
    if file is None:
        gpus, absent = gpus_of_nvml()
        return _visible(tuple(map(Gpu.model_validate, gpus)), "NVML", absent)
    try:
        listed = read_document(file, GpuError).check(_GpuFile).gpus
    except FileNotFoundError:
        raise GpuError(f"{VARIABLE}: {file}: no such file") from None
    return _visible(listed, str(file), f"{file} lists no GPU of host {socket.gethostname()}")


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
    for name in (each.strip() for each in asked.split(",")):
        found = [gpu for gpu in gpus if _is_named(gpu, name)]
        if len(found) != 1:
            return
        yield found[0]


def _is_named(gpu: Gpu, name: str) -> bool:
    if name.isdecimal():
        return gpu.index == int(name)
    return bool(name) and gpu.uuid is not None and gpu.uuid.startswith(name)


LEASE_S = 300.0  # the wait for a holder that is stopped; one that has ended is known at once
WAIT_S = 3600.0

JOB_GPUS = "TUTTI_JOB_GPUS"  # GPUs that this machine must have for a run

WantedGpus = int | tuple[int | str, ...] | None
"""A number of any GPUs; or GPUs by index or uuid; or one GPU where the machine has any."""


@dataclass(frozen=True)
class GpuClaim:
    """The GPUs that a job requests, and the job's description for others."""

    wanted: WantedGpus = None
    run_id: str = ""
    work: str = ""  # a description of the job: ``training adapter:…``
    wait_s: float = WAIT_S  # how long it waits for GPUs that others hold
    lease_s: float = LEASE_S

    @property
    def note(self) -> dict[str, str]:
        return {"run_id": self.run_id, "work": self.work}


DEFAULT_CLAIM: GpuClaim = GpuClaim()


def require_gpus(claim: GpuClaim, home: Home) -> None:
    """Check that this machine has the GPUs, before other work. Raises NoSuchGpu, GpuError."""
    candidates(claim, read_inventory(home))


def require_job_gpus(home: Home) -> None:
    """Check that this machine has the GPUs that TUTTI_JOB_GPUS requests. Raises NoSuchGpu."""
    asked = os.environ.get(JOB_GPUS, "").strip()
    if not asked:
        return
    if not asked.isdecimal():
        raise NoSuchGpu(f"{JOB_GPUS}: {asked!r} is not a number of GPUs")
    inventory = read_inventory(home)
    if int(asked) > len(inventory.here):
        raise NoSuchGpu(
            f"this run is for machines with {_count(int(asked))} (job variable `gpus` of its "
            f"pool); {_what_is_here(inventory)}; lower `gpus`, start a worker of the pool where "
            "the GPUs are, or run the deployment of the pool `cpu`"
        )


def candidates(claim: GpuClaim, inventory: Inventory) -> tuple[list[Gpu], int]:
    """Return the eligible GPUs, and the number needed. Raises NoSuchGpu."""
    here, wanted = inventory.here, claim.wanted
    if wanted is None:
        wanted = min(1, len(here))
    if isinstance(wanted, int):
        if wanted < 0:
            raise NoSuchGpu(f"gpus: {wanted} is not a number of GPUs")
        if wanted > len(here):
            raise NoSuchGpu(f"gpus: {_count(wanted)} asked for; {_what_is_here(inventory)}")
        return list(here), wanted
    named = [_named(name, inventory) for name in wanted]
    for gpu in named:
        if named.count(gpu) > 1:
            raise NoSuchGpu(f"gpus: gpu {gpu.index} is named twice")
    return sorted(named, key=lambda gpu: gpu.index), len(named)


def _named(name: int | str, inventory: Inventory) -> Gpu:
    found = [gpu for gpu in inventory.here if _is_named(gpu, str(name))]
    if not found:
        raise NoSuchGpu(f"gpus: no gpu {name!r}; {_what_is_here(inventory)}")
    if len(found) > 1:
        raise NoSuchGpu(f"gpus: {name!r} begins the uuid of {_count(len(found))}; give all of it")
    return found[0]


def _what_is_here(inventory: Inventory) -> str:
    if not inventory.here:
        return f"this machine has none ({inventory.absent})"
    shown = ", ".join(f"{gpu.index} ({gpu.uuid or gpu.name})" for gpu in inventory.here)
    return f"this machine has {len(inventory.here)}, by {inventory.source}: {shown}"


def _count(n: int) -> str:
    return f"{n} GPU" if n == 1 else f"{n} GPUs"
