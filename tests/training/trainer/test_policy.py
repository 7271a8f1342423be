"""Tests that log probabilities and losses are independent of the layout of rows and equal the
model's own."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="torch is in the models environment: make test-models")

from tests.training.trainer.pocket import random_rows, settings  # noqa: E402
from tutti.tasks.training.trainer.batching import collate, row_groups  # noqa: E402
from tutti.tasks.training.trainer.flops import size_of, step_flops  # noqa: E402
from tutti.tasks.training.trainer.model import Policy  # noqa: E402
from tutti.tasks.training.trainer.step import Stepper, mismatched  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")
ROWS = random_rows(7, seed=1)


def by_token(batch: Any, values: Any) -> dict[tuple[str, int], float]:
    """Return each trained token's value, by its row's name and its index among the trained
    tokens."""
    found: dict[tuple[str, int], float] = {}
    counts: dict[str, int] = {}
    for which, value in zip(batch.sequence.tolist(), values.tolist(), strict=True):
        name = batch.rows[which].name
        found[name, counts.setdefault(name, 0)] = value
        counts[name] += 1
    return found


def test_layouts_give_each_token_its_models_own_probability(tmp_path: Path) -> None:
    """Packed, padded and single rows agree within 1e-5 with plain transformers."""
    policy = Policy(settings(tmp_path))
    with torch.no_grad():
        found = []
        for packed in (True, False):
            batch = collate(ROWS, packed)
            found.append(by_token(batch, policy.log_probs(batch)))
        for row in ROWS:
            ids = torch.tensor([row.ids])
            logp = policy.model(ids).logits.float().log_softmax(-1)[0]
            wanted = [n for n in range(1, len(row.ids)) if row.turns[n] >= 0]
            for place, at in enumerate(wanted):
                own = logp[at - 1, row.ids[at]].item()
                assert [each[row.name, place] for each in found] == pytest.approx(
                    [own] * 2, abs=1e-5
                )
    assert len(found[0]) == sum(row.trained for row in ROWS)


@pytest.mark.parametrize("objective", ["sft", "grpo", "dapo", "epo", "dpo", "kto"])
def test_a_step_is_the_same_in_every_layout(tmp_path: Path, objective: str) -> None:
    """Loss, figures and gradient agree in one micro-batch, in many, packed and padded."""
    rows = random_rows(8, seed=2)
    seen = []
    for layout, tokens in (("rows", 4096), ("rows", 100), ("packed", 4096), ("packed", 100)):
        asked = settings(
            tmp_path,
            objective=objective,
            batch={"sequences": 8, "tokens": tokens, "layout": layout},
        )
        torch.manual_seed(0)
        stepper = Stepper(Policy(asked), asked)
        taken: dict[str, Any] = stepper.take(rows, rate=0.0)
        cost = ("seconds", "tokens_per_s", "peak_mb", "mfu")
        assert taken["peak_mb"] > 50 and taken["mfu"] is None, "a CPU has no known peak"
        taken = {k: v for k, v in taken.items() if k not in cost}
        seen.append(taken)
    for other in seen[1:]:
        assert other == pytest.approx(seen[0], rel=2e-4, abs=2e-5)


def test_a_long_vocabularys_logits_are_made_in_chunks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Values, entropies and gradients are equal."""
    from tutti.tasks.training.trainer import model

    policy = Policy(settings(tmp_path))
    batch = collate(ROWS, packed=False)
    seen = []
    for elements in (2**25, 40_000):
        monkeypatch.setattr(model, "CHUNK_ELEMENTS", elements)
        logp, entropy = policy.measured(batch)
        policy.model.zero_grad()
        logp.sum().backward()
        gradient = policy.model.get_input_embeddings().weight.grad
        seen.append((logp.detach().clone(), gradient.clone(), entropy))
    assert torch.allclose(seen[0][0], seen[1][0], atol=1e-6)
    assert torch.allclose(seen[0][1], seen[1][1], atol=1e-4)
    assert seen[1][2].item() == pytest.approx(seen[0][2].item(), rel=1e-5)


