"""A training's state on disk, from which it goes on after a kill as if nothing had happened."""

import os
import random
from pathlib import Path
from typing import Any

import torch

from tutti.tasks.training.trainer.sharding import copy_into, gather, part_as
from tutti.tasks.training.trainer.step import Stepper


def save_state(path: Path, stepper: Stepper, progress: dict[str, Any]) -> None:
    """Write trained weights, optimizer, random state and progress, whole or not at all.

    All processes of the stepper's world must ask; it is written when any of them returns. The file
    has whole tensors, so that another number of processes can go on from it.
    """
    world = stepper.world
    names = {id(each) for each in stepper.policy.parameters}
    named = stepper.policy.model.named_parameters()
    optimizer = stepper.optimizer.state_dict()
    moments = {nth: gather(each.items(), world) for nth, each in optimizer["state"].items()}
    drawn = world.all_values(torch.get_rng_state())
    parts = {
        "weights": gather(((n, p) for n, p in named if id(p) in names), world),
        "optimizer": optimizer | {"state": moments},
        "random": (random.getstate(), drawn[0], *drawn[1:]),
        "progress": progress,
    }
    if world.is_first:
        _write(path, parts)
    world.all_values(None)


def _write(path: Path, parts: dict[str, Any]) -> None:
    temporary = path.with_suffix(".tmp")
    with temporary.open("wb") as out:
        torch.save(parts, out)
        out.flush()
        os.fsync(out.fileno())
    os.replace(temporary, path)


def load_state(path: Path, stepper: Stepper) -> dict[str, Any] | None:
    """Restore what `save_state` wrote; None, and nothing changed, where there is no such file."""
    if not path.is_file():
        return None
    world = stepper.world
    # Each process reads only the pages of the parts that it keeps.
    saved = torch.load(path, weights_only=False, map_location="cpu", mmap=world.size > 1)
    known = dict(stepper.policy.model.named_parameters())
    for name, value in saved["weights"].items():
        copy_into(known[name], value)
    optimizer = stepper.optimizer
    numbered = [each for group in optimizer.param_groups for each in group["params"]]
    for nth, moments in saved["optimizer"]["state"].items():
        for name, value in moments.items():
            if name != "step":
                moments[name] = part_as(value, numbered[nth])
    optimizer.load_state_dict(saved["optimizer"])
    first, *drawn = saved["random"]
    random.setstate(first)
    torch.set_rng_state(drawn[world.rank if world.rank < len(drawn) else 0])
    progress: dict[str, Any] = saved["progress"]
    return progress
