"""GSPO: one ratio a sequence, the geometric mean of its tokens' ratios.

L = 1/S sum_i -min(s_i A_i, clip(s_i, 1-low, 1+high) A_i), s_i = exp(mean_t log r_t).
Source: arXiv 2507.18071, eq. 5 and 7; its clips are 3e-4 and 4e-4.
"""

from tutti.tasks.training.objectives.policy import share, token_losses
from tutti.tasks.training.objectives.ratios import sequence_log_ratio
from tutti.tasks.training.objectives.settings import GSPO, Clipping
from tutti.tasks.training.objectives.tokens import Loss, StepSizes, Tensor, Tokens, mean_by_group


def gspo(logp: Tensor, tokens: Tokens, sizes: StepSizes, clip: Clipping = GSPO) -> Loss:
    """The micro-batch's share of the loss."""
    losses, figures = token_losses(logp, tokens, clip, sequence_log_ratio(logp, tokens))
    of_sequences = mean_by_group(losses, tokens.sequence, tokens.sequences)
    return share(of_sequences.sum() / sizes.sequences, figures, logp, tokens, sizes)
