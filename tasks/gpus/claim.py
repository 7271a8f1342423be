"""What a job asks for: so many cards, or named ones."""

import os
from dataclasses import dataclass

from tutti.storage import Home
from tutti.tasks.gpus.errors import NoSuchGpu
from tutti.tasks.gpus.inventory import Gpu, Inventory, read_inventory

LEASE_S = 300.0
"""A holder that is gone is known at once on its own host, and no other host has its cards. So only
a holder that is stopped, or cannot reach the catalog, is waited for so long."""
WAIT_S = 3600.0

JOB_GPUS = "TUTTI_JOB_GPUS"
"""GPUs that this machine must have for a run: the job variable `gpus` of the work pool `gpu`."""

WantedGpus = int | tuple[int | str, ...] | None
"""A number of any cards; or cards by index or uuid; or one card where the machine has any."""


@dataclass(frozen=True)
class GpuClaim:
    """The cards that a job wants, and what others are told of it."""

    wanted: WantedGpus = None
    run_id: str = ""
    work: str = ""
    """What it does: ``training adapter:…``."""
    wait_s: float = WAIT_S
    """How long it waits for cards that others hold."""
    lease_s: float = LEASE_S

    @property
    def note(self) -> dict[str, str]:
        """What `tutti gpus` shows of the holder."""
        return {"run_id": self.run_id, "work": self.work}


DEFAULT_CLAIM: GpuClaim = GpuClaim()


def require_gpus(claim: GpuClaim, home: Home) -> None:
    """Check that this machine has the cards, before minutes of other work. Raises NoSuchGpu,
    GpuError."""
    candidates(claim, read_inventory(home))


def require_job_gpus(home: Home) -> None:
    """Check that this machine has the GPUs that TUTTI_JOB_GPUS asks for; without it, any will do.

    Raises NoSuchGpu with what there is, GpuError.
    """
    asked = os.environ.get(JOB_GPUS, "").strip()
    if not asked:
        return
    if not asked.isdecimal():
        raise NoSuchGpu(f"{JOB_GPUS}: {asked!r} is not a number of GPUs")
    inventory = read_inventory(home)
    if int(asked) > len(inventory.here):
        raise NoSuchGpu(
            f"this run is for machines with {_cards(int(asked))} (job variable `gpus` of its "
            f"pool); {_what_is_here(inventory)}; lower `gpus`, start a worker of the pool where "
            "the GPUs are, or run the deployment of the pool `cpu`"
        )


def candidates(claim: GpuClaim, inventory: Inventory) -> tuple[list[Gpu], int]:
    """The cards that would do, and how many of them are needed. Raises NoSuchGpu."""
    here, wanted = inventory.here, claim.wanted
    if wanted is None:
        wanted = min(1, len(here))
    if isinstance(wanted, int):
        if wanted < 0:
            raise NoSuchGpu(f"gpus: {wanted} is not a number of cards")
        if wanted > len(here):
            raise NoSuchGpu(f"gpus: {_cards(wanted)} asked for; {_what_is_here(inventory)}")
        return list(here), wanted
    named = [_named(name, inventory) for name in wanted]
    for gpu in named:
        if named.count(gpu) > 1:
            raise NoSuchGpu(f"gpus: gpu {gpu.index} is named twice")
    return sorted(named, key=lambda gpu: gpu.index), len(named)


def _named(name: int | str, inventory: Inventory) -> Gpu:
    if isinstance(name, int) or name.isdecimal():
        found = [gpu for gpu in inventory.here if gpu.index == int(name)]
    else:
        found = [gpu for gpu in inventory.here if gpu.uuid and gpu.uuid.startswith(name)]
    if not found:
        raise NoSuchGpu(f"gpus: no gpu {name!r}; {_what_is_here(inventory)}")
    if len(found) > 1:
        raise NoSuchGpu(f"gpus: {name!r} begins the uuid of {_cards(len(found))}; give all of it")
    return found[0]


def _what_is_here(inventory: Inventory) -> str:
    if not inventory.here:
        return f"this machine has none ({inventory.absent})"
    shown = ", ".join(f"{gpu.index} ({gpu.uuid or gpu.name})" for gpu in inventory.here)
    return f"this machine has {len(inventory.here)}, by {inventory.source}: {shown}"


def _cards(n: int) -> str:
    return f"{n} GPU" if n == 1 else f"{n} GPUs"
