"""What the clipped objectives share: a loss for each token, to be summed by their own rule."""

import torch

from tutti.tasks.training.objectives.ratios import (
    clipped,
    correction,
    kl_to_reference,
    log_ratio,
)
from tutti.tasks.training.objectives.settings import Clipping
from tutti.tasks.training.objectives.tokens import Loss, StepSizes, Tensor, Tokens


def token_losses(
    logp: Tensor, tokens: Tokens, clip: Clipping, log_ratios: Tensor
) -> tuple[Tensor, dict[str, Tensor]]:
    """([T] losses, [T] figures by name) of clipped ratios exp(log_ratios [T])."""
    losses, held = clipped(torch.exp(log_ratios), tokens.advantage, clip)
    losses = losses * correction(tokens, clip.truncate)
    figures = {"clip_share": held.float()}
    if clip.kl > 0:
        kl = kl_to_reference(logp, tokens)
        losses, figures["kl"] = losses + clip.kl * kl, kl
    return losses, figures


def share(
    value: Tensor, figures: dict[str, Tensor], logp: Tensor, tokens: Tokens, sizes: StepSizes
) -> Loss:
    """The loss with the figures as means over the step's tokens."""
    drift = log_ratio(logp, tokens)
    every = figures | {"policy_kl": torch.exp(drift) - drift - 1}
    return Loss(value, {k: v.detach().sum() / sizes.tokens for k, v in every.items()})
