"""GRPO: clipped ratios, each sequence's mean over its tokens, mean over the sequences.

L = 1/S sum_i 1/|o_i| sum_t ( -min(r A_i, clip(r, 1-low, 1+high) A_i) + kl k3 ).
Source: DeepSeekMath, arXiv 2402.03300, eq. 3 (advantages are given; see `rewards.advantages`).
"""

from tutti.tasks.training.objectives.policy import share, token_losses
from tutti.tasks.training.objectives.ratios import log_ratio
from tutti.tasks.training.objectives.settings import GRPO, Clipping
from tutti.tasks.training.objectives.tokens import Loss, StepSizes, Tensor, Tokens, mean_by_group


def grpo(logp: Tensor, tokens: Tokens, sizes: StepSizes, clip: Clipping = GRPO) -> Loss:
    """The micro-batch's share of the loss."""
    losses, figures = token_losses(logp, tokens, clip, log_ratio(logp, tokens))
    of_sequences = mean_by_group(losses, tokens.sequence, tokens.sequences)
    return share(of_sequences.sum() / sizes.sequences, figures, logp, tokens, sizes)
