"""Whether engines that run at the same time have the GPUs for it.

In: the engines of a bench, each with the GPUs that it takes, and the machine's. A claim waits for
cards that another run holds; it would wait without end for cards of engines that run beside it, so
this is said before anything starts.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from tutti.tasks.gpus import Gpu, Inventory
from tutti.tasks.serving.errors import RegistryError

WantedGpus = int | tuple[int | str, ...] | None
"""So many GPUs, these by index or uuid, or none."""


@dataclass(frozen=True)
class Place:
    """The cards of one engine; none where its entry asks for none, or on the CPU."""

    name: str
    gpus: tuple[Gpu, ...]

    @property
    def text(self) -> str:
        """``judge on GPU 1, 2``."""
        cards = ", ".join(str(gpu.index) for gpu in self.gpus)
        return f"{self.name} on {f'GPU {cards}' if cards else 'no GPU of its own'}"


def place(engines: Sequence[tuple[str, WantedGpus]], inventory: Inventory) -> list[Place]:
    """Cards for each engine, all at the same time: named ones first, then the lowest that are left.

    It says that they fit, and which they take where no other run holds one; the lease decides.
    Raises RegistryError with what each asks for, and what to do, where they do not fit.
    """
    here = list(inventory.here)
    named = {
        index: _named(name, gpus, here)
        for index, (name, gpus) in enumerate(engines)
        if isinstance(gpus, tuple)
    }
    _refuse_twice([(engines[index][0], gpus) for index, gpus in named.items()])
    free = [gpu for gpu in here if not any(gpu in gpus for gpus in named.values())]
    wanted = sum(_count(gpus) for _, gpus in engines)
    if wanted > len(here):
        raise RegistryError(_too_many(engines, wanted, inventory))
    places = []
    for index, (name, gpus) in enumerate(engines):
        taken = named.get(index)
        if taken is None:
            count = _count(gpus)
            taken, free = tuple(free[:count]), free[count:]
        places.append(Place(name, taken))
    return places


def _count(gpus: WantedGpus) -> int:
    return len(gpus) if isinstance(gpus, tuple) else gpus or 0


def _named(name: str, gpus: tuple[int | str, ...], here: Sequence[Gpu]) -> tuple[Gpu, ...]:
    found = []
    for asked in gpus:
        fits = [gpu for gpu in here if _is(gpu, asked)]
        if len(fits) != 1:
            known = ", ".join(f"{gpu.index} ({gpu.uuid or gpu.name})" for gpu in here)
            raise RegistryError(
                f"models.{name}.engine.gpus: {asked!r} names {len(fits)} of this machine's GPUs; "
                f"it has {known or 'none'}"
            )
        found.append(fits[0])
    return tuple(found)


def _is(gpu: Gpu, asked: int | str) -> bool:
    if isinstance(asked, int) or asked.isdecimal():
        return gpu.index == int(asked)
    return gpu.uuid is not None and gpu.uuid.startswith(asked)


def _refuse_twice(named: Sequence[tuple[str, tuple[Gpu, ...]]]) -> None:
    times = Counter(gpu.index for _, gpus in named for gpu in gpus)
    for index, count in times.items():
        if count > 1:
            who = ", ".join(name for name, gpus in named for gpu in gpus if gpu.index == index)
            raise RegistryError(
                f"models: {who} are to run at the same time, each on GPU {index}; name another, or "
                "a number of GPUs"
            )


def _too_many(engines: Sequence[tuple[str, WantedGpus]], wanted: int, inventory: Inventory) -> str:
    asked = " + ".join(f"{name} {_count(gpus)}" for name, gpus in engines if gpus)
    has = f"{len(inventory.here)} by {inventory.source}"
    if not inventory.here:
        has = f"none ({inventory.absent})"
    return (
        f"{wanted} GPUs are needed at the same time ({asked}) and this machine has {has}; take "
        "fewer replicas or a smaller judge, or measure first and judge later with `tutti score`"
    )
