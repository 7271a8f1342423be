"""A training's state on disk, from which it goes on after a kill as if nothing had happened."""

import os
import random
from pathlib import Path
from typing import Any

import torch

from tutti.tasks.training.trainer.step import Stepper


def save_state(path: Path, stepper: Stepper, progress: dict[str, Any]) -> None:
    """Write trained weights, optimizer, random state and progress, whole or not at all."""
    names = {id(each) for each in stepper.policy.parameters}
    trained = {n: p.detach() for n, p in stepper.policy.model.named_parameters() if id(p) in names}
    parts = {
        "weights": trained,
        "optimizer": stepper.optimizer.state_dict(),
        "random": (random.getstate(), torch.get_rng_state()),
        "progress": progress,
    }
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
    saved = torch.load(path, weights_only=False)
    with torch.no_grad():
        known = dict(stepper.policy.model.named_parameters())
        for name, value in saved["weights"].items():
            known[name].copy_(value)
    stepper.optimizer.load_state_dict(saved["optimizer"])
    random.setstate(saved["random"][0])
    torch.set_rng_state(saved["random"][1])
    progress: dict[str, Any] = saved["progress"]
    return progress
