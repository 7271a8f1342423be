"""TRL's losses on plain tensors: its unbound methods with a stub in place of the trainer."""

from collections import defaultdict
from types import SimpleNamespace
from typing import Any
from unittest.mock import MagicMock

import torch

Tensor = Any


def _trainer(**fields: Any) -> Any:
    """Return a stub whose unset attributes accept any call and change nothing."""
    stub = MagicMock()
    stub._metrics = {mode: defaultdict(list) for mode in ("train", "eval")}
    stub.accelerator.num_processes = 1
    stub.accelerator.device = torch.device("cpu")
    for name in ("gather", "gather_for_metrics"):
        setattr(stub.accelerator, name, lambda value: value)
    for name, value in fields.items():
        setattr(stub, name, value)
    return stub


def grpo_loss(
    logp: Tensor,
    mask: Tensor,
    inputs: dict[str, Tensor],
    loss_type: str = "grpo",
    level: str = "token",
    clip: tuple[float, float] = (0.2, 0.2),
    **args: Any,
) -> Tensor:
    """Return GRPOTrainer's loss of log probabilities [B, T] with mask [B, T]; `inputs` has its
    names."""
    from trl.trainer.grpo_trainer import GRPOTrainer

    entropies = torch.zeros_like(mask, dtype=torch.float64)
    known = {"delta": None, "use_bias_correction_kl": False, "steps_per_generation": 1}
    stub = _trainer(
        _get_per_token_logps_and_entropies=lambda *a, **k: (logp, entropies, None),
        top_entropy_quantile=1.0,
        off_policy_mask_threshold=None,
        importance_sampling_level=level,
        loss_type=loss_type,
        epsilon_low=clip[0],
        epsilon_high=clip[1],
        beta=args.pop("beta", 0.0),
        use_vllm="importance_sampling_ratio" in inputs,
        vllm_importance_sampling_correction=True,
        current_gradient_accumulation_steps=1,
        max_completion_length=args.pop("max_completion_length", mask.shape[1]),
        _entropy_bonus_enabled=False,
        aux_loss_enabled=False,
        args=SimpleNamespace(**known | args),
    )
    batch = {
        "prompt_ids": torch.zeros(len(mask), 1, dtype=torch.long),
        "prompt_mask": torch.ones(len(mask), 1, dtype=torch.long),
        "completion_ids": torch.zeros_like(mask, dtype=torch.long),
        "completion_mask": mask,
        "num_items_in_batch": mask.sum(),
    }
    return GRPOTrainer._compute_loss(stub, MagicMock(), batch | inputs)


class _Outputs:
    """A model's output; any other attribute, used for metrics, is 0."""

    def __init__(self, logp: Tensor) -> None:
        self.log_probs = logp

    def __getattr__(self, name: str) -> Tensor:
        kind = torch.bool if name == "is_top1" else self.log_probs.dtype
        return torch.zeros_like(self.log_probs, dtype=kind)


def dpo_loss(logp: Tensor, reference: Tensor, mask: Tensor, beta: float) -> Tensor:
    """Return DPOTrainer's loss: rows are all chosen, then all rejected; log probabilities are
    masked."""
    from trl.trainer.dpo_trainer import DPOTrainer

    ref_chosen, ref_rejected = (reference * mask).sum(1).chunk(2)
    stub = _trainer(
        aux_loss_enabled=False,
        ld_alpha=None,
        precompute_ref_logps=True,
        f_divergence_type="reverse_kl",
        loss_types=["sigmoid"],
        loss_weights=[1.0],
        beta=beta,
        use_weighting=False,
        args=SimpleNamespace(use_weighting=False, label_smoothing=0.0),
    )
    whole = torch.cat([torch.zeros(len(mask), 1), mask], 1)
    batch = {
        "input_ids": torch.zeros_like(whole, dtype=torch.long),
        "attention_mask": torch.ones_like(whole, dtype=torch.long),
        "completion_mask": whole.long(),
        "ref_chosen_logps": ref_chosen,
        "ref_rejected_logps": ref_rejected,
    }
    model = MagicMock(return_value=_Outputs(logp * mask))
    return DPOTrainer._compute_loss(stub, model, batch, False)


def kto_loss(
    logp: Tensor,
    reference: Tensor,
    mask: Tensor,
    said: tuple[Tensor, Tensor],
    how: dict[str, float],
) -> Tensor:
    """Return KTOTrainer's loss; `said` has the desirable answers [B] and the mean gain of
    mismatched ones []."""
    from trl.trainer.kto_trainer import KTOTrainer

    wanted, baseline = said
    whole = torch.cat([torch.zeros(len(mask), 1), mask], 1)
    stub = _trainer(
        aux_loss_enabled=False,
        calculate_KL=True,
        precompute_ref_logps=True,
        loss_type="kto",
        _compute_kl_logps=lambda *a: baseline.expand(len(mask)),
        desirable_weight=how["wanted"],
        undesirable_weight=how["unwanted"],
        beta=how["beta"],
    )
    batch = {
        "input_ids": torch.zeros_like(whole, dtype=torch.long),
        "attention_mask": torch.ones_like(whole, dtype=torch.long),
        "completion_mask": whole.long(),
        "label": wanted,
        "ref_logps": (reference * mask).sum(1),
        "ref_KL_logps": torch.zeros(len(mask)),
    }
    model = MagicMock(return_value=_Outputs(logp * mask))
    return KTOTrainer._compute_loss(stub, model, batch, False)
