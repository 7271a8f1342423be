"""Steps taken by one process or by two together: ``launch_many.py 2 THIS FOLDER OTHER``.

Writes its figures to ``FOLDER/seen-RANK.json``, and checkpoints and a state into FOLDER. It
continues from the state in the folder OTHER, which another world size has written.
"""

import json
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from tests.training.trainer.pocket import random_rows, settings
from tutti.tasks.training.objectives import SUPERVISED
from tutti.tasks.training.trainer import model
from tutti.tasks.training.trainer.fit import load_state, save_state
from tutti.tasks.training.trainer.model import Policy
from tutti.tasks.training.trainer.step import Stepper
from tutti.tasks.training.trainer.world import World, gather, join_world

STEPS, SAVED_AFTER = 6, 3
BATCH = {"sequences": 7, "tokens": 100, "layout": "rows"}
CASES: dict[str, dict[str, Any]] = {
    "grpo": {"objective": "grpo"},
    "reference": {"objective": "dapo", "objective_settings": {"kl": 0.1}},
    "kto": {"objective": "kto"},
    "adapter": {"objective": "dpo", "lora": {"rank": 4}, "gradient_checkpointing": True},
    "packed": {"gradient_checkpointing": True, "batch": BATCH | {"layout": "packed"}},
}
"""Two steps each; the second has one micro-batch, so that one of two processes has none."""
COST = ("seconds", "tokens_per_s", "peak_mb", "mfu")


def stepper_of(folder: Path, world: World, **fields: Any) -> Stepper:
    asked = settings(folder, **{"batch": BATCH} | fields)
    torch.manual_seed(0)
    return Stepper(Policy(asked, world), asked)


def take(stepper: Stepper, step: int, count: int = 8) -> dict[str, Any]:
    """Return a step's figures without its cost."""
    rows = random_rows(count, seed=step)
    if stepper.settings.objective in SUPERVISED:  # weights, not advantages
        rows = [replace(row, values=[abs(each) for each in row.values]) for row in rows]
    figures = stepper.take(rows, rate=1e-4)
    return {name: value for name, value in figures.items() if name not in COST}


def run_all(folder: Path, world: World, other: Path | None) -> dict[str, Any]:
    """Run all cases; the first, six steps of supervised training, also saves weights and state."""
    seen: dict[str, Any] = {}
    stepper = stepper_of(folder, world)
    rows = random_rows(8, seed=97)
    seen["micro-batches"] = [counts for _, counts in stepper.cut(rows)]
    seen["here"] = sum(_local(each).numel() for each in stepper.policy.parameters)
    sft = []
    for step in range(STEPS):
        sft.append(take(stepper, step, count=1 if step == 1 else 8))
        sft[-1]["held_out"] = stepper.held_out_loss(rows)
        if step + 1 == SAVED_AFTER:
            save_state(folder / "state.pt", stepper, {"step": SAVED_AFTER})
    seen["sft"] = sft
    _keep(stepper, folder / "sft")
    for name, fields in CASES.items():
        if name == "packed":
            vars(model)["CHUNK_ELEMENTS"] = 40_000
        stepper = stepper_of(folder, world, **fields)
        seen[name] = [take(stepper, 0), take(stepper, 1, count=2)]
        _keep(stepper, folder / name)
    vars(model)["CHUNK_ELEMENTS"] = 2**25
    if other is not None:
        seen["resumed"] = go_on(stepper_of(folder, world), other / "state.pt")
    return seen


def go_on(stepper: Stepper, state: Path) -> list[dict[str, Any]]:
    """Return the steps after a saved state."""
    assert load_state(state, stepper) == {"step": SAVED_AFTER}
    return [take(stepper, step) for step in range(SAVED_AFTER, STEPS)]


def _keep(stepper: Stepper, folder: Path) -> None:
    """Save the checkpoint, and the trained weights in float32."""
    policy = stepper.policy
    policy.save(folder)
    named = ((n, p) for n, p in policy.model.named_parameters() if p.requires_grad)
    trained = gather(named, policy.world)
    if policy.world.is_first:
        torch.save({name: each.clone() for name, each in trained.items()}, folder / "trained.pt")


def _local(parameter: Any) -> Any:
    return parameter.to_local() if hasattr(parameter, "to_local") else parameter


def main() -> None:
    folder, other = (Path(each) for each in sys.argv[1:])
    with join_world() as world:
        seen = run_all(folder, world, other)
        (folder / f"seen-{world.rank}.json").write_text(json.dumps(seen))


if __name__ == "__main__":
    main()
