"""Tests of properties of objectives for any batch, and of manually computed values."""

import math
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="torch is in the models environment: make test-models")

from tests.training.objectives.batches import Batch, batch, rows_of  # noqa: E402
from tests.training.rewards.published import published_weights  # noqa: E402
from tutti.tasks.training.jobs.rewards import Dialogue, turn_advantages  # noqa: E402
from tutti.tasks.training.objectives import OBJECTIVES  # noqa: E402
from tutti.tasks.training.objectives.losses import StepSizes, Tokens, objective  # noqa: E402

POLICY = ["grpo", "dapo", "dr_grpo", "gspo", "cispo", "reinforce", "epo"]
EVERY = sorted(OBJECTIVES)


def turns_of(made: Batch, length: int = 3) -> dict[str, Any]:
    """Return turns of `length` tokens, numbered over the batch."""
    place = made.flat(torch.arange(made.mask.shape[1])[None].expand_as(made.mask)) // length
    key = made.sequence * 100 + place
    number = torch.unique_consecutive(key, return_inverse=True)[1]
    return {"turn": number, "turns": int(number.max()) + 1}


def loss_of(made: Batch, name: str, sizes: StepSizes | None = None, **settings: Any) -> Any:
    extra = {"wanted": made.advantage > 0, "baseline": torch.tensor(0.1, dtype=torch.float64)}
    turns = {} if name == "sdpo" else turns_of(made)
    if name == "sdpo":  # one turn a sequence: segments of equally many turns
        turns = {"turn": made.sequence, "turns": len(made.mask)}
    tokens = made.tokens(extra=extra, **turns)
    run = objective(name, settings)
    return run(made.flat(made.logp), tokens, sizes or made.sizes).value


def gradient(value: Any, logp: Any) -> Any:
    return torch.autograd.grad(value, logp, retain_graph=True)[0]


@pytest.mark.parametrize("name", [each for each in EVERY if each != "epo_published"])
def test_how_a_step_is_cut_into_micro_batches_changes_nothing(name: str) -> None:
    """The shares of 2 and of 4 rows sum to the loss of all 6. The released EPO loss is a sum."""
    made = batch(3)
    whole = loss_of(made, name)
    parts = [rows_of(made, 0, 2), rows_of(made, 2, 6)]
    cut = sum(loss_of(part, name, sizes=made.sizes) for part in parts)
    assert (whole - cut).item() == pytest.approx(0.0, abs=1e-12)
    difference = gradient(whole, made.logp) - gradient(cut, made.logp)
    assert float(difference.abs().max()) < 1e-12


@pytest.mark.parametrize("name", POLICY)
def test_groups_of_equal_outcomes_give_no_gradient(name: str) -> None:
    """Advantages are 0 for any ratios."""
    made = batch(1)
    made = Batch(made.logp, made.mask, made.behaviour, made.reference, 0 * made.advantage)
    assert float(gradient(loss_of(made, name), made.logp).abs().max()) == 0.0


@pytest.mark.parametrize("name", POLICY)
def test_success_is_pushed_up_and_failure_down(name: str) -> None:
    """On policy, each token's gradient has the sign of its sequence's advantage."""
    made = batch(2, drift=0.0)
    found = -gradient(loss_of(made, name), made.logp)
    signs = torch.sign(made.advantage)[:, None].expand_as(found)
    inside = made.mask.bool()
    assert bool((torch.sign(found[inside]) == signs[inside]).all())
    assert float(found[~inside].abs().max()) == 0.0, "padding is not trained"


@pytest.mark.parametrize("name", POLICY)
def test_the_order_of_sequences_does_not_matter(name: str) -> None:
    made = batch(4)
    order = torch.tensor([3, 0, 5, 1, 4, 2])
    names = (made.logp, made.mask, made.behaviour, made.reference, made.advantage)
    mixed = Batch(*(each[order] for each in names))
    assert (loss_of(made, name) - loss_of(mixed, name)).item() == pytest.approx(0.0, abs=1e-12)


@pytest.mark.parametrize("name", EVERY)
def test_gradients_are_those_of_the_value(name: str) -> None:
    """The reference uses finite differences; clipped weights, whose gradient is deliberately
    stopped, are excluded."""
    if name in ("cispo", "reinforce"):
        pytest.skip("its weight has no gradient by definition")
    made = batch(5, rows=4, width=4, drift=0.05)
    logp = made.logp.detach().requires_grad_()

    def value(at: Any) -> Any:
        parts = (at, made.mask, made.behaviour, made.reference, made.advantage)
        return loss_of(Batch(*parts), name)

    assert torch.autograd.gradcheck(value, (logp,), eps=1e-7, atol=1e-5)


