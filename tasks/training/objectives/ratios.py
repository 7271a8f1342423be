"""Importance ratios, their clipping and truncation, and KL estimates: parts of several objectives.

Truncation is of the ratio between the trainer's and the engine's probabilities of the same weights
(they differ by rounding and kernels) and of stale weights: min(ratio, bound), without gradient.
Source: Yao et al. 2025, "Your efficient RL framework secretly brings you off-policy RL training".
"""

import torch

from tutti.tasks.training.objectives.settings import Clipping
from tutti.tasks.training.objectives.tokens import Tensor, Tokens, mean_by_group


def log_ratio(logp: Tensor, tokens: Tokens) -> Tensor:
    """[T] log of the probability now over that of the weights before the step."""
    return logp - (tokens.behaviour if tokens.old is None else tokens.old)


def sequence_log_ratio(logp: Tensor, tokens: Tokens) -> Tensor:
    """[T] each token's sequence's mean log ratio: GSPO's ratio, length-normalised."""
    means = mean_by_group(log_ratio(logp, tokens), tokens.sequence, tokens.sequences)
    return means[tokens.sequence]


def correction(tokens: Tokens, bound: float) -> Tensor:
    """[T] truncated weight from the engine's probabilities to the trainer's; 1 without `old`."""
    if tokens.old is None:
        return torch.ones_like(tokens.behaviour)
    return torch.exp(tokens.old - tokens.behaviour).clamp(max=bound)


def clipped(ratio: Tensor, advantage: Tensor, clip: Clipping) -> tuple[Tensor, Tensor]:
    """([T] -min(r A, clip(r) A), [T] whether the clip decided). Source: PPO, arXiv 1707.06347."""
    bounded = ratio if clip.dual is None else torch.clamp(ratio, max=clip.dual)
    narrow = torch.clamp(ratio, 1 - clip.low, 1 + clip.high)
    free, held = bounded * advantage, narrow * advantage
    return -torch.min(free, held), (held < free) | (bounded < ratio) & (advantage < 0)


def kl_to_reference(logp: Tensor, tokens: Tokens) -> Tensor:
    """[T] k3 estimate exp(d) - d - 1 of KL(now || reference), d = reference - now; never negative.

    Source: Schulman 2020, "Approximating KL divergence". Raises ValueError without a reference.
    """
    if tokens.reference is None:
        raise ValueError("kl: above 0, but the batch has no log probabilities of a reference model")
    difference = tokens.reference - logp
    return torch.exp(difference) - difference - 1