def test_the_entropy_is_that_of_the_models_own_distribution(tmp_path: Path) -> None:
    """A step's entropy is the mean over trained tokens, in nats, before the step."""
    asked = settings(tmp_path)
    policy = Policy(asked)
    total = count = 0.0
    with torch.no_grad():
        for row in ROWS:
            logits = policy.model(torch.tensor([row.ids])).logits[0]
            known = torch.distributions.Categorical(logits=logits).entropy()
            wanted = [n - 1 for n in range(1, len(row.ids)) if row.turns[n] >= 0]
            total, count = total + known[wanted].sum().item(), count + len(wanted)
    taken: dict[str, Any] = Stepper(policy, asked).take(ROWS, rate=0.01)
    assert taken["entropy"] == pytest.approx(total / count, rel=1e-4)


def test_a_known_peak_gives_the_share_of_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TUTTI_PEAK_TFLOPS", "0.5")
    asked = settings(tmp_path)
    stepper = Stepper(Policy(asked), asked)
    taken: dict[str, Any] = stepper.take(ROWS, rate=0.0)
    lengths, trained = [len(row.ids) for row in ROWS], sum(row.trained for row in ROWS)
    flops = step_flops(size_of(stepper.policy.model), lengths, trained)
    assert taken["mfu"] == pytest.approx(flops / taken["seconds"] / 0.5e12)


def test_the_size_of_a_model_leaves_out_what_costs_nothing(tmp_path: Path) -> None:
    """Tied embeddings count once, as the head; an adapter trains only its own weights."""
    whole = Policy(settings(tmp_path))
    found = size_of(whole.model)
    assert found.body + found.head == whole.size and found.trained_body == found.body
    adapted = Policy(settings(tmp_path, lora={"rank": 4}))
    small = size_of(adapted.model)
    assert small.trained_body == sum(p.numel() for p in adapted.parameters)
    assert small.trained_head == 0 and small.body == found.body + small.trained_body


def test_preferences_show_rewards_of_both_sides(tmp_path: Path) -> None:
    """Before any step all rewards are 0; after some steps, those of chosen answers are positive."""
    rows = [replace(row, wanted=nth % 2 == 0) for nth, row in enumerate(random_rows(8, seed=5))]
    names = ("chosen_reward", "rejected_reward", "margin")
    for objective in ("dpo", "kto"):
        asked = settings(tmp_path, objective=objective)
        stepper = Stepper(Policy(asked), asked)
        before: dict[str, Any] = stepper.take(rows, rate=1e-3)
        assert [before[name] for name in names] == pytest.approx([0.0] * 3, abs=1e-3)
        for _ in range(3):
            after: dict[str, Any] = stepper.take(rows, rate=1e-3)
        assert after["margin"] == pytest.approx(after["chosen_reward"] - after["rejected_reward"])
        assert after["margin"] > 0.01 and ("preference_accuracy" in after) == (objective == "dpo")


def test_an_adapters_reference_is_its_base(tmp_path: Path) -> None:
    asked = settings(tmp_path, lora={"rank": 4})
    policy = Policy(asked)
    batch = collate(ROWS, packed=False)
    with torch.no_grad():
        before = policy.log_probs(batch).clone()
    Stepper(policy, asked).take(ROWS, rate=0.05)
    assert torch.allclose(policy.reference_log_probs(batch), before, atol=1e-5)
    assert not torch.allclose(policy.log_probs(batch), before, atol=1e-3)


def test_pairs_stay_together_and_no_micro_batch_is_too_large() -> None:
    rows = random_rows(20, seed=3)
    for packed in (True, False):
        made = [collate(each, packed) for each in row_groups(rows, 150, packed, unit=2)]
        names = [[row.name for row in batch.rows] for batch in made]
        for each in names:
            assert all(int(b) == int(a) + 1 for a, b in zip(each[::2], each[1::2], strict=True))
        assert sorted(int(n) for each in names for n in each) == list(range(20))
        assert all(len(batch.rows) == 2 or batch.ids.numel() <= 150 for batch in made)


def test_mismatched_answers_are_the_next_rows() -> None:
    one, two = random_rows(2, seed=4)
    first, second = mismatched([one, two])
    asked, said = one.turns.index(0), two.turns.index(0)
    assert first.ids == [*one.ids[:asked], *two.ids[said:]]
    assert second.trained == one.trained
