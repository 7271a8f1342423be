"""EPO on turns: each turn of a dialogue has a weight, and counts the same whatever its length.

L = 1/S sum_i 1/K_i sum_k -min(s_k A_k, clip(s_k) A_k), s_k = exp(mean_t of the turn's log ratios).
A_k is the turn's discounted return less a baseline (`rewards.turns`), so that failures push down;
the released loss (`epo_published`) has neither. Source: arXiv 2502.12486, with GSPO's ratio a turn.
"""

import torch

from tutti.tasks.training.objectives.ratios import clipped, correction, log_ratio
from tutti.tasks.training.objectives.settings import EPO, Clipping
from tutti.tasks.training.objectives.tokens import (
    Loss,
    StepSizes,
    Tensor,
    Tokens,
    by_group,
    mean_by_group,
)


def epo(logp: Tensor, tokens: Tokens, sizes: StepSizes, clip: Clipping = EPO) -> Loss:
    """The micro-batch's share of the loss. Raises ValueError where the tokens have no turns."""
    turn, turns, owner = turns_of(tokens)
    drift = log_ratio(logp, tokens)
    ratio = torch.exp(mean_by_group(drift, turn, turns))
    advantage = mean_by_group(tokens.advantage, turn, turns)
    weight = mean_by_group(correction(tokens, clip.truncate), turn, turns)
    losses, held = clipped(ratio, advantage, clip)
    value = mean_by_group(losses * weight, owner, tokens.sequences).sum() / sizes.sequences
    share = by_group(held.float(), owner, tokens.sequences) / _counts(owner, tokens)
    figures = {
        "clip_share": share.sum() / sizes.sequences,
        "policy_kl": (torch.exp(drift) - drift - 1).detach().sum() / sizes.tokens,
    }
    return Loss(value, figures)


def turns_of(tokens: Tokens) -> tuple[Tensor, int, Tensor]:
    """([T] turn, K, [K] sequence of each turn). Raises ValueError where there are no turns."""
    if tokens.turn is None or tokens.turns <= 0:
        raise ValueError("epo: the batch has no turns")
    owner = torch.zeros(tokens.turns, dtype=torch.int64, device=tokens.turn.device)
    return tokens.turn, tokens.turns, owner.index_copy(0, tokens.turn, tokens.sequence)


def _counts(owner: Tensor, tokens: Tokens) -> Tensor:
    counts = by_group(torch.ones_like(owner, dtype=torch.float32), owner, tokens.sequences)
    return counts.clamp(min=1.0)
