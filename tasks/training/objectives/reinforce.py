"""REINFORCE with a truncated importance weight: for leave-one-out and REINFORCE++ advantages.

L = 1/(sum_i |o_i|) sum_i sum_t -stop(min(r, truncate)) A_t log p. Where the weights that sampled
are those that are trained, r = 1 and this is the policy gradient itself.
Advantages are `rewards.advantages`. Source: RLOO arXiv 2402.14740; REINFORCE++ arXiv 2501.03262.
"""

import torch

from tutti.tasks.training.objectives.policy import share
from tutti.tasks.training.objectives.ratios import kl_to_reference, log_ratio
from tutti.tasks.training.objectives.settings import REINFORCE, Clipping
from tutti.tasks.training.objectives.tokens import Loss, StepSizes, Tensor, Tokens


def reinforce(logp: Tensor, tokens: Tokens, sizes: StepSizes, clip: Clipping = REINFORCE) -> Loss:
    """The micro-batch's share of the loss; of `clip` it reads `truncate` and `kl`."""
    ratio = torch.exp(log_ratio(logp, tokens))
    losses = -ratio.clamp(max=clip.truncate).detach() * tokens.advantage * logp
    figures = {"clip_share": (ratio > clip.truncate).float()}
    if clip.kl > 0:
        figures["kl"] = kl_to_reference(logp, tokens)
        losses = losses + clip.kl * figures["kl"]
    return share(losses.sum() / sizes.tokens, figures, logp, tokens, sizes)
