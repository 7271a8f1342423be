"""The processes of one training, one per GPU, which `launch_many` starts with TUTTI_WORLD.

Figures and decisions travel as Python values over gloo, weights and gradients over NCCL (gloo on a
CPU). Sums are taken in the order of the ranks, so that all processes have the same bits and make
the same decisions. A model's weights are sharded over all processes (FSDP2). Gradients are summed,
not averaged, because a micro-batch's loss is a share of its step's.
"""

import os
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, TypeVar

import torch
import torch.distributed as dist
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import FSDPModule, fully_shard
from torch.distributed.tensor import DTensor, distribute_tensor

from tutti.tasks.training.launch_many import WORLD

WAIT_S = 1800.0
"""Longest wait for another process, which may be writing weights."""

Value = TypeVar("Value")


@dataclass(frozen=True)
class World:
    """One of `size` processes that train together."""

    rank: int = 0
    size: int = 1

    @property
    def is_first(self) -> bool:
        """Whether this is the first process, the only one that reports and writes."""
        return self.rank == 0

    @property
    def device(self) -> Any:
        """The process's GPU, or the CPU."""
        if not torch.cuda.is_available():
            return torch.device("cpu")
        return torch.device("cuda" if self.size == 1 else f"cuda:{self.rank}")

    def deal(self, items: Sequence[Value]) -> list[tuple[Value, bool]]:
        """Return this process's share of the items, equally many for each process, and whether each
        counts.

        Every forward and backward pass involves all processes, so a process with no items left
        repeats the first item, which does not count.
        """
        rounds = -(-len(items) // self.size)
        mine = [(item, True) for item in items[self.rank :: self.size]]
        return mine + [(items[0], False)] * (rounds - len(mine))

    def all_values(self, value: Value) -> list[Value]:
        """Return the value of each process, by rank."""
        if self.size == 1:
            return [value]
        values: list[Any] = [None] * self.size
        dist.all_gather_object(values, value)
        return values

    def from_first(self, value: Value) -> Value:
        """Return the first process's value."""
        if self.size == 1:
            return value
        values = [value]
        dist.broadcast_object_list(values, src=0, device=torch.device("cpu"))
        return values[0]

    def total(self, figures: dict[str, float], largest: str) -> dict[str, float]:
        """Each figure summed over the processes that have it; those in `largest` are maximised."""
        totals: dict[str, float] = {}
        for name, value in (item for each in self.all_values(figures) for item in each.items()):
            known = totals.get(name, 0.0)
            totals[name] = max(known, value) if name == largest else known + value
        return totals


ALONE = World()


@contextmanager
def join_world() -> Iterator[World]:
    """Provide the world of this process during the block. Raises ValueError if there are fewer GPUs
    than processes."""
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


Tensor = Any


def shard(root: Any, model: Any, world: World) -> None:
    """Shard the weights of `root`, which holds the transformers model `model`; do nothing in a
    world of one process. Raises ValueError for a model that does not name the class of its
    layers."""
    if world.size == 1:
        return
    kinds = set(getattr(model, "_no_split_modules", None) or ())
    layers = [each for each in model.modules() if type(each).__name__ in kinds]
    if not layers:
        raise ValueError(f"{type(model).__name__} names no layers that could be put on many GPUs")
    mesh = init_device_mesh(world.device.type, (world.size,))
    for layer in layers:
        fully_shard(layer, mesh=mesh)
    # The root too is in parts again after each pass: else `parameters` would be whole after a pass
    # without gradient, and stale after the next step.
    fully_shard(root, mesh=mesh, reshard_after_forward=True)
    for module in root.modules():
        if isinstance(module, FSDPModule):
            module.set_gradient_divide_factor(1.0)
            module.set_force_sum_reduction_for_comms(True)  # gloo has no scaled sum


def whole(tensor: Tensor) -> Tensor:
    """Return the whole of a sharded tensor; all processes must call it."""
    return tensor.full_tensor() if isinstance(tensor, DTensor) else tensor


def gather(
    named: Iterable[tuple[str, Tensor]], world: World, dtype: Any = None
) -> dict[str, Tensor]:
    """Return whole tensors on the first process's CPU, one at a time; {} on the others. In a world
    of one process, only the type of the tensors changes."""
    gathered = {}
    for name, each in named:
        full = whole(each.detach())
        full = full if dtype is None else full.to(dtype)
        if world.is_first:
            gathered[name] = full if world.size == 1 else full.cpu()
    return gathered


def part_as(value: Tensor, like: Tensor) -> Tensor:
    """Return this process's shard of a whole tensor, sharded as `like` is; the value itself if
    `like` is whole. Every process has the value, so none is sent."""
    if not isinstance(like, DTensor):
        return value
    value = value.to(like.device)
    return distribute_tensor(value, like.device_mesh, like.placements, src_data_rank=None).clone()


def copy_into(parameter: Tensor, value: Tensor) -> None:
    """Set a parameter, sharded or not."""
    with torch.no_grad():
        parameter.copy_(part_as(value, parameter))