def test_grpo_by_hand() -> None:
    """Two sequences: ratios 1.5 and 1.0 with A = 1 (1.5 clipped to 1.2), ratio 0.5 with A = -1
    (clipped at 0.8): -(1.2 + 1.0) / 2 = -1.1 and 0.8, mean -0.15. Token-level: -1.4 / 3."""
    logp = torch.log(torch.tensor([1.5, 1.0, 0.5]))
    tokens = Tokens(
        sequence=torch.tensor([0, 0, 1]),
        sequences=2,
        behaviour=torch.zeros(3),
        advantage=torch.tensor([1.0, 1.0, -1.0]),
    )
    found = objective("grpo", {})(logp, tokens, StepSizes(3, 2))
    assert found.value.item() == pytest.approx(-0.15)
    assert float(found.figures["clip_share"]) == pytest.approx(2 / 3)
    dapo = objective("dapo", {"high": 0.2})(logp, tokens, StepSizes(3, 2))
    assert float(dapo.value) == pytest.approx((-1.2 - 1.0 + 0.8) / 3)
    dr = objective("dr_grpo", {})(logp, tokens, StepSizes(3, 2, max_tokens=10))
    assert float(dr.value) == pytest.approx((-1.2 - 1.0 + 0.8) / 20)


def test_dpo_by_hand() -> None:
    """Gains of 2 and -1 at beta .1 give -log sigmoid(.3)."""
    tokens = Tokens(
        sequence=torch.tensor([0, 1]),
        sequences=2,
        behaviour=torch.zeros(2),
        advantage=torch.zeros(2),
        reference=torch.tensor([-3.0, -1.0]),
    )
    found = objective("dpo", {})(torch.tensor([-1.0, -2.0]), tokens, StepSizes(2, 2))
    assert found.value.item() == pytest.approx(math.log(1 + math.exp(-0.3)))


def dialogues(weights: list[list[float]], length: int = 2) -> tuple[Any, Tokens, StepSizes]:
    """Return dialogues of turns of `length` tokens, on policy, with each turn's weight."""
    counts = [len(each) * length for each in weights]
    sequence = torch.repeat_interleave(torch.arange(len(weights)), torch.tensor(counts))
    turns = sum(len(each) for each in weights)
    turn = torch.repeat_interleave(torch.arange(turns), length)
    flat = torch.tensor([w for each in weights for w in each for _ in range(length)])
    behaviour = torch.full((len(flat),), -1.0)
    logp = behaviour.clone().requires_grad_()
    tokens = Tokens(sequence, len(weights), behaviour, flat, turn=turn, turns=turns)
    return logp, tokens, StepSizes(len(flat), len(weights))


def test_epo_as_published_never_pushes_down_and_ours_does() -> None:
    """A failed dialogue with two picks is reinforced as published and penalised with the
    baseline."""
    good = Dialogue(1.0, (False, False, True, False, False, True))
    bad = Dialogue(0.0, (False, False, True, False, False, True))
    weights = [published_weights(good), published_weights(bad)]
    logp, tokens, sizes = dialogues(weights)
    found = -gradient(objective("epo_published", {})(logp, tokens, sizes).value, logp)
    assert bool((found >= 0).all()) and float(found[12:].sum()) > 0
    logp, tokens, sizes = dialogues(turn_advantages([good, bad]))
    found = -gradient(objective("epo", {})(logp, tokens, sizes).value, logp)
    assert bool((found[:12] > 0).all()) and bool((found[12:] < 0).all())


def test_epo_as_published_is_the_released_double_loop() -> None:
    """The loss is -(1/K) sum_k (s_k / |T_k|) sum_t log p, summed over the dialogues."""
    weights = [[0.2, 1.0, 0.5], [0.9]]
    logp, tokens, sizes = dialogues(weights, length=3)
    slow = 0.0
    for which, each in enumerate(weights):
        for k, weight in enumerate(each):
            first = sum(len(w) for w in weights[:which]) + k
            slow -= weight / 3 * logp[tokens.turn == first].sum().item() / len(each)
    value = objective("epo_published", {})(logp, tokens, sizes).value
    assert value.item() == pytest.approx(slow)


def test_what_a_batch_lacks_is_said() -> None:
    """The error names the missing field before a step is taken."""
    made = batch(0, rows=3)
    bare = Tokens(made.sequence, 3, made.flat(made.behaviour), made.flat(made.advantage))
    flat, sizes = made.flat(made.logp), StepSizes(int(made.mask.sum()), 3)
    cases: list[tuple[str, dict[str, Any], str]] = [
        ("grpo", {"kl": 0.1}, "reference"),
        ("dr_grpo", {}, "max_tokens"),
        ("epo", {}, "turns"),
        ("dpo", {}, "not pairs"),
        ("sft", {}, "sum to 0"),
    ]
    for name, settings, said in cases:
        with pytest.raises(ValueError, match=said):
            objective(name, settings)(flat, bare, sizes)
    for name, settings, said in (("gpro", {}, "is none of"), ("grpo", {"hihg": 1}, "'hihg'")):
        with pytest.raises(ValueError, match=said):
            objective(name, settings)
