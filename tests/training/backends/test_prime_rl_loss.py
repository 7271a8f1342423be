"""Tests of the losses that prime-rl imports, against manually computed values."""

import runpy
import sys
from dataclasses import dataclass
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

pytest.importorskip("torch", reason="torch is in the models environment")

import torch

from tutti.tasks.platform.project import PACKAGE

FILE = PACKAGE / "tasks" / "training" / "backends" / "written" / "tutti_loss.py.txt"


@dataclass
class LossOutputs:
    """Fake of prime-rl's class with its two fields."""

    loss: Any
    metrics: dict[str, Any]


@pytest.fixture()
def losses(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """Return the functions of the file, with only the class that they construct from prime-rl."""
    for name in ("prime_rl", "prime_rl.trainer", "prime_rl.trainer.rl", "prime_rl.trainer.rl.loss"):
        module = ModuleType(name)
        vars(module)["LossOutputs"] = LossOutputs
        monkeypatch.setitem(sys.modules, name, module)
    return runpy.run_path(str(FILE))


def inputs(ratios: list[float], advantages: list[float]) -> Any:
    """Return tokens of which the last is not trained."""
    old = torch.full((len(ratios),), -1.0)
    new = (old + torch.tensor(ratios).log()).requires_grad_()
    mask = torch.tensor([True] * (len(ratios) - 1) + [False])
    return SimpleNamespace(
        trainer_logprobs=new,
        inference_logprobs=old,
        advantages=torch.tensor(advantages),
        loss_mask=mask,
        loss_weights=None,
    )


def test_dapo_clips_on_both_sides_and_the_dual(losses: dict[str, Any]) -> None:
    """A ratio of 2 of a good token counts as 1.28, 0.5 of a bad one as 0.8, and 5 of a bad one as
    3."""
    given = inputs([2.0, 0.5, 5.0, 9.0], [1.0, -1.0, -1.0, 1.0])
    made = losses["dapo"](given, 0.2, 0.28, 2.0)
    assert made.loss.item() == pytest.approx(-1.28 + 0.8 + 5.0)
    assert made.metrics["clip_share"].item() == pytest.approx(2 / 3)
    dual = losses["dapo"](given, 0.2, 0.28, 2.0, dual=3.0)
    assert dual.loss.item() == pytest.approx(-1.28 + 0.8 + 3.0)


def test_cispo_and_reinforce_keep_the_gradient_of_clipped_tokens(losses: dict[str, Any]) -> None:
    given = inputs([2.0, 1.0, 1.0], [1.0, -1.0, 1.0])
    losses["cispo"](given, 0.2, 0.5, 9.0).loss.backward()
    assert given.trainer_logprobs.grad.tolist() == pytest.approx([-1.5, 1.0, 0.0])
    given = inputs([2.0, 1.0, 1.0], [1.0, -1.0, 1.0])
    losses["reinforce"](given, 0.2, 0.2, 1.8).loss.backward()
    assert given.trainer_logprobs.grad.tolist() == pytest.approx([-1.8, 1.0, 0.0])
