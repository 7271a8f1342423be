"""A model whose weights lie in parts on all processes (FSDP2), and whole tensors from the parts.

Each decoder layer is gathered for its own forward and backward pass, all else for the whole
model's. Gradients are summed, not averaged: a micro-batch's loss is a share of its step's.
"""

from collections.abc import Iterable
from typing import Any

import torch
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import FSDPModule, fully_shard
from torch.distributed.tensor import DTensor, distribute_tensor

from tutti.tasks.training.trainer.world import World

Tensor = Any


def shard(root: Any, model: Any, world: World) -> None:
    """Part the weights of `root`, which holds the transformers model `model`; nothing where the
    world is one process.

    Raises ValueError for a model that does not name its layers' class.
    """
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
    """The whole of a tensor that lies in parts; all processes must ask."""
    return tensor.full_tensor() if isinstance(tensor, DTensor) else tensor


def gather(
    named: Iterable[tuple[str, Tensor]], world: World, dtype: Any = None
) -> dict[str, Tensor]:
    """Whole tensors on the first process's CPU, one at a time; {} on the others. In a world of one,
    the tensors as they are, but for their type."""
    found = {}
    for name, each in named:
        full = whole(each.detach())
        full = full if dtype is None else full.to(dtype)
        if world.size == 1:
            found[name] = full
        elif world.is_first:
            found[name] = full.cpu()
    return found


def part_as(value: Tensor, like: Tensor) -> Tensor:
    """This process's part of a whole tensor, in parts as `like` is; the value itself where `like`
    is whole. Every process has the value, so none is sent."""
    if not isinstance(like, DTensor):
        return value
    value = value.to(like.device)
    return distribute_tensor(value, like.device_mesh, like.placements, src_data_rank=None).clone()


def copy_into(parameter: Tensor, value: Tensor) -> None:
    """Set a parameter, in parts or not."""
    with torch.no_grad():
        parameter.copy_(part_as(value, parameter))
