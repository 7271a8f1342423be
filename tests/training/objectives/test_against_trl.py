"""Tests that loss and gradient equal TRL's within 1e-5 (in fact, 1e-9) for objectives that TRL has,
too."""

from collections.abc import Callable
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="torch is in the models environment: make test-models")
pytest.importorskip("trl")

from tests.training.objectives import trl_losses  # noqa: E402
from tests.training.objectives.batches import Batch, batch  # noqa: E402
from tutti.tasks.training.objectives.losses import objective  # noqa: E402

pytestmark = [  # other packages', at their import
    pytest.mark.filterwarnings("ignore:TRL currently supports vLLM"),
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
]
SEEDS = range(20)
TOLERANCE = 1e-9


def same(ours: Any, theirs: Any, logp: Any) -> None:
    """Check that the value and the gradient at every token are equal."""
    assert abs((ours - theirs).item()) < TOLERANCE
    mine, other = (torch.autograd.grad(each, logp, retain_graph=True)[0] for each in (ours, theirs))
    assert float((mine - other).abs().max()) < TOLERANCE


def ours(made: Batch, name: str, settings: dict[str, Any], **more: Any) -> Any:
    tokens = made.tokens(**more)
    return objective(name, settings)(made.flat(made.logp), tokens, made.sizes).value


CLIPPED: list[tuple[str, dict[str, Any], dict[str, Any]]] = [
    ("grpo", {}, {}),
    ("grpo", {"kl": 0.3}, {"beta": 0.3}),
    ("grpo", {"dual": 3.0}, {"delta": 3.0}),
    ("dapo", {}, {"loss_type": "dapo", "clip": (0.2, 0.28)}),
    ("dr_grpo", {}, {"loss_type": "dr_grpo"}),
    ("gspo", {}, {"level": "sequence", "clip": (3e-4, 4e-4)}),
    ("cispo", {"high": 1.5}, {"loss_type": "cispo", "clip": (0.2, 2.5)}),
]


@pytest.mark.parametrize(("name", "settings", "theirs"), CLIPPED)
def test_clipped_objectives(name: str, settings: dict[str, Any], theirs: dict[str, Any]) -> None:
    for seed in SEEDS:
        made = batch(seed)
        inputs = {
            "advantages": made.advantage,
            "old_per_token_logps": made.behaviour,
            "ref_per_token_logps": made.reference,
        }
        loss = trl_losses.grpo_loss(made.logp, made.mask, inputs, **theirs)
        same(ours(made, name, settings), loss, made.logp)


def test_the_truncated_correction_of_the_engines_probabilities() -> None:
    """The ratio is to the trainer's probabilities before the step, weighted by min(old / recorded,
    bound)."""
    for seed in SEEDS:
        made = batch(seed)
        old = made.behaviour + 0.5 * batch(seed + 100).behaviour.sign() * made.reference.sin()
        weight = torch.exp(old - made.behaviour).clamp(max=2.0)
        inputs = {"advantages": made.advantage, "old_per_token_logps": old}
        inputs["importance_sampling_ratio"] = weight
        loss = trl_losses.grpo_loss(made.logp, made.mask, inputs)
        same(ours(made, "grpo", {}, old=made.flat(old)), loss, made.logp)


def in_pairs(made: Batch) -> Any:
    """Return TRL's order of rows, all chosen before all rejected, as indices into ours."""
    return torch.cat([torch.arange(0, len(made.mask), 2), torch.arange(1, len(made.mask), 2)])


def test_dpo() -> None:
    for seed in SEEDS:
        made = batch(seed)
        order = in_pairs(made)
        mask = made.mask.double()
        loss = trl_losses.dpo_loss(made.logp[order], made.reference[order], mask[order], 0.3)
        same(ours(made, "dpo", {"beta": 0.3}), loss, made.logp)


@pytest.mark.parametrize("baseline", [-0.3, 0.0, 0.7])
def test_kto(baseline: float) -> None:
    for seed in SEEDS:
        made = batch(seed)
        wanted, kl = made.advantage > 0, torch.tensor(baseline, dtype=torch.float64)
        if bool(wanted.all()) or not bool(wanted.any()):
            continue
        how = {"beta": 0.3, "wanted": 1.2, "unwanted": 0.8}
        loss = trl_losses.kto_loss(made.logp, made.reference, made.mask.double(), (wanted, kl), how)
        extra = {"wanted": wanted, "baseline": kl}
        same(ours(made, "kto", how, extra=extra), loss, made.logp)


def test_sft_is_the_mean_cross_entropy() -> None:
    made = batch(0)
    mean: Callable[[Any], Any] = lambda values: -values.mean()  # noqa: E731
    same(ours(made, "sft", {}), mean(made.flat(made.logp)), made.logp)
