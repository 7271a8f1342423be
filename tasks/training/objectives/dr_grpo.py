"""Dr. GRPO: as GRPO, divided by a constant instead of each sequence's length.

L = 1/(S max_tokens) sum_i sum_t -min(r A_i, clip(r) A_i); advantages are r - mean, not divided by a
deviation. Source: arXiv 2503.20783, with the constant of its released code.
"""

from tutti.tasks.training.objectives.policy import share, token_losses
from tutti.tasks.training.objectives.ratios import log_ratio
from tutti.tasks.training.objectives.settings import DR_GRPO, Clipping
from tutti.tasks.training.objectives.tokens import Loss, StepSizes, Tensor, Tokens


def dr_grpo(logp: Tensor, tokens: Tokens, sizes: StepSizes, clip: Clipping = DR_GRPO) -> Loss:
    """The micro-batch's share of the loss. Raises ValueError without `sizes.max_tokens`."""
    if sizes.max_tokens <= 0:
        raise ValueError("dr_grpo: needs max_tokens, the longest answer that the rollouts allow")
    losses, figures = token_losses(logp, tokens, clip, log_ratio(logp, tokens))
    value = losses.sum() / (sizes.sequences * sizes.max_tokens)
    return share(value, figures, logp, tokens, sizes)
