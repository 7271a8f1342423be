"""DAPO: as GRPO with a higher upper clip, and each token of the step counts the same.

L = 1/(sum_i |o_i|) sum_i sum_t -min(r A_i, clip(r, 1-low, 1+high) A_i), low .2, high .28.
Source: arXiv 2503.14476, eq. 8. Its dynamic sampling is `rewards.filters`, its overlong shaping
`rewards.outcome`: they change which groups and rewards come here, not the loss.
"""

from tutti.tasks.training.objectives.policy import share, token_losses
from tutti.tasks.training.objectives.ratios import log_ratio
from tutti.tasks.training.objectives.settings import DAPO, Clipping
from tutti.tasks.training.objectives.tokens import Loss, StepSizes, Tensor, Tokens


def dapo(logp: Tensor, tokens: Tokens, sizes: StepSizes, clip: Clipping = DAPO) -> Loss:
    """The micro-batch's share of the loss."""
    losses, figures = token_losses(logp, tokens, clip, log_ratio(logp, tokens))
    return share(losses.sum() / sizes.tokens, figures, logp, tokens, sizes)
