"""The processes of one training, one a GPU: who this one is, and what all of them know.

In: TUTTI_WORLD, which `launch_many` sets. Without it the training is one process, and nothing here
changes what it does. Figures and decisions travel as Python values over gloo, weights and gradients
over NCCL (on a CPU, gloo). Sums are taken in the order of the ranks, so that all processes have
the same bits and decide alike.
"""

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, TypeVar

import torch
import torch.distributed as dist

from tutti.tasks.training.launch_many import WORLD

WAIT_S = 1800.0
"""Longest wait for another process, which may be writing weights. One that has ended is noticed at
once, by `launch_many`."""

Value = TypeVar("Value")


@dataclass(frozen=True)
class World:
    """One of `size` processes that train together."""

    rank: int = 0
    size: int = 1

    @property
    def is_first(self) -> bool:
        """The first process alone reports and writes."""
        return self.rank == 0

    @property
    def device(self) -> Any:
        """The process's GPU, or the CPU."""
        if not torch.cuda.is_available():
            return torch.device("cpu")
        return torch.device("cuda" if self.size == 1 else f"cuda:{self.rank}")

    def deal(self, items: Sequence[Value]) -> list[tuple[Value, bool]]:
        """This process's part of the items, as many for each process; and whether it counts.

        Every forward and backward pass takes all processes. So one that has none left takes the
        first item again, which does not count.
        """
        rounds = -(-len(items) // self.size)
        mine = [(item, True) for item in items[self.rank :: self.size]]
        return mine + [(items[0], False)] * (rounds - len(mine))

    def all_values(self, value: Value) -> list[Value]:
        """The value of each process, by rank."""
        if self.size == 1:
            return [value]
        found: list[Any] = [None] * self.size
        dist.all_gather_object(found, value)
        return found

    def from_first(self, value: Value) -> Value:
        """The first process's value."""
        if self.size == 1:
            return value
        told: list[Any] = [value if self.is_first else None]
        dist.broadcast_object_list(told, src=0, device=torch.device("cpu"))
        decided: Value = told[0]
        return decided

    def total(self, figures: dict[str, float], largest: str) -> dict[str, float]:
        """Each figure summed over the processes that have it; of `largest` the largest."""
        totals: dict[str, float] = {}
        for name, value in (item for each in self.all_values(figures) for item in each.items()):
            if name not in totals:
                totals[name] = value
            elif name == largest:
                totals[name] = max(totals[name], value)
            else:
                totals[name] += value
        return totals


ALONE = World()


@contextmanager
def join_world() -> Iterator[World]:
    """The world of this process, during the block.

    Raises ValueError where there are fewer GPUs than processes.
    """
    if (place := os.environ.get(WORLD)) is None:
        yield ALONE
        return
    rank, size, meeting = place.split(" ", 2)
    world = World(int(rank), int(size))
    on_gpu = torch.cuda.is_available()
    if on_gpu and torch.cuda.device_count() < world.size:
        raise ValueError(f"{size} processes, but torch sees {torch.cuda.device_count()} GPUs")
    if on_gpu:
        torch.cuda.set_device(world.device)
    dist.init_process_group(
        "cpu:gloo,cuda:nccl" if on_gpu else "gloo",
        init_method=f"file://{meeting}",
        rank=world.rank,
        world_size=world.size,
        timeout=timedelta(seconds=WAIT_S),
    )
    yield world
    # Only after a block without an error: after one, the others may not be there to take part.
    world.all_values(None)  # none leaves while the first still writes
    dist.destroy_process_group()
