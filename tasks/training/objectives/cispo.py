"""CISPO: the ratio is clipped and weighs the log probability without a gradient of its own.

L = 1/(sum_i |o_i|) sum_i sum_t -stop(min(r, 1+high)) A_i log p, so that no token loses its
gradient. Source: MiniMax-M1, arXiv 2506.13585, eq. 4 and 5 (no lower clip).
"""

import torch

from tutti.tasks.training.objectives.policy import share
from tutti.tasks.training.objectives.ratios import correction, kl_to_reference, log_ratio
from tutti.tasks.training.objectives.settings import CISPO, Clipping
from tutti.tasks.training.objectives.tokens import Loss, StepSizes, Tensor, Tokens


def cispo(logp: Tensor, tokens: Tokens, sizes: StepSizes, clip: Clipping = CISPO) -> Loss:
    """The micro-batch's share of the loss."""
    ratio = torch.exp(log_ratio(logp, tokens))
    weight = ratio.clamp(max=1 + clip.high).detach() * correction(tokens, clip.truncate)
    losses = -weight * tokens.advantage * logp
    figures = {"clip_share": (ratio > 1 + clip.high).float()}
    if clip.kl > 0:
        figures["kl"] = kl_to_reference(logp, tokens)
        losses = losses + clip.kl * figures["kl"]
    return share(losses.sum() / sizes.tokens, figures, logp, tokens, sizes)
